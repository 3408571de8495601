"""The commands: list the paper's tables, and run one."""

import shlex
import sys
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from coda_dspy.cli.display import RunDisplay, console, err_console, quiet_libraries, table
from coda_dspy.cli.evaluate import STOPPED, chosen
from coda_dspy.cli.options import EngineChoice, budget_option, engine_options, select_sandbox, slug
from coda_dspy.errors import UserError
from coda_dspy.experiments.tables import TABLES


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def experiments() -> None:
    """Reproduce the tables of "The Conductor and the Engine" (arXiv 2509.19762)."""


@experiments.command("list")
def list_tables() -> None:
    """The tables, their variants, and the paper's figures."""
    rows = []
    for spec in TABLES.values():
        variants = ", ".join([*(v.name for v in spec.variants), *(d.name for d in spec.derived)])
        figures = (
            ", ".join(f"{f.engine}, {f.benchmark}, {f.variant}: {f.value:.1%}" for f in spec.paper) or "not at hand"
        )
        rows.append([spec.name, spec.title, ", ".join(spec.kinds), variants, figures])
    console.print(table("", ["table", "what it asks", "kinds", "variants", "the paper's figures"], rows))


@experiments.command("run")
@click.argument("name", metavar="TABLE")
@engine_options
@click.option("--data", required=True, help="A built-in set, a benchmark, or a JSON Lines file with answers.")
@click.option("--limit", type=click.IntRange(1), help="Only so many questions: the first ones, or with --seed any.")
@click.option("--seed", type=int, help="Shuffle the questions before --limit, the same way for the same seed.")
@click.option("--samples", type=click.IntRange(1, 256), default=1, show_default=True, help="Answers to each question.")
@click.option("--preset", default="quick", show_default=True, help="quick, paper-qwen3, paper-gpt-oss or max.")
@budget_option
@click.option("--sandbox", default="auto", show_default=True, help="Where model-written programs run.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), help="Folder. Default: in runs/.")
@click.option("--workers", type=click.IntRange(1, 1024), default=8, show_default=True, help="Questions at a time.")
@click.option("--max-tokens-total", type=click.IntRange(1), help="Start no question once so many tokens are billed.")
@click.option("--deadline", type=click.FloatRange(0, min_open=True), help="Start no question after so many minutes.")
@click.option("--mlflow-uri", default="sqlite:///mlflow.db", show_default=True, help="Where the run is tracked.")
def run_table(name: str, **options: Any) -> None:
    """Measure every variant of TABLE on the same questions and samples; the same command goes on after a crash."""
    quiet_libraries()
    if name not in TABLES:
        raise UserError(f"{name!r} is no table; choose one of: {', '.join(TABLES)}")
    select_sandbox(options["sandbox"])
    from coda_dspy.data import load
    from coda_dspy.evaluation import Stop

    spec = TABLES[name]
    questions = chosen(load(options["data"]), options["seed"], options["limit"])
    choice = EngineChoice(*(options[key] for key in ("engine", "api_base", "api_key_env", "decoding")))
    parts = ["experiment", name, slug(options["data"]), slug(choice.engine or "")]
    folder = options["output"] or Path("runs") / "-".join(parts)
    stop = Stop(options["max_tokens_total"], options["deadline"])
    rows = _measured(spec, questions, choice, folder, stop, options)
    _report(spec, rows, folder)
    missing = len(spec.variants) * len(questions) * options["samples"] - sum(len(r.results) for r in rows if r.measured)
    if missing:
        reason = stop.reached or "some questions are not answered by every variant yet"
        err_console.print(Text(f"stopped: {reason}; the same command goes on"))
        sys.exit(STOPPED)


def _measured(spec: Any, questions: Any, choice: Any, folder: Path, stop: Any, options: dict[str, Any]) -> Any:
    from coda_dspy.budget import Budget, parse_fields
    from coda_dspy.evaluation import new_session
    from coda_dspy.experiments.running import run
    from coda_dspy.tracking import Tracker

    budget = Budget.preset(options["preset"]).replace(**spec.budget).replace(**parse_fields(options["budget"]))
    lm = choice.connect()
    tracker = Tracker(options["mlflow_uri"], "coda-experiments", f"{spec.name} {lm.model}", folder / "mlflow.json")
    tracker.params(
        {"table": spec.name, "engine": lm.model, "data": Path(options["data"]).name, "limit": len(questions)}
    )
    each, session = len(questions) * options["samples"], new_session()
    status = "FAILED"
    try:
        with RunDisplay(len(spec.variants) * each, options["deadline"]) as display:
            display.phase(f"{spec.name}, {len(spec.variants)} variants", len(spec.variants) * each)
            rows = run(
                spec,
                questions,
                lm,
                folder,
                budget=budget,
                samples=options["samples"],
                workers=options["workers"],
                stop=stop,
                on_result=display.result,
                session=session,
            )
        status = "KILLED" if stop.reached else "FINISHED"
        _track(tracker, spec, rows, folder)
        return rows
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        tracker.close(status)


def _track(tracker: Any, spec: Any, rows: Any, folder: Path) -> None:
    """The figures of each variant as a child run, and the written table as artifacts."""
    from coda_dspy.evaluation import columns_of, summarize
    from coda_dspy.experiments.rendering import write

    if not rows[0].results:
        return
    for row in rows:
        child = tracker.child(row.name)
        child.metrics(summarize(row.results).metrics())
        child.table(columns_of(row.results), "questions.json")
        child.end()
    for path in write(spec, rows, folder, command()):
        tracker.artifact(path)


def command() -> str:
    """What was typed."""
    return " ".join(["python -m coda_dspy.experiments", *map(shlex.quote, sys.argv[1:])])


def _report(spec: Any, rows: Any, folder: Path) -> None:
    from coda_dspy.experiments.rendering import SHOWN, cells

    if not rows[0].results:
        console.print(Text("no question is answered by every variant yet"))
        return
    console.print(table(f"{spec.name}: {spec.title}", list(SHOWN), cells(rows)))
    console.print(Text(f"written to {folder}"))
