"""What a tune has measured anyway, as lessons for run time: which path comes first, what votes weigh, when to stop."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import comb
from typing import Any, NamedTuple

from coda_dspy import answers
from coda_dspy.evaluation import Gradable, PoolRecord, Result
from coda_dspy.evaluation.selecting import Judgment
from coda_dspy.evaluation.statistics import accuracy
from coda_dspy.learned import Learned, Lessons, Share
from coda_dspy.task import Path

from .answer_counts import fit_answer_counts
from .corroboration import corroboration
from .paths import PathComparison
from .skills import Votes
from .weights import judging, voting

LEAST = 10  # questions on which paths have to have met before one of them is called better


def learn(
    questions: Sequence[Gradable],
    records: Sequence[PoolRecord] = (),
    compared: PathComparison | None = None,
    judgments: Mapping[str, Sequence[Judgment]] | None = None,
) -> Learned:
    """The lessons of a tune, by kind of question.

    Args:
        questions: The validation questions; what is known of others is left out.
        records: The pool of a budget on them. Votes that ended early may be among them: when to end was decided by the
            votes that are there, which does not change their likelihood.
        compared: One direct and one coded answer to each.
        judgments: What each judge preferred, by its name.

    Returns:
        Lessons for each kind on which something could be learned.
    """
    found = {}
    for kind in dict.fromkeys(question.task.kind for question in questions):
        ids = {question.id for question in questions if question.task.kind == kind}
        lessons = _lessons(
            [record for record in records if record.id in ids],
            _of_kind(compared, ids),
            {name: [j for j in made if j.id in ids] for name, made in (judgments or {}).items()},
        )
        if lessons != Lessons():
            found[kind] = lessons
    return Learned.parse(found)


def _lessons(
    records: Sequence[PoolRecord], compared: PathComparison | None, judgments: Mapping[str, Sequence[Judgment]]
) -> Lessons:
    votes = _votes(records, compared)
    meet = _meeting(records, votes)
    parts: dict[str, Any] = {
        "answers": fit_answer_counts([[len(members) for members in record.classes] for record in records]),
        "judges": {name: judging(made) for name, made in judgments.items() if made},
        **(voting(votes, meet, _wrong_pairs(records, compared)) if len(meet) >= LEAST else {}),
    }
    known: dict[Path, float] = {path: found.weight for path, found in parts.get("votes", {}).items()}
    parts["corroboration"] = corroboration(records, lambda path: known[path] if any(known.values()) else 1.0)
    if compared is not None:
        parts |= {"first_path": compared.better, "agreement": _agreement(compared)}
    return Lessons(**parts)


def _of_kind(compared: PathComparison | None, ids: set[str]) -> PathComparison | None:
    if compared is None:
        return None
    rows = [row for row in zip(*compared, strict=True) if row[0].id in ids]
    return PathComparison(*zip(*rows, strict=True)) if rows else None


def _votes(records: Sequence[PoolRecord], compared: PathComparison | None) -> dict[str, Votes]:
    """Every vote that could be graded, by question. An attempt without an answer is no vote."""
    votes: defaultdict[str, defaultdict[Path, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        for candidate, right in zip(record.candidates, record.grades, strict=True):
            if right is not None:
                votes[record.id][candidate.path].append(right)
    for question, direct, code in _beside(records, compared):
        if direct is not None and direct.correct is not None:
            votes[question.id]["direct"].append(direct.correct)
        if code is not None and code.correct is not None:
            votes[question.id]["code"].append(code.correct)
    return dict(votes)


class _Row(NamedTuple):
    """One direct and one coded answer to a question; `None` where there is none, or the pool has the very sample."""

    question: Gradable
    direct: Result | None
    code: Result | None


def _beside(records: Sequence[PoolRecord], compared: PathComparison | None) -> list[_Row]:
    """What the comparison adds to the pool: with nested sampling, both may have drawn the same sample."""
    pool = {record.id: record for record in records}

    def added(path: Path, result: Result) -> Result | None:
        sample = (path, 0, result.answer, result.tokens)
        known = pool[result.id].candidates if result.id in pool else ()
        drawn = any((c.path, c.attempt, c.answer, c.tokens) == sample for c in known)
        return None if result.answer is None or drawn else result

    rows = zip(*compared, strict=True) if compared is not None else ()
    return [_Row(question, added("direct", direct), added("code", code)) for question, direct, code in rows]


def _meeting(records: Sequence[PoolRecord], votes: Mapping[str, Votes]) -> set[str]:
    """Questions on which votes of several paths met: in the pool, or where these are too few, anywhere."""
    in_pool = {record.id for record in records if len({candidate.path for candidate in record.candidates}) > 1}
    return in_pool if len(in_pool) >= LEAST else {name for name, of in votes.items() if len(of) > 1}


def _wrong_pairs(records: Sequence[PoolRecord], compared: PathComparison | None) -> list[tuple[int, int]]:
    """Pairs of wrong votes on a question: how many mean the same, and how many there are."""
    found = [_agreeing(record) for record in records]
    for question, direct, code in _beside(records, compared):
        if direct is not None and code is not None and not direct.correct and not code.correct:
            found.append((int(answers.same(question.task, direct.answer, code.answer)), 1))
    return found


def _agreeing(record: PoolRecord) -> tuple[int, int]:
    wrong = [len(members) for members in record.classes if record.grades[members[0]] is False]
    return sum(comb(n, 2) for n in wrong), comb(sum(wrong), 2)


def _agreement(compared: PathComparison) -> Share:
    """How often the paths agree; an answer that is missing agrees with none."""
    rows = zip(*compared, strict=True)
    agreeing = [replace(d, correct=answers.same(question.task, d.answer, c.answer)) for question, d, c in rows]
    return Share(**accuracy(agreeing)._asdict())
