"""How well an engine judges: asked on validation questions to which it gave both a right and a wrong answer."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from coda_dspy.concurrency import fan_out
from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.errors import EngineSilent
from coda_dspy.evaluation import PoolRecord, Result
from coda_dspy.evaluation.selecting import JUDGES, Judgment, judgments
from coda_dspy.selectors.costs import judges_of
from coda_dspy.task import PATHS, Path

from .budgets import has_a_choice
from .plan import MOST_JUDGED
from .workbench import CHOICE_ENDS, Workbench, key_of


def judge(bench: Workbench, program: AdaptiveCoda, records: Sequence[PoolRecord]) -> dict[str, list[Judgment]]:
    """What each judge prefers, of one right and one wrong answer to each of at most `MOST_JUDGED` questions.

    Args:
        bench: Keeps what was judged, and knows how much time is left.
        program: Its judges are asked, at its budget; none where that budget leaves a judge nothing to choose among.
        records: A pool on the validation questions. Private ones, which hold no texts, are left out.
    """
    if not has_a_choice(program.budget):
        return {}
    pairs = [pair for record in records if (pair := pair_of(record)) is not None][:MOST_JUDGED]
    asked = {name: [pair for pair in pairs if name in judges_of(kind_of(pair))] for name in JUDGES}
    bench.watcher.phase("judges", sum(map(len, asked.values())))
    return {name: _judged(bench, program, name, fit) for name, fit in asked.items() if fit}


def kind_of(record: PoolRecord) -> str:
    """The kind of a question that is not private."""
    return str((record.task or {})["kind"])


def pair_of(record: PoolRecord) -> PoolRecord | None:
    """The record with its leading right and its leading wrong answer alone; `None` where there are not both.

    They are of one path, or else it would show in their form how likely each is to be right; of Algorithm 1 where it
    gave both, for its answers are what judges are there for.
    """
    pair = leading_pair(record)
    if pair is None:
        return None
    kept = sorted((*pair.right, *pair.wrong))
    return replace(
        record,
        candidates=tuple(record.candidates[i] for i in kept),
        grades=tuple(record.grades[i] for i in kept),
        classes=tuple(tuple(kept.index(i) for i in members) for members in sorted(pair)),
    )


class LeadingPair(NamedTuple):
    """Positions of the candidates of the leading right answer, and of the leading wrong one."""

    right: tuple[int, ...]
    wrong: tuple[int, ...]


def leading_pair(record: PoolRecord) -> LeadingPair | None:
    """The candidates of `pair_of`."""
    pairs = [] if record.task is None else [_leading(record, path) for path in reversed(PATHS)]
    return next((pair for pair in pairs if pair is not None), None)


def _leading(record: PoolRecord, path: Path) -> LeadingPair | None:
    classes = [tuple(i for i in members if record.candidates[i].path == path) for members in record.classes]
    right, wrong = (
        max((c for c in classes if c and record.grades[c[0]] is grade), key=len, default=()) for grade in (True, False)
    )
    return LeadingPair(right, wrong) if right and wrong else None


def _judged(bench: Workbench, program: AdaptiveCoda, name: str, pairs: Sequence[PoolRecord]) -> list[Judgment]:
    """Those that are kept from before, and the others as far as the time suffices."""
    store = bench.folder.store(f"{name} {key_of(program)}")
    made = {row["id"]: Judgment(**row) for row in store.read()}
    left = [pair for pair in pairs if pair.id not in made]
    for start in range(0, len(left), bench.workers):
        if bench.seconds_to(CHOICE_ENDS) <= 0:
            bench.notes.append(f"the time limit left {len(left) - start} of {len(pairs)} questions to {name} out")
            break
        for judgment in fan_out(lambda pair: _judgment(program, name, pair), left[start : start + bench.workers]):
            if judgment is not None:
                made[judgment.id] = judgment
                store.append(judgment._asdict())
                bench.on_result(Result(judgment.id, session=bench.session))
    return [made[pair.id] for pair in pairs if pair.id in made]


def _judgment(program: AdaptiveCoda, name: str, pair: PoolRecord) -> Judgment | None:
    """`None` where the engine gave no reply: a judge that was not heard has not judged."""
    try:
        (judgment,) = judgments([pair], name, program.coda.verifier, program.budget, adapter=program.adapter)
    except EngineSilent:
        return None
    return judgment
