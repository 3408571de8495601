"""The commands: list the paper's tables, and run one."""

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from coda_dspy.cli.display import RunDisplay, console, err_console, quiet_libraries, table
from coda_dspy.cli.evaluate import STOPPED, chosen
from coda_dspy.cli.options import EngineChoice, budget_option, engine_options, select_sandbox, slug
from coda_dspy.errors import UserError
from coda_dspy.experiments.tables import TABLES, Table

if TYPE_CHECKING:
    from coda_dspy.experiments.running import Row, Setup


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


def _measuring_options(command: Any) -> Any:
    """Engine, questions, and how much of the machine a measurement may take."""
    for option in reversed(
        (
            engine_options,
            click.option(
                "--data", required=True, help="A built-in set, a benchmark, or a JSON Lines file with answers."
            ),
            click.option("--sandbox", default="auto", show_default=True, help="Where model-written programs run."),
            click.option(
                "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder. Default: in runs/."
            ),
            click.option(
                "--workers", type=click.IntRange(1, 1024), default=8, show_default=True, help="Questions at a time."
            ),
            click.option(
                "--max-tokens-total", type=click.IntRange(1), help="Start no question once so many tokens are billed."
            ),
            click.option(
                "--deadline", type=click.FloatRange(0, min_open=True), help="Start no question after so many minutes."
            ),
            click.option(
                "--mlflow-uri", default="sqlite:///mlflow.db", show_default=True, help="Where the run is tracked."
            ),
        )
    ):
        command = option(command)
    return command


@experiments.command("run")
@click.argument("name", metavar="TABLE")
@_measuring_options
@click.option("--limit", type=click.IntRange(1), help="Only so many questions: the first ones, or with --seed any.")
@click.option("--seed", type=int, help="Shuffle the questions before --limit, the same way for the same seed.")
@click.option("--samples", type=click.IntRange(1, 256), default=1, show_default=True, help="Answers to each question.")
@click.option("--preset", default="quick", show_default=True, help="quick, paper-qwen3, paper-gpt-oss or max.")
@budget_option
def run_table(name: str, **options: Any) -> None:
    """Measure every variant of TABLE on the same questions and samples; the same command goes on after a crash."""
    quiet_libraries()
    if name not in TABLES:
        raise UserError(f"{name!r} is no table; choose one of: {', '.join(TABLES)}")
    select_sandbox(options["sandbox"])
    from coda_dspy.budget import Budget, parse_fields
    from coda_dspy.data import load
    from coda_dspy.experiments.running import run

    spec = TABLES[name]
    budget = Budget.preset(options["preset"]).replace(**spec.budget).replace(**parse_fields(options["budget"]))
    questions = chosen(load(options["data"]), options["seed"], options["limit"])
    lm = _engine(options)
    parts = ["experiment", name, slug(options["data"]), slug(options["engine"] or "")]
    folder = options["output"] or Path("runs") / "-".join(parts)
    answers = len(spec.variants) * len(questions) * options["samples"]
    _measure(spec, lm, folder, answers, options, lambda setup: run(spec, questions, budget, setup))


@experiments.command("tuned")
@click.argument("tune", metavar="FOLDER", type=click.Path(exists=True, file_okay=False, path_type=Path))
@_measuring_options
@click.option("--limit", type=click.IntRange(1), help="Only so many of the held-out questions.")
@click.option(
    "--paper/--no-paper", default=True, help="Measure the paper's settings too. They take most of the tokens."
)
def run_tuned(tune: Path, paper: bool, **options: Any) -> None:
    """Compare what a tune found, on its held-out questions, with the engine alone, self-consistency at equal tokens,
    and the paper's settings. FOLDER is the tune's own; what it generated is not generated again."""
    quiet_libraries()
    select_sandbox(options["sandbox"])
    from coda_dspy.data import load
    from coda_dspy.experiments.tuned import TABLE, FinishedTune, run

    lm = _engine(options)
    finished = FinishedTune.read(tune, load(options["data"]), lm)
    finished = replace(finished, test=finished.test[: options["limit"]])
    folder = options["output"] or tune / "compared"
    answers = (4 if paper else 3) * len(finished.test)
    _measure(TABLE, lm, folder, answers, options, lambda setup: run(finished, setup, paper))


def _engine(options: dict[str, Any]) -> Any:
    return EngineChoice(*(options[key] for key in ("engine", "api_base", "api_key_env", "decoding"))).connect()


def _measure(
    spec: Table, lm: Any, folder: Path, answers: int, options: dict[str, Any], run: "Callable[[Setup], Sequence[Row]]"
) -> None:
    """Measure with a display and in MLflow, and show the table."""
    from coda_dspy.evaluation import Stop
    from coda_dspy.experiments.running import Setup
    from coda_dspy.tracking import Tracker

    stop = Stop(options["max_tokens_total"], options["deadline"])
    tracker = Tracker(options["mlflow_uri"], "coda-experiments", f"{spec.name} {lm.model}", folder / "mlflow.json")
    tracker.params({"table": spec.name, "engine": lm.model, "data": Path(options["data"]).name, "answers": answers})
    status = "FAILED"
    try:
        with RunDisplay(answers, options["deadline"]) as display:
            display.phase(spec.name, answers)
            samples, workers = options.get("samples", 1), options["workers"]
            setup = Setup(lm, folder, samples=samples, workers=workers, stop=stop, on_result=display.result)
            rows = run(setup)
        status = "KILLED" if stop.reached else "FINISHED"
        _track(tracker, spec, rows, folder)
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        tracker.close(status)
    _report(spec, rows, folder)
    if sum(len(row.results) for row in rows if row.measured) < answers:
        reason = stop.reached or "some questions are not answered by every variant yet"
        err_console.print(Text(f"stopped: {reason}; the same command goes on"))
        sys.exit(STOPPED)


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
