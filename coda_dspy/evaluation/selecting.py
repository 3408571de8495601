"""Compare selectors on a pool: what each would have chosen, without generating any candidate again."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar, get_args

from coda_dspy.budget import VERIFIERS, Budget
from coda_dspy.concurrency import fan_out
from coda_dspy.errors import UserError
from coda_dspy.learned import JudgeName, Learned
from coda_dspy.program import refuse_silence
from coda_dspy.question import open_question
from coda_dspy.selectors import Ballot, Scores, Selector, decide, majority
from coda_dspy.selectors.costs import judges_of
from coda_dspy.task import Path, Task
from coda_dspy.verifier import Verifier, vote_weight
from coda_dspy.voting import AnswerClass

from .pool import PoolRecord
from .result import Result
from .statistics import Accuracy, Difference, Estimate, accuracy, closure_of, paired_difference
from .unlabelled import estimated

S = TypeVar("S")
T = TypeVar("T")
# Those that ask no engine; `plurality` is another name for the mode that the paper calls majority voting.
OFFLINE = ("majority", "plurality", "first", "oracle")
JUDGES: tuple[JudgeName, ...] = get_args(JudgeName)
OF_VERIFIER = tuple(name for name in VERIFIERS if name != "majority")  # chosen as the verifier chooses
# `weighted`, by weights that are estimated on the pool itself, without its gold answers.
UNLABELLED = "unlabelled"
SELECTORS = (*OFFLINE, *OF_VERIFIER, UNLABELLED)


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


class Judgment(NamedTuple):
    """What a judge preferred among classes some of which are right and some wrong.

    Args:
        id: The question's id.
        right: Whether the class that it preferred is right; `None` where it preferred no single one.
        chance: The share of the classes that are right.
        contradicted: Whether it said something else in another order; `None` where it was not asked in two.
    """

    id: str
    right: bool | None
    chance: float
    contradicted: bool | None = None


def compare(
    records: Sequence[PoolRecord],
    names: Sequence[str],
    verifier: Verifier,
    budget: Budget,
    workers: int = 8,
    learned: Learned | None = None,
    adapter: str | None = "plain",
) -> list[Selection]:
    """Each selector on the same records.

    Args:
        records: Of a pool; those that nobody can grade are left out. Without a candidate nothing right can be chosen.
        names: Of `SELECTORS`.
        verifier: Whose judges are asked, on the engine of the context.
        budget: How they are asked: temperature, length, effort.
        workers: Questions at a time.
        learned: What votes weigh, for `weighted`.
        adapter: `plain` or `sections`, as judges are asked.

    Raises:
        UserError: No record can be used, an unknown selector, `weighted` without weights, or a judge on a pool without
            texts.
    """
    usable = [record for record in records if record.hit_rate is not None]
    if not usable:
        raise UserError("the pool holds no graded candidate; evaluate questions whose answers are known")
    for name in names:
        if name not in SELECTORS:
            raise UserError(f"selector {name!r} does not exist; choose one of: {', '.join(SELECTORS)}")
    kinds = {record.task["kind"] for record in usable if record.task is not None}
    if "weighted" in names and not any((learned or Learned()).of(kind).votes for kind in kinds):
        raise UserError(
            "selector weighted needs what votes on such questions weigh; give --profile with one that says so"
        )

    def selected(name: str) -> list[Result]:
        known = learned
        if name == UNLABELLED:
            name, known = "weighted", without_gold(usable, verifier, budget, workers, adapter)
        return _in_groups(lambda record: _choice(record, name, verifier, budget, known, adapter), usable, workers)

    voted = selected("majority")
    return [_selection(name, selected(name), voted) for name in names]


def without_gold(
    records: Sequence[PoolRecord], verifier: Verifier, budget: Budget, workers: int = 8, adapter: str | None = "plain"
) -> Learned:
    """What votes and judges weigh, estimated without looking at what is right (see `unlabelled`).

    Every judge that suits a question is asked, where its candidates disagree; the arguments are those of `compare`.
    """
    asked = [
        (name, place)
        for place, record in enumerate(records)
        if record.task is not None and len(record.classes) > 1
        for name in judges_of(record.task["kind"])
    ]

    def opinion(one: tuple[JudgeName, int]) -> int | None:
        return _asked(records[one[1]], one[0], verifier, budget, None, adapter)[1].preferred

    preferred: dict[JudgeName, dict[int, int]] = {name: {} for name in JUDGES}
    for (name, place), said in zip(asked, _in_groups(opinion, asked, workers), strict=True):
        if said is not None:
            preferred[name][place] = said
    return estimated(records, preferred)


def judgments(
    records: Sequence[PoolRecord],
    judge: str,
    verifier: Verifier,
    budget: Budget,
    workers: int = 8,
    adapter: str | None = "plain",
) -> list[Judgment]:
    """What a judge prefers where the candidates disagree and it matters: some classes are right, and some wrong.

    Args:
        records: Of a pool; others than those, private ones, and those that nobody can grade are left out.
        judge: One of `JUDGES`.
        verifier: Whose judges are asked, on the engine of the context.
        budget: How they are asked.
        workers: Questions at a time.
        adapter: See `compare`.
    """
    open_to_choice = [record for record in records if record.task is not None and 0 < _chance(record) < 1]
    return _in_groups(lambda record: _judgment(record, judge, verifier, budget, adapter), open_to_choice, workers)


def _chance(record: PoolRecord) -> float:
    """Share of the classes that are right; 0 where nobody knows."""
    right = [record.grades[members[0]] for members in record.classes]
    return 0.0 if None in right or not right else sum(map(bool, right)) / len(right)


def _judgment(record: PoolRecord, judge: str, verifier: Verifier, budget: Budget, adapter: str | None) -> Judgment:
    scores = _asked(record, judge, verifier, budget, None, adapter)[1]
    preferred = scores.preferred
    right = None if preferred is None else record.grades[record.classes[preferred][0]]
    return Judgment(record.id, right, _chance(record), scores.contradicted)


def _selection(name: str, chosen: list[Result], voted: list[Result]) -> Selection:
    tokens = [result.tokens for result in chosen]
    return Selection(
        name,
        accuracy(chosen),
        closure_of(chosen),
        paired_difference(voted, chosen),
        None if None in tokens else sum(t for t in tokens if t is not None) / len(tokens),
    )


def _in_groups(of: Callable[[S], T], items: Sequence[S], workers: int) -> list[T]:
    results: list[T] = []
    for start in range(0, len(items), workers):
        results += fan_out(of, items[start : start + workers])
    return results


def _choice(
    record: PoolRecord, name: str, verifier: Verifier, budget: Budget, learned: Learned | None, adapter: str | None
) -> Result:
    """What a selector chooses in a record, as a result."""
    if not record.candidates:
        return Result(record.id, correct=False, sample=record.sample, tokens=0, recalled=False, hit_rate=0.0)
    if name not in OF_VERIFIER or len(record.classes) == 1:
        ballot = _ballot(record, lambda path: 1)
        return _result(record, ballot, _offline(name if name in OFFLINE else "majority", record)(ballot), 0)
    return _result(record, *_asked(record, name, verifier, budget, learned, adapter))


def _asked(
    record: PoolRecord, name: str, verifier: Verifier, budget: Budget, learned: Learned | None, adapter: str | None
) -> tuple[Ballot, Scores, int | None]:
    """What the verifier's selector says, and the tokens that it took."""
    if record.task is None:
        raise UserError(f"{record.id} is private, so the pool holds no text for {name} to read; use another selector")
    task = Task.of(**record.task)
    with open_question(task, budget.replace(verifier=name), adapter, learned) as question:
        ballot = _ballot(record, vote_weight)
        scores = verifier.selector(name)(ballot)
        refuse_silence(question)
    return ballot, scores, question.ledger.tokens()


def _ballot(record: PoolRecord, weight: Callable[[Path], int]) -> Ballot:
    weights = [weight(candidate.path) for candidate in record.candidates]
    classes = [
        AnswerClass(record.candidates[members[0]].answer, members, sum(weights[i] for i in members))
        for members in record.classes
    ]
    return Ballot(record.candidates, classes)


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
