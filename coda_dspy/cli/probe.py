"""`coda probe`: measure in a few minutes what the conductor must know of an engine."""

import time
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from coda_dspy.cli.display import RunDisplay, console, count, err_console, quiet_libraries, table
from coda_dspy.cli.options import EngineChoice, budget_option, engine_options, select_sandbox, slug
from coda_dspy.errors import UserError

MANY = 1000  # questions of a set to choose from
OFTEN = 0.1  # share of cut replies that is worth a word, where it is surely higher


@click.command()
@engine_options
@click.option(
    "--data",
    multiple=True,
    metavar="NAME",
    help="math, choice, code, a benchmark, or a JSON Lines file with answers; repeatable. Default: math and choice.",
)
@click.option("--profile", type=click.Path(dir_okay=False), help="A profile to write the result into.")
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    default=5.0,
    show_default=True,
    help="Time to measure in, once the engine is there.",
)
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), help="Folder. Default: runs/probe-ENGINE.")
@budget_option
@click.option("--sandbox", default="auto", show_default=True, help="Where model-written programs run.")
def probe(**options: Any) -> None:
    """Measure which adapter an engine obeys, where it is cut off, how it thinks, computes and samples, how fast it is.

    The same command goes on where it was interrupted, and asks for what there was no time for.
    """
    quiet_libraries()
    select_sandbox(options["sandbox"])
    choice = EngineChoice(*(options[name] for name in ("engine", "api_base", "api_key_env", "decoding")))
    if choice.engine is None and options["profile"] is None:
        raise UserError("no engine; give --engine, for example --engine local/qwen2.5-coder-0.5b")
    questions = questions_of(options["data"] or ("math", "choice"))
    err_console.print(Text(f"connecting to {choice.engine or 'the engine of the profile'}"))
    profile = _profile(options["profile"], choice.engine)
    plan = _plan(options, profile)
    lm = choice.connect(profile.engine, profile.decoding) if profile is not None else choice.connect()
    folder = options["output"] or Path("runs") / f"probe-{slug(choice.engine or profile.engine)}"
    started = time.monotonic()
    report = probed(lm, plan, questions, folder, profile)
    _print(report)
    _keep(report, options["profile"])
    console.print(Text(f"{(time.monotonic() - started) / 60:.1f} minutes; saved in {folder}"))


def questions_of(names: tuple[str, ...]) -> list[Any]:
    """All questions, each set mixed the same way for everyone."""
    from coda_dspy.data import load, sample

    return [question for name in names for question in sample(load(name), seed=0, size=MANY)]


def _profile(path: str | None, engine: str | None) -> Any:
    from coda_dspy.profile import Profile

    if path is None:
        return None
    profile = Profile.read(path)
    if engine is not None and engine != profile.engine:
        raise UserError(f"{path} is the profile of {profile.engine}, not of {engine}; give --profile another file")
    return profile


def _plan(options: dict[str, Any], profile: Any) -> Any:
    from coda_dspy.budget import Budget, parse_fields
    from coda_dspy.probing import ProbePlan

    budget = Budget(**profile.budget) if profile is not None else Budget.preset("quick")
    return ProbePlan(minutes=options["minutes"], budget=budget.replace(**parse_fields(options["budget"])))


def probed(lm: Any, plan: Any, questions: list[Any], folder: Path, profile: Any = None) -> Any:
    """Probe an engine, and show the progress."""
    from coda_dspy.probing import probe_engine

    program = profile.adaptive() if profile is not None else None
    display = _Display(plan.minutes)
    with display:
        return probe_engine(lm, plan, questions, folder=folder, program=program, watcher=display)


class _Display(RunDisplay):
    """Progress of a probe: it has calls instead of questions, and no best so far."""

    def __init__(self, minutes: float) -> None:
        super().__init__(0, minutes)

    def begin(self, calls: int, kept: int) -> None:
        """The plan is made."""
        self.planned = calls
        before = f"; {kept} more are in the folder" if kept else ""
        self._say(f"planned: at most {calls} calls within {self.minutes:g} minutes{before}")

    def phase(self, name: str, questions: int) -> None:
        """A phase begins."""
        self.name, self.phase_total, self.phase_done = name, questions, 0
        if not err_console.is_terminal:
            self._say(f"[{self._clock()}] {name}: at most {questions} calls")

    def call(self, call: Any) -> None:
        """A call is done."""
        self.done += 1
        self.phase_done += 1
        self.tokens += (call.tokens_in or 0) + (call.tokens_out or 0)

    def _say(self, text: str) -> None:
        err_console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _line(self) -> str:
        rate = self.tokens / max(time.monotonic() - self.begun, 0.001)
        return (
            f"[{self._clock()}] {self.phase_done}/{self.phase_total} calls, {self.tokens:,} tokens, "
            f"{rate:.0f} tokens/s, about {self._left()} left"
        )


