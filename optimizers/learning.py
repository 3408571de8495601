"""What a tune has measured anyway, as lessons for run time: which path comes first, what votes weigh, when to stop."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from coda_dspy import answers
from coda_dspy.evaluation import Gradable, PoolRecord, Result
from coda_dspy.evaluation.selecting import Judgment
from coda_dspy.evaluation.statistics import accuracy
from coda_dspy.learned import Learned, Lessons, Share
from coda_dspy.task import PATHS, Path

from .answer_counts import fit_answer_counts
from .paths import PathComparison
from .weights import judging, voting

LEAST = 10  # questions that paths have to have in common before one of them is called better
Votes = dict[str, dict[Path, list[bool]]]  # whether the votes of each path are right, by question


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
    votes, pairs = _votes(records, compared), _wrong_pairs(records, compared)
    parts: dict[str, Any] = {
        "answers": fit_answer_counts([[len(members) for members in record.classes] for record in records]),
        "judges": {name: judging(made) for name, made in judgments.items() if made},
        **voting(_in_common(votes), pairs),
    }
    if compared is not None:
        parts |= {"first_path": compared.better, "agreement": _agreement(compared)}
    return Lessons(**parts)


def _of_kind(compared: PathComparison | None, ids: set[str]) -> PathComparison | None:
    if compared is None:
        return None
    rows = [row for row in zip(*compared, strict=True) if row[0].id in ids]
    return PathComparison(*zip(*rows, strict=True)) if rows else None


def _votes(records: Sequence[PoolRecord], compared: PathComparison | None) -> Votes:
    """Every vote that could be graded. An attempt without an answer is no vote."""
    votes: Votes = defaultdict(lambda: defaultdict(list))
    for record in records:
        for candidate, right in zip(record.candidates, record.grades, strict=True):
            if right is not None:
                votes[record.id][candidate.path].append(right)
    for question, direct, code in zip(*compared, strict=True) if compared is not None else ():
        votes[question.id]["direct"] += _graded(direct)
        votes[question.id]["code"] += _graded(code)
    return votes


def _graded(result: Result) -> list[bool]:
    return [result.correct] if result.answer is not None and result.correct is not None else []


def _in_common(votes: Votes) -> dict[Path, list[float]]:
    """The share of right votes of each path, a question each, on questions on which all these paths voted.

    Only the same questions make paths comparable: step 3 of Algorithm 2, for one, is asked nothing but hard ones. Where
    all paths together have too few in common, direct and coded answers may have enough.
    """
    seen: list[Path] = [path for path in PATHS if any(by_path[path] for by_path in votes.values())]
    for paths in (seen, [path for path in seen if path != "coda"]):
        common = [by_path for by_path in votes.values() if all(by_path[path] for path in paths)]
        if len(paths) > 1 and len(common) >= LEAST:
            return {path: [sum(by_path[path]) / len(by_path[path]) for by_path in common] for path in paths}
    return {}


def _wrong_pairs(records: Sequence[PoolRecord], compared: PathComparison | None) -> list[float]:
    """Of two wrong votes on the same question: how often they mean the same, a question each."""
    found = [_agreeing(record) for record in records]
    for question, direct, code in zip(*compared, strict=True) if compared is not None else ():
        if not direct.correct and not code.correct and direct.answer is not None and code.answer is not None:
            found.append(float(answers.same(question.task, direct.answer, code.answer)))
    return [share for share in found if share is not None]


def _agreeing(record: PoolRecord) -> float | None:
    wrong = [len(members) for members in record.classes if record.grades[members[0]] is False]
    pairs = sum(wrong) * (sum(wrong) - 1)
    return sum(n * (n - 1) for n in wrong) / pairs if pairs else None


def _agreement(compared: PathComparison) -> Share:
    """How often the paths agree; an answer that is missing agrees with none."""
    rows = zip(*compared, strict=True)
    agreeing = [replace(d, correct=answers.same(question.task, d.answer, c.answer)) for question, d, c in rows]
    return Share(**accuracy(agreeing)._asdict())
