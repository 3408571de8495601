"""Which path suits an engine? Directly, by program, by program with refinement, and Algorithm 2 over all of them.

    python -m coda_dspy.experiments.paths --engine local/qwen2.5-coder-1.5b --data gsm8k.jsonl --limit 40 --output DIR

All variants draw the same samples (the direct reply is the first of Algorithm 2's direct attempts, and so on), so they
are compared on common random numbers and no sample is paid for twice. Each finished question is saved, and the same
command goes on where it stopped.
"""

from pathlib import Path

import click
import dspy

from coda_dspy import AdaptiveCoda, Budget, connect
from coda_dspy.cli.display import console, count, quiet_libraries, table
from coda_dspy.data import load
from coda_dspy.evaluation import JsonLines, evaluate
from coda_dspy.evaluation.statistics import accuracy, mean_tokens, paired_difference

ONE = Budget.preset("quick").replace(num_attempts_baseline=1, num_attempts_coda=0)
ADAPTIVE = Budget.preset("quick").replace(num_attempts_coding=3, refine_rounds=2, stop_on_agreement=True)
VARIANTS: dict[str, dict[str, Budget]] = {
    "math": {
        "direct": ONE,
        "code": ONE.replace(num_attempts_baseline=0, num_attempts_coding=1),
        "code with refinement": ONE.replace(num_attempts_baseline=0, num_attempts_coding=1, refine_rounds=2),
        "adaptive": ADAPTIVE,
    },
    "code": {
        "one program": ONE,
        "with refinement": ONE.replace(refine_rounds=2),
        "adaptive": ADAPTIVE.replace(num_attempts_coding=0, stop_on_agreement=False),
    },
}


@click.command()
@click.option("--engine", required=True)
@click.option("--api-base")
@click.option("--data", required=True, help="Maths questions or code tasks, as JSON Lines.")
@click.option("--variants", help="Only these, separated by commas.")
@click.option("--limit", type=int, default=40, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), required=True, help="Folder for the results.")
@click.option("--workers", type=int, default=8, show_default=True)
def main(
    engine: str, api_base: str | None, data: str, variants: str | None, limit: int, output: Path, workers: int
) -> None:
    """Measure every variant on the first questions of a file, and compare each in pairs with the first one."""
    quiet_libraries()
    questions = load(data)[:limit]
    budgets = VARIANTS[questions[0].kind]
    results = {}
    with dspy.context(lm=connect(engine, api_base)):
        for name in variants.split(",") if variants else budgets:
            store = JsonLines(output / f"{name.replace(' ', '-')}.jsonl")
            results[name] = evaluate(AdaptiveCoda(budgets[name]), questions, store=store, workers=workers)
    first = next(iter(results.values()))
    rows = [
        [name, str(accuracy(found)), str(paired_difference(first, found)), count(mean_tokens(found))]
        for name, found in results.items()
    ]
    console.print(table(engine, ["variant", "accuracy", "against the first", "tokens each"], rows))


if __name__ == "__main__":
    main()