def _print(report: Any) -> None:
    for title, columns, rows in (_adapters(report), _paths(report), _stages(report), _efforts(report), _speed(report)):
        if rows:
            console.print(table(title, columns, rows))
    console.print(table("what the engine honours", ["", "", "measured"], _honours(report)))
    for what, reason in report.not_measured.items():
        said = f" ({report.failures[what]})" if what in report.failures else ""
        console.print(Text(f"not measured, or not in full: {what}: {reason}{said}", style="yellow"))
    level = "unknown" if report.concurrency is None else f"{report.concurrency}"
    most = max(report.tokens_per_second, default=None)
    more = " (the most that was tried)" if most is not None and report.concurrency == most else ""
    adapter = "unknown" if "adapter" in report.not_measured else report.adapter
    console.print(Text(f"recommended: adapter {adapter}, calls at a time {level}{more}", style="bold"))
    cut = report.figures["truncation"]
    if cut is not None and cut["low"] >= OFTEN and cut["n"] >= 4:
        console.print(
            Text("many replies are cut off: give them more room with --budget max_tokens=NUMBER, and probe again")
        )
    calls = report.calls
    console.print(Text(f"{calls['made']} calls, planned were at most {calls['planned']}"))


def _adapters(report: Any) -> tuple[str, list[str], list[list[str]]]:
    found = report.figures["adapters"]
    shares = ("readable", "markers", "accuracy", "cut")
    rows = [
        [name, *(_share(row.get(key)) for key in shares), _number(row["tokens_out"]), str(row["readable"]["n"])]
        for name, row in found.items()
        if name != "difference" and row["readable"]
    ]
    difference = found["difference"]
    title = "adapters, on the same questions"
    if difference is not None:
        title += f"; sections minus plain: {difference['value']:+.0%} (p = {difference['p_value']:.2g})"
    return title, ["adapter", "answer readable", "markers kept", "right", "cut", "tokens out", "n"], rows


def _paths(report: Any) -> tuple[str, list[str], list[list[str]]]:
    rows = []
    for kind, row in report.figures["paths"].items():
        shares = [_share(row[path]["accuracy"]) for path in ("direct", "code")]
        tokens = [_number(row[path]["tokens"]) for path in ("direct", "code")]
        agreement = [_share(row[key]) for key in ("agree", "right_where_they_agree")]
        better = report.better_path.get(kind, "too few")
        rows.append([kind, *shares, *tokens, *agreement, better, str(row["direct"]["readable"]["n"])])
    columns = ["kind", "right directly", "by program", "tokens", "by program", "agree", "right then", "better", "n"]
    return "paths, on the same questions", columns, rows


def _stages(report: Any) -> tuple[str, list[str], list[list[str]]]:
    rows = [
        [
            stage,
            _share(row["cut"]),
            _share(row["thinking"]),
            row["thinks"] or "–",
            _number(row["tokens_out"]),
            str(row["cut"]["n"]),
        ]
        for stage, row in report.figures["stages"].items()
    ]
    columns = ["stage", "cut", "thinking, of the reply", "it thinks in", "tokens out", "n"]
    return f"stages; cut over all: {_share(report.figures['truncation'])}", columns, rows


def _efforts(report: Any) -> tuple[str, list[str], list[list[str]]]:
    rows = [
        [effort, _number(row["tokens_out"]), _share(row["change"], sign="+"), str(row["n"])]
        for effort, row in report.figures["efforts"].items()
    ]
    return "reasoning efforts", ["effort", "tokens out", "against none given", "questions"], rows


def _speed(report: Any) -> tuple[str, list[str], list[list[str]]]:
    rows = [
        [level, f"{row['value']:.1f}", f"{row['low']:.1f} – {row['high']:.1f}", str(row["calls"]), str(row["failed"])]
        for level, row in report.figures["speed"].items()
    ]
    return "speed", ["calls at a time", "tokens/s", "slowest and fastest round", "calls", "failed"], rows


def _honours(report: Any) -> list[list[str]]:
    found = report.figures["sampling"]
    limit = report.context_limit
    measured = {
        "temperature": f"two samples alike at 0: {_share(found['alike_at_temperature_0'])}; "
        f"at 1: {_share(found['alike_at_temperature_1'])}",
        "seed": f"same with one seed: {_pairs(found['same_with_one_seed'])}",
        "effort": f"taken: {', '.join(report.figures['efforts']) or 'none'}",
        "usage": f"reported: {_share(found['usage'])} of {found['usage']['n']} replies",
        "context_limit": f"{count(limit)} tokens" if limit is not None else "not told",
    }
    words = {True: "yes", False: "no", None: "cannot be told"}
    return [[name.replace("_", " "), words[report.honours[name]], text] for name, text in measured.items()]


def _pairs(figure: Any) -> str:
    """How many pairs of samples were the same."""
    return "–" if figure is None else f"{round(figure['value'] * figure['n'])} of {figure['n']} pairs"


def _share(figure: Any, sign: str = "") -> str:
    """A share with its interval."""
    if figure is None:
        return "–"
    interval = "" if figure["low"] is None else f" [{figure['low']:{sign}.0%}, {figure['high']:{sign}.0%}]"
    return f"{figure['value']:{sign}.0%}{interval}"


def _number(figure: Any) -> str:
    return "unknown" if figure is None else f"{figure['value']:,.0f}"


def _keep(report: Any, path: str | None) -> None:
    """Write the result into the profile as it is by now."""
    from coda_dspy.profile import Profile

    if path is None:
        return
    profile = Profile.read(path)
    adapter = profile.adapter if "adapter" in report.not_measured else report.adapter
    profile.model_copy(update={"adapter": adapter, "probe": report.for_profile()}).save(path)
    console.print(Text(f"written into {path}"))
    if profile.adapter != adapter:
        text = f"its adapter was {profile.adapter}: its scores were measured with that one; tune again"
        console.print(Text(text, style="yellow"))
