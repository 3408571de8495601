"""Measure the variants of a table: all in one folder and on one cache, so that they share samples.

Block by block, every variant on the same questions, so that a run that is cut short has whole rows to show.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dspy

from coda_dspy import AdaptiveCoda, Budget
from coda_dspy.algorithms import with_algorithm
from coda_dspy.data import Question
from coda_dspy.errors import UserError
from coda_dspy.evaluation import Result, Stop, evaluate_in

from .tables import Derived, Table, Variant


@dataclass(frozen=True)
class Row:
    """One row of a measured table.

    Args:
        name: The variant.
        results: Its results, a question and sample each.
        measured: False for a row that was read off the candidates of others.
    """

    name: str
    results: Sequence[Result]
    measured: bool = True


def run(
    table: Table,
    questions: Sequence[Question],
    lm: dspy.LM,
    folder: Path,
    *,
    budget: Budget,
    samples: int = 1,
    workers: int = 8,
    stop: Stop | None = None,
    on_result: Callable[[Result], None] = lambda result: None,
    session: str = "",
) -> list[Row]:
    """Measure a table; the same call goes on after a crash.

    Args:
        table: What to compare.
        questions: On what; all of kinds that the table is about.
        lm: The engine.
        folder: Where each variant gets a folder of its own, and all of them one cache.
        budget: What the table's variants change.
        samples: Answers to each question.
        workers: Questions at the same time.
        stop: When to start no further question.
        on_result: Called for every result.
        session: Name of this process, for the results.

    Returns:
        The rows in the order of the table, derived ones last; only of questions that every variant has answered.

    Raises:
        UserError: A question is of another kind, or the folder holds another run.
    """
    strange = sorted({question.kind for question in questions} - set(table.kinds))
    if strange:
        raise UserError(f"{table.name} is about {' and '.join(table.kinds)}, but there are {strange[0]} questions")
    stop = stop or Stop()
    found: dict[str, list[Result]] = {variant.name: [] for variant in table.variants}
    for block in _blocks(questions, 2 * workers):
        for variant in table.variants:
            found[variant.name] += evaluate_in(
                folder / variant.name.replace(" ", "-"),
                _program(variant, budget),
                block,
                lm,
                {"table": table.name, "variant": variant.name},
                samples=samples,
                workers=workers,
                stop=stop,
                on_result=on_result,
                cache=folder / "cache",
                session=session,
            )
    measured = [Row(name, results) for name, results in found.items()]
    common = _in_all(measured)
    rows = [Row(row.name, [r for r in row.results if (r.id, r.sample) in common]) for row in measured]
    return [*rows, *(_derived(derived, rows) for derived in table.derived)]


def _blocks(questions: Sequence[Question], size: int) -> Iterator[list[Question]]:
    """The questions in blocks of about the given size; steps of one problem stay together."""
    block: list[Question] = []
    for question in questions:
        if len(block) >= size and question.previous != block[-1].id:
            yield block
            block = []
        block.append(question)
    yield block


def _program(variant: Variant, budget: Budget) -> Any:
    program = AdaptiveCoda(budget.replace(**variant.budget))
    return with_algorithm(program, variant.algorithm)


def _in_all(rows: Sequence[Row]) -> set[tuple[str, int]]:
    answered = [{(result.id, result.sample) for result in row.results} for row in rows]
    return set.intersection(*answered)


def _derived(derived: Derived, rows: Sequence[Row]) -> Row:
    """Right where any candidate of the named variants is; it costs what they cost together."""
    named = [row.results for row in rows if row.name in derived.variants]
    results = [
        replace(
            group[0],
            correct=any(result.recalled for result in group),
            known_tokens=sum(result.known_tokens for result in group),
            tokens=None if any(r.tokens is None for r in group) else sum(r.tokens or 0 for r in group),
            billed_tokens=None,
            calls=sum(result.calls for result in group),
            billed_calls=sum(result.billed_calls for result in group),
            seconds=sum(result.seconds for result in group),
            stages={},
        )
        for group in zip(*named, strict=True)
    ]
    return Row(derived.name, results, measured=False)
