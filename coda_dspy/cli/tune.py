"""`coda tune`: compile prompts and search the budget for an engine."""

import os
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from coda_dspy.cli.display import RunDisplay, console, count, err_console, quiet_libraries, table
from coda_dspy.cli.options import EngineChoice, budget_option, engine_options, select_sandbox, slug, tracking_options
from coda_dspy.errors import UserError

_OF_THE_PLAN = (
    "train",
    "validation",
    "test",
    "max_trials",
    "rounds",
    "finalists",
    "prefer",
    "optimizer",
    "prompt_questions",
    "minutes",
    "seed",
)


@click.command()
@engine_options
@click.option("--quick", is_flag=True, help="A first look in at most a quarter of an hour on two cores.")
@click.option(
    "--data", default="math", show_default=True, help="math, choice, code, or a JSON Lines file with answers."
)
@click.option("--output", type=click.Path(file_okay=False), help="Folder of the run. Default: in runs/.")
@click.option(
    "--profile", type=click.Path(dir_okay=False), help="Where the profile goes. Default: profiles/ENGINE.json."
)
@click.option("--train", type=click.IntRange(1), help="Training questions.")
@click.option("--validation", type=click.IntRange(2), help="Validation questions.")
@click.option("--test", type=click.IntRange(1), help="Held-out test questions.")
@click.option("--trials", "max_trials", type=click.IntRange(1), help="The most budgets to measure in a round.")
@click.option(
    "--search",
    multiple=True,
    metavar="FIELD=V1,V2,…",
    help="Values to try for a field of the budget, instead of the usual ones; of one stage as temperature.plan; "
    "repeatable. One value: it is not searched.",
)
@click.option("--rounds", type=click.IntRange(1), help="The most rounds of prompts and budgets. Default: 2.")
@click.option("--finalists", type=click.IntRange(1), help="Budgets to measure again on fresh samples. Default: 4.")
@click.option(
    "--prefer",
    type=click.Choice(["cheapest", "accuracy", "knee"]),
    help="Which budget to take. Default: the cheapest within one standard error of the best.",
)
@click.option(
    "--max-tokens-per-question", type=click.IntRange(1), help="No call of a question is launched beyond so many tokens."
)
@click.option(
    "--price", type=(float, float), metavar="IN OUT", help="Prices of a million tokens: cost is money, not tokens."
)
@click.option(
    "--optimizer",
    type=click.Choice(["none", "bootstrap", "bootstrap-random-search", "mipro", "simba", "gepa"]),
    help="What compiles the prompts. Default: bootstrap.",
)
@click.option("--teacher", metavar="ENGINE", help="The model that proposes instructions, for mipro, simba and gepa.")
@click.option("--teacher-api-base", metavar="URL", help="Address of the teacher's server.")
@click.option("--prompt-questions", type=click.IntRange(1), help="The most questions that --optimizer may ask.")
@click.option("--minutes", type=click.FloatRange(1), help="Time to fit into; the engine's speed decides how much.")
@click.option("--seed", type=int, help="Seed of the split and of the search. Default: 0.")
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    help="Questions at a time. Default: as many calls as a probe found to be worth it, else 8.",
)
@click.option("--sandbox", default="auto", show_default=True, help="Where model-written programs run.")
@click.option(
    "--adapter",
    type=click.Choice(["plain", "sections"]),
    help="How prompts are written. Default: what a probe recommends, else plain.",
)
@click.option(
    "--probe",
    type=click.FloatRange(0, min_open=True),
    metavar="MINUTES",
    help="Measure first what the engine can do. Without it a probe that is in the profile's file is used.",
)
@budget_option
@click.option("--storage", metavar="URL", help="A database (postgresql://…) in which workers take part in the search.")
@click.option("--worker", is_flag=True, help="Take part in the search of the same command without --worker.")
@tracking_options
def tune(**options: Any) -> None:
    """Compile the prompts and search the budget for --engine, and write a profile.

    The same command goes on where it was interrupted. It ends with a table: plain engine and tuned conductor on
    held-out questions.
    """
    started = time.monotonic()
    quiet_libraries()
    select_sandbox(options["sandbox"])
    choice = EngineChoice(*(options[name] for name in ("engine", "api_base", "api_key_env", "decoding")))
    if choice.engine is None:
        raise UserError("no engine; give --engine, for example --engine local/qwen2.5-coder-0.5b")
    plan = _plan(options)
    questions = _questions(options["data"], plan)
    name = slug(choice.engine)
    kind = "" if options["data"] == "math" else f"-{slug(options['data'])}"
    folder = Path(options["output"] or f"runs/{name}{kind}{'-quick' if options['quick'] else ''}")
    target = Path(options["profile"] or f"profiles/{name}{kind}.json")
    _refuse_foreign(target, choice.engine)
    if options["worker"]:
        _work(choice, questions, plan, folder, target, options)
        return
    report = _run(choice, questions, plan, folder, target, started, options)
    report.profile.save(target)
    _print(report, target, time.monotonic() - started, options["mlflow_uri"])


