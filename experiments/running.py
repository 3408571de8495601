"""Measure the rows of a table: all in one folder and on one cache, so that they share samples.

Block by block, every variant on the same questions, so that a run that is cut short has whole rows to show.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import dspy

from coda_dspy import AdaptiveCoda, Budget
from coda_dspy.algorithms import with_algorithm
from coda_dspy.data import Question
from coda_dspy.errors import UserError
from coda_dspy.evaluation import Result, Stop, evaluate_in, new_session
from coda_dspy.program import Conductor

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


@dataclass(frozen=True)
class Setup:
    """How rows are measured: all in one folder and on one cache, so that they share samples.

    Args:
        lm: The engine.
        folder: Where each row gets a folder of its own.
        cache: The cache of all of them; by default it lies in the folder.
        samples: Answers to each question.
        workers: Questions at the same time.
        stop: When to start no further question.
        on_result: Called for every result.
        session: Name of this process, for the results.
    """

    lm: dspy.LM
    folder: Path
    cache: Path | None = None
    samples: int = 1
    workers: int = 8
    stop: Stop = field(default_factory=Stop)
    on_result: Callable[[Result], None] = lambda result: None
    session: str = field(default_factory=new_session)


def run(table: Table, questions: Sequence[Question], budget: Budget, setup: Setup) -> list[Row]:
    """Measure a table; the same call goes on after a crash.

    Args:
        table: What to compare.
        questions: On what; all of kinds that the table is about.
        budget: What the table's variants change.
        setup: How to measure.

    Returns:
        The rows in the order of the table, derived ones last; only of questions that every variant has answered.

    Raises:
        UserError: A question is of another kind, or the folder holds another run.
    """
    strange = sorted({question.kind for question in questions} - set(table.kinds))
    if strange:
        raise UserError(f"{table.name} is about {' and '.join(table.kinds)}, but there are {strange[0]} questions")
    programs = {variant.name: _program(variant, budget) for variant in table.variants}
    rows = measure(table.name, programs, questions, setup)
    return [*rows, *(_derived(derived, rows) for derived in table.derived)]


def measure(table: str, programs: Mapping[str, Conductor], questions: Sequence[Question], setup: Setup) -> list[Row]:
    """Have several programs answer the same questions.

    Args:
        table: What the comparison is called.
        programs: What to compare, by the names of the rows.
        questions: On what.
        setup: How to measure.

    Returns:
        A row for each program; only of questions that all of them have answered.

    Raises:
        UserError: The folder holds another run.
    """
    found: dict[str, list[Result]] = {name: [] for name in programs}
    for block in _blocks(questions, 2 * setup.workers):
        for name, program in programs.items():
            found[name] += evaluate_in(
                setup.folder / name.replace(" ", "-"),
                program,
                block,
                setup.lm,
                {"table": table, "variant": name},
                samples=setup.samples,
                workers=setup.workers,
                stop=setup.stop,
                on_result=setup.on_result,
                cache=setup.cache or setup.folder / "cache",
                session=setup.session,
            )
    return common([Row(name, results) for name, results in found.items()])


def common(rows: Sequence[Row]) -> list[Row]:
    """The rows with what all of them have answered."""
    in_all = set.intersection(*({(result.id, result.sample) for result in row.results} for row in rows))
    return [replace(row, results=[r for r in row.results if (r.id, r.sample) in in_all]) for row in rows]


def _blocks(questions: Sequence[Question], size: int) -> Iterator[list[Question]]:
    """The questions in blocks of about the given size; steps of one problem stay together."""
    block: list[Question] = []
    for question in questions:
        if len(block) >= size and question.previous != block[-1].id:
            yield block
            block = []
        block.append(question)
    yield block


def _program(variant: Variant, budget: Budget) -> Conductor:
    program = AdaptiveCoda(budget.replace(**variant.budget))
    return with_algorithm(program, variant.algorithm)


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
