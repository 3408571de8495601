"""Compare selectors on a pool: what each would have chosen, without generating any candidate again."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from coda_dspy.budget import Budget
from coda_dspy.concurrency import fan_out
from coda_dspy.errors import UserError
from coda_dspy.program import refuse_silence
from coda_dspy.question import open_question
from coda_dspy.selectors import Ballot, Scores, Selector, decide, majority
from coda_dspy.task import Task
from coda_dspy.verifier import Verifier
from coda_dspy.voting import AnswerClass

from .pool import PoolRecord
from .result import Result
from .statistics import Accuracy, Difference, Estimate, accuracy, closure_of, paired_difference

# Those that ask no engine; `plurality` is another name for the mode that the paper calls majority voting.
OFFLINE = ("majority", "plurality", "first", "oracle")
ASKING = ("judge", "pairwise")
SELECTORS = (*OFFLINE, *ASKING)


class Selection(NamedTuple):
    """What one selector makes of a pool.

    Args:
        name: The selector.
        accuracy: Of its choices.
        closure: (selected - chance) / (recall - chance); `None` where there is no gap to close.
        gain: Against majority voting, paired.
        tokens: Tokens a question that it took on top; `None` where the engine does not say.
    """

    name: str
    accuracy: Accuracy
    closure: Estimate | None
    gain: Difference
    tokens: float | None


def compare(
    records: Sequence[PoolRecord], names: Sequence[str], verifier: Verifier, budget: Budget, workers: int = 8
) -> list[Selection]:
    """Each selector on the same records.

    Args:
        records: Of a pool; those that nobody can grade are left out. Without a candidate nothing right can be chosen.
        names: Of `SELECTORS`.
        verifier: Whose judges are asked, on the engine of the context.
        budget: How they are asked: temperature, length, effort.
        workers: Questions at a time.

    Raises:
        UserError: No record can be used, an unknown selector, or a judge on a pool without texts.
    """
    usable = [record for record in records if record.hit_rate is not None]
    if not usable:
        raise UserError("the pool holds no graded candidate; evaluate questions whose answers are known")
    for name in names:
        if name not in SELECTORS:
            raise UserError(f"selector {name!r} does not exist; choose one of: {', '.join(SELECTORS)}")
    voted = _selected(usable, "majority", verifier, budget, workers)
    return [_selection(name, _selected(usable, name, verifier, budget, workers), voted) for name in names]


def _selection(name: str, chosen: list[Result], voted: list[Result]) -> Selection:
    tokens = [result.tokens for result in chosen]
    return Selection(
        name,
        accuracy(chosen),
        closure_of(chosen),
        paired_difference(voted, chosen),
        None if None in tokens else sum(t for t in tokens if t is not None) / len(tokens),
    )


def _selected(
    records: Sequence[PoolRecord], name: str, verifier: Verifier, budget: Budget, workers: int
) -> list[Result]:
    """What a selector chooses in each record, as results."""
    results: list[Result] = []
    for start in range(0, len(records), workers):
        results += fan_out(lambda record: _choice(record, name, verifier, budget), records[start : start + workers])
    return results


def _choice(record: PoolRecord, name: str, verifier: Verifier, budget: Budget) -> Result:
    if not record.candidates:
        return Result(record.id, correct=False, sample=record.sample, tokens=0, recalled=False, hit_rate=0.0)
    classes = [AnswerClass(record.candidates[members[0]].answer, members) for members in record.classes]
    ballot = Ballot(record.candidates, classes)
    if name not in ASKING or len(classes) == 1:
        return _result(record, ballot, _offline(name if name in OFFLINE else "majority", record)(ballot), 0)
    if record.task is None:
        raise UserError(f"{record.id} is private, so the pool holds no text for {name} to read; use another selector")

    with open_question(Task.of(**record.task), budget, "plain") as question:
        scores = verifier.selector(name)(ballot)
        refuse_silence(question)
    return _result(record, ballot, scores, question.ledger.tokens())


def _offline(name: str, record: PoolRecord) -> Selector:
    selectors: dict[str, Selector] = {
        "majority": majority,
        "plurality": majority,
        "first": _first,
        "oracle": partial(_oracle, grades=record.grades),
    }
    return selectors[name]


def _first(ballot: Ballot) -> Scores:
    """The class of the first candidate."""
    return Scores([float(0 in c.members) for c in ballot.classes])


def _oracle(ballot: Ballot, grades: Sequence[bool | None]) -> Scores:
    """A right class, where there is one: the most that any selector could do."""
    return Scores([float(bool(grades[c.members[0]])) for c in ballot.classes])


def _result(record: PoolRecord, ballot: Ballot, scores: Scores, tokens: int | None) -> Result:
    chosen = decide(ballot, scores).candidate
    place = next(place for place, candidate in enumerate(record.candidates) if candidate is chosen)
    return Result(
        record.id,
        chosen.answer,
        correct=record.grades[place],
        path=chosen.path,
        tokens=tokens,
        sample=record.sample,
        recalled=record.recalled,
        hit_rate=record.hit_rate,
    )