def _refuse_foreign(target: Path, engine: str) -> None:
    """One engine must not take another's profile: not its probe, and least of all its file."""
    from coda_dspy.profile import Profile

    if not target.exists():
        return
    known = Profile.read(target).engine
    if known not in (engine, engine.rpartition("/")[2]):
        raise UserError(f"{target} is the profile of {known}, not of {engine}; give --profile another file")


def _plan(options: dict[str, Any]) -> Any:
    from coda_dspy.budget import parse_fields
    from coda_dspy.optimizers import Prices, TunePlan

    plan = TunePlan.quick() if options["quick"] else TunePlan()
    changes = {name: options[name] for name in _OF_THE_PLAN if options[name] is not None}
    budget = plan.budget.replace(**parse_fields(options["budget"]))
    if options["max_tokens_per_question"] is not None:
        budget = budget.replace(max_total_tokens=options["max_tokens_per_question"])
    prices = Prices(*options["price"]) if options["price"] is not None else None
    plan = replace(plan, **changes, budget=budget, space=_space(plan.space, options), prices=prices)
    # A budget that is too small for its optimizer is told before weights are fetched.
    plan.prompt_optimizer().most_questions(plan.train, plan.validation)
    return plan


def _space(space: Any, options: dict[str, Any]) -> Any:
    """The usual values, but those that `--search` and `--budget` name; the latter are not searched."""
    from coda_dspy.budget import BY_STAGE, parse_fields, read_value
    from coda_dspy.ledger import STAGES

    values: dict[str, tuple[Any, ...]] = {}
    for text in options["search"]:
        name, separator, listed = text.partition("=")
        if not separator or not listed.strip():
            raise UserError(f"--search {text!r} names no values; write it as field=value,value, as in n_plans=1,2,3")
        values[name.strip()] = tuple(read_value(value.strip()) for value in listed.split(","))
    fixed = parse_fields(options["budget"])
    staged = [
        f"{name}.{stage}"
        for name, value in fixed.items()
        if name in BY_STAGE
        for stage in (value if isinstance(value, dict) else STAGES)
    ]
    return space.without(*fixed, *staged).but(values)


def _questions(data: str, plan: Any) -> list[Any]:
    from coda_dspy.data import load

    questions = load(data)
    needed = plan.train + plan.validation + plan.test
    if len(questions) < needed:
        raise UserError(
            f"{data} has {len(questions)} questions, but the plan needs {needed} (train {plan.train}, "
            f"validation {plan.validation}, test {plan.test}); lower them with --train, --validation, --test"
        )
    return questions


def _run(
    choice: Any, questions: Any, plan: Any, folder: Path, target: Path, started: float, options: dict[str, Any]
) -> Any:
    from coda_dspy.optimizers import ceiling
    from coda_dspy.optimizers import tune as run_tune
    from coda_dspy.tracking import Tracker

    # First of all, in the background: creating MLflow's database takes as long as fetching the weights.
    tracker = Tracker(options["mlflow_uri"], "coda-tune", f"tune {choice.engine}", folder / "mlflow.json")
    status = "FAILED"
    try:
        lm = choice.connect()
        teacher = _teacher(options)
        probe = _probe(lm, folder, target, options)
        phases = ceiling(plan, lm, questions, teacher, probe)
        _print_ceiling(phases, lm)
        with RunDisplay(sum(phase.questions for phase in phases), plan.minutes, started) as display:
            report = run_tune(
                lm,
                questions,
                plan,
                folder,
                data=Path(options["data"]).name,
                workers=options["workers"] or (probe or {}).get("concurrency") or 8,
                tracker=tracker,
                watcher=display,
                started=started,
                adapter=options["adapter"] or _adapter(probe),
                decoding=choice.settings(),
                teacher=teacher,
                probe=probe,
                trace_sample=options["trace_sample"],
                storage=options["storage"],
            )
        status = "FINISHED"
        return report
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        err_console.print("storing the run in MLflow", highlight=False)
        tracker.close(status)


