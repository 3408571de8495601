"""`coda select`: compare ways to choose among the candidates of an evaluation, without generating them again."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from coda_dspy.cli.display import console, count, quiet_libraries, table
from coda_dspy.cli.options import EngineChoice, budget_option, engine_options
from coda_dspy.errors import UserError


@click.command()
@click.option(
    "--pool",
    required=True,
    type=click.Path(exists=True, path_type=Path),
    help="The folder of an evaluation, or its pool.jsonl.gz.",
)
@click.option(
    "--selector",
    "selectors",
    multiple=True,
    help="majority, first, oracle, judge, pairwise, weighted, agreement, genselect, check, distinguish, codet, "
    "unlabelled; repeatable. Default: majority, first and oracle.",
)
@engine_options
@click.option("--profile", metavar="FILE|NAME", help="A tuned profile: its judges, and what votes weigh.")
@budget_option
@click.option("--workers", type=click.IntRange(1, 1024), default=8, show_default=True, help="Questions at a time.")
def select(pool: Path, selectors: tuple[str, ...], workers: int, **options: Any) -> None:
    """Say what each selector makes of the same candidates: accuracy, and how much of the gap it closes.

    The gap lies between a candidate drawn by chance and the question's best one. Judges need --engine.
    """
    quiet_libraries()
    from coda_dspy.evaluation import Pool, own_cache
    from coda_dspy.evaluation.recorded import POOL
    from coda_dspy.evaluation.selecting import compare

    path = pool / POOL if pool.is_dir() else pool
    if not path.exists():
        raise UserError(f"{pool} holds no {POOL}; give the folder of a run of coda evaluate")
    names = selectors or ("majority", "first", "oracle")
    records = list(Pool(path).read())
    verifier, budget, learned, adapter, engine = _judges(options, names)
    with own_cache(path.parent / "cache"), engine:
        found = compare(records, names, verifier, budget, workers, learned, adapter)
    _print(records, found)


def _judges(options: dict[str, Any], names: tuple[str, ...]) -> tuple[Any, Any, Any, str, Any]:
    """The verifier whose judges are asked, their budget, what was learned, the adapter, and the engine as a context."""
    import dspy

    from coda_dspy.budget import Budget, parse_fields
    from coda_dspy.evaluation.selecting import JUDGES, UNLABELLED
    from coda_dspy.profiles import find
    from coda_dspy.verifier import Verifier

    changes = parse_fields(options["budget"])
    choice = EngineChoice(*(options[name] for name in ("engine", "api_base", "api_key_env", "decoding")))
    profile = find(options["profile"]) if options["profile"] else None
    verifier, budget, learned, adapter = Verifier(), Budget(), None, "plain"
    if profile is not None:
        program = profile.adaptive()
        verifier, budget, learned = program.coda.verifier, program.budget, program.learned
        adapter = profile.adapter
    weighing = "weighted" in names and learned is not None and learned.asks_judges
    if not weighing and not any(name in (*JUDGES, UNLABELLED) for name in names):
        return verifier, budget, learned, adapter, nullcontext()
    lm = choice.connect(profile.engine, profile.decoding) if profile is not None else choice.connect()
    return verifier, budget.replace(**changes), learned, adapter, dspy.context(lm=lm)


def _print(records: list[Any], found: list[Any]) -> None:
    split = sum(len(record.classes) > 1 for record in records)
    candidates = sum(len(record.candidates) for record in records) / len(records)
    console.print(Text(f"{len(records)} answers, {candidates:.1f} candidates each; they disagree in {split} of them"))

    rows = [
        [
            selection.name,
            str(selection.accuracy),
            _share(selection.closure),
            str(selection.gain),
            count(selection.tokens),
        ]
        for selection in found
    ]
    columns = ["selector", "accuracy", "gap closure", "against majority", "extra tokens each"]
    console.print(table("", columns, rows))


def _share(closure: Any) -> str:
    return "no gap" if closure is None else f"{closure.value:.0%} [{closure.low:.0%}, {closure.high:.0%}]"
