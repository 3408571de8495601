"""How many prompt tokens an engine takes from its prefix cache, over questions that Algorithm 1 answers.

    python -m coda_dspy.experiments.bench.prefix --engine local/qwen2.5-coder-0.5b --data gsm8k --limit 10

One question after the other, each call really made; only what the engine itself reports counts.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from coda_dspy import Budget, Coda
from coda_dspy.cli.display import quiet_libraries
from coda_dspy.cli.evaluate import chosen
from coda_dspy.cli.options import EngineChoice, budget_option, engine_options
from coda_dspy.data import load
from coda_dspy.errors import UserError
from coda_dspy.experiments.bench.measuring import Machine, Row, Spread, output_option, publish
from coda_dspy.ledger import STAGES, Entry


def reused(entries: Sequence[Entry]) -> float:
    """Share of the prompt tokens that came from the prefix cache.

    Raises:
        UserError: The engine does not report it.
    """
    asked = [entry for entry in entries if entry.tokens_in]
    if not asked or any(entry.tokens_prefix is None for entry in asked):
        raise UserError("the engine does not report which prompt tokens came from its prefix cache")
    return sum(entry.tokens_prefix or 0 for entry in asked) / sum(entry.tokens_in or 0 for entry in asked)


def rows_of(bills: Sequence[Sequence[Entry]]) -> list[Row]:
    """A row a stage, then one for all of them; the spread is over questions, the share over all their tokens."""
    rows: list[Row] = []
    for stage in (*STAGES, "all"):
        found = [[entry for entry in bill if stage in (entry.stage, "all") and entry.tokens_in] for bill in bills]
        bills_of_stage = [bill for bill in found if bill]
        entries = [entry for bill in bills_of_stage for entry in bill]
        if entries:
            rows.append(
                {
                    "stage": stage,
                    "calls": len(entries),
                    "prompt tokens": sum(entry.tokens_in or 0 for entry in entries),
                    "share from the prefix cache": reused(entries),
                    "by question": Spread.of(reused(bill) for bill in bills_of_stage),
                }
            )
    return rows


@click.command()
@engine_options
@click.option("--data", required=True, help="Questions: a set, a benchmark, or a file.")
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True, help="Questions.")
@budget_option
@output_option
def main(data: str, limit: int, budget: tuple[str, ...], output: Path | None, **options: Any) -> None:
    """Print the share of prompt tokens that came from the engine's prefix cache."""
    quiet_libraries()
    from coda_dspy.budget import parse_fields

    lm = EngineChoice(**options).connect().copy(cache=False)
    program = Coda(Budget().replace(**parse_fields(budget)), lm=lm)
    machine = Machine()
    bills = [program(**q.task.arguments()).ledger.entries for q in chosen(load(data), None, limit)]
    notes = [f"{len(bills)} questions on {lm.model}; median over questions (least–most). {machine}."]
    publish("prefix", rows_of(bills), notes, output)


if __name__ == "__main__":
    main()