def _print_ceiling(phases: Any, lm: Any) -> None:
    """What the tune asks at most, before it asks anything."""
    total = ("together", *(sum(part) for part in zip(*(phase[1:] for phase in phases), strict=True)))
    rows = [[name, *map(count, numbers)] for name, *numbers in (*phases, total)]
    err_console.print(table("at most", ["", "questions", "calls", "tokens of replies"], rows))
    again = f"; a call that fails is made again, {lm.num_retries} times at most" if lm.num_retries else ""
    err_console.print(Text(f"replies from the cache count as calls, so fewer reach the engine{again}"))


def _work(choice: Any, questions: Any, plan: Any, folder: Path, target: Path, options: dict[str, Any]) -> None:
    """Take part in a tune that another process leads."""
    from coda_dspy.engines import redact
    from coda_dspy.optimizers import work

    if options["storage"] is None:
        raise UserError("--worker needs --storage, the database of the tune that it is to take part in")
    if options["output"] is None:
        folder = folder.with_name(f"{folder.name}-worker-{socket.gethostname()}-{os.getpid()}")
    lm = choice.connect()
    probe = _probe(lm, folder, target, options)
    with RunDisplay(0, plan.minutes) as display:
        measured = work(
            lm,
            questions,
            plan,
            folder,
            options["storage"],
            data=Path(options["data"]).name,
            workers=options["workers"] or (probe or {}).get("concurrency") or 8,
            watcher=display,
            adapter=options["adapter"] or _adapter(probe),
            teacher=_teacher(options),
            probe=probe,
        )
    console.print(Text(f"{measured} budgets measured for the tune in {redact(options['storage'])}"))


def _probe(lm: Any, folder: Path, target: Path, options: dict[str, Any]) -> dict[str, Any] | None:
    """What is known of the engine: measured now, or by an earlier probe."""
    from coda_dspy.profile import Profile

    if options["probe"] is None:
        return Profile.read(target).probe if target.exists() else None
    from coda_dspy.cli.probe import probed, questions_of
    from coda_dspy.probing import ProbePlan

    report = probed(lm, ProbePlan(minutes=options["probe"]), questions_of((options["data"],)), folder / "probe")
    found: dict[str, Any] = report.for_profile()
    return found


def _adapter(probe: dict[str, Any] | None) -> str:
    measured = probe is not None and "adapter" not in probe.get("not_measured", {})
    return str(probe["adapter"]) if probe is not None and measured else "plain"


def _teacher(options: dict[str, Any]) -> Any:
    """The teacher's engine, if one was named."""
    if options["teacher"] is None:
        return None
    return EngineChoice(options["teacher"], options["teacher_api_base"], None, ()).connect()


def _print(report: Any, target: Path, seconds: float, mlflow_uri: str) -> None:
    from coda_dspy.engines import redact
    from coda_dspy.evaluation.statistics import accuracy, mean_seconds, mean_tokens

    rows = []
    for row in report.rows:
        score = accuracy(row.results)
        interval = f"{score.low:.0%} – {score.high:.0%}"
        tokens, time_each = count(mean_tokens(row.results)), f"{mean_seconds(row.results):.1f}"
        rows.append([row.name, f"{score.value:.0%}", interval, str(score.n), tokens, time_each])
    columns = ["on held-out questions", "accuracy", "95 % interval", "questions", "tokens each", "seconds each"]
    console.print(table("", columns, rows))
    console.print(Text(f"difference {report.difference}"))
    if report.difference.within_noise:
        console.print(Text("The difference is within noise: these questions are too few to tell the two apart."))
    if report.train is not None:
        console.print(Text(f"tuned conductor on training questions {report.train}"))
    chosen_on = "prompts and budget were chosen on them, which flatters"
    console.print(Text(f"tuned conductor on validation questions {report.validation}; {chosen_on}"))
    for note in report.notes:
        console.print(Text(f"note: {note}"))
    chosen = report.profile.scores["chosen"]
    console.print(
        Text(f"budget {chosen}; profile {target}; {seconds / 60:.1f} minutes; tracked in {redact(mlflow_uri)}")
    )
