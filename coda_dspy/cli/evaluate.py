"""`coda evaluate`: measure a program on questions, and compare two such runs."""

import sys
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from coda_dspy.cli.display import RunDisplay, console, count, err_console, quiet_libraries, stage_table, table
from coda_dspy.cli.options import program_of, program_options, select_sandbox, slug, tracking_options
from coda_dspy.errors import UserError

STOPPED = 3  # exit code of a run that a limit has ended


@click.command()
@program_options
@click.option("--data", help="A built-in set, a benchmark, or a JSON Lines file with answers.")
@click.option("--limit", type=click.IntRange(1), help="Only so many questions: the first ones, or with --seed any.")
@click.option("--seed", type=int, help="Shuffle the questions before --limit, the same way for the same seed.")
@click.option("--samples", type=click.IntRange(1, 256), default=1, show_default=True, help="Answers to each question.")
@click.option("--shard", metavar="I/N", help="Only the I-th of N parts of the questions, from 1.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), help="Folder. Default: in runs/.")
@click.option("--workers", type=click.IntRange(1, 1024), default=8, show_default=True, help="Questions at a time.")
@click.option("--max-tokens-total", type=click.IntRange(1), help="Start no question once so many tokens are billed.")
@click.option("--deadline", type=click.FloatRange(0, min_open=True), help="Start no question after so many minutes.")
@tracking_options
@click.option(
    "--compare",
    nargs=2,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR_A DIR_B",
    help="Evaluate nothing: compare two finished runs on the questions that both answered.",
)
def evaluate(compare: tuple[Path, Path] | None, **options: Any) -> None:
    """Answer every question of --data, grade it, and say what that is worth.

    Each finished question is saved at once, with all its candidates. The same command goes on after a crash or Ctrl-C;
    a run that a limit has ended exits with 3.
    """
    quiet_libraries()
    if compare:
        _compare(*compare)
        return
    if options["data"] is None:
        raise UserError("no questions; give --data (math, choice, code, a benchmark, or a file), or --compare A B")
    select_sandbox(options["sandbox"])
    from coda_dspy.data import fingerprint, load
    from coda_dspy.evaluation import Stop

    stop = Stop(options["max_tokens_total"], options["deadline"])
    data = load(options["data"])
    questions = chosen(data, options["seed"], options["limit"], options["shard"])
    results, folder = _evaluated(options, fingerprint(data), questions, stop)
    print_summary(results, questions)
    console.print(Text(f"saved in {folder}"))
    missing = len(questions) * options["samples"] - len(results)
    if missing:
        err_console.print(Text(f"stopped: {stop.reached}; {missing} answers are missing, the same command goes on"))
        sys.exit(STOPPED)


def chosen(questions: list[Any], seed: int | None, limit: int | None, shard: str | None = None) -> list[Any]:
    """The questions that the options name. Steps of one problem stay together and count as one."""
    from coda_dspy.data import problems, sample

    groups = problems(questions if seed is None else sample(questions, seed, len(questions)))[:limit]
    return [question for group in _shard(groups, shard) for question in group]


def _shard(groups: list[Any], shard: str | None) -> list[Any]:
    if shard is None:
        return groups
    part, _, of = shard.partition("/")
    if not (part.isdecimal() and of.isdecimal() and 1 <= int(part) <= int(of)):
        raise UserError(f"--shard {shard!r} is no part; write it as I/N, for example 1/4 to 4/4")
    kept = groups[int(part) - 1 :: int(of)]
    if not kept:
        raise UserError(f"--shard {shard} holds no question: there are only {len(groups)}; use fewer shards")
    return kept


def _evaluated(options: dict[str, Any], data: str, questions: list[Any], stop: Any) -> tuple[list[Any], Path]:
    from coda_dspy.evaluation import evaluate_in, new_session, results_in

    program = program_of(options)
    lm, program.lm = program.lm, None
    _refuse_copies(options, program.budget)
    folder = options["output"] or _folder(options, lm)
    each, session = len(questions) * options["samples"], new_session()
    track = _Track(options["mlflow_uri"], f"evaluate {lm.model}", folder, options["trace_sample"])
    described = _described(options, data, program)
    try:
        with RunDisplay(each, options["deadline"]) as display:
            display.phase("evaluate", each)
            results = evaluate_in(
                folder,
                program,
                questions,
                lm,
                described,
                samples=options["samples"],
                workers=options["workers"],
                stop=stop,
                on_result=display.graded,
                session=session,
                on_begin=lambda: track.begin(described),
            )
        track.end("FINISHED" if len(results) == each else "KILLED")
        return results, folder
    except KeyboardInterrupt:
        print_summary(results_in(folder), questions)
        track.end("KILLED")
        raise
    except UserError:
        track.end("FAILED")
        raise


def _refuse_copies(options: dict[str, Any], budget: Any) -> None:
    """At temperature 0 every sample is the same reply."""
    stage = {"direct": "direct", "code": "code"}.get(options["algorithm"] or "")
    if options["samples"] > 1 and stage and budget.temperature[stage] == 0:
        raise UserError(
            f"--samples {options['samples']}, but {options['algorithm']} asks at temperature 0, so all would be one "
            f"reply; add --budget temperature.{stage}=0.7, or use --samples 1"
        )


class _Track:
    """The MLflow run of an evaluation: begun once the folder is ours, so that a refused command touches none."""

    def __init__(self, uri: str, name: str, folder: Path, trace_sample: float) -> None:
        self._uri, self._name, self._folder, self._trace_sample = uri, name, folder, trace_sample
        self._tracker: Any = None

    def begin(self, described: dict[str, Any]) -> Any:
        """Begin the run; what traces its questions, if any are to be traced."""
        from coda_dspy.tracking import Tracker
        from coda_dspy.tracking.traces import Traces

        self._tracker = Tracker(self._uri, "coda-evaluate", self._name, self._folder / "mlflow.json")
        flat = {f"{group}.{name}": value for group in ("budget", "data") for name, value in described[group].items()}
        self._tracker.params({**flat, **{name: described[name] for name in ("algorithm", "adapter", "profile")}})
        return Traces(self._tracker, self._trace_sample) if self._trace_sample else None

    def end(self, status: str) -> None:
        """The figures of the whole run, and the table of its questions."""
        from coda_dspy.evaluation import columns_of, results_in, summarize

        if self._tracker is None:
            return
        results = results_in(self._folder)
        if results:
            self._tracker.metrics(summarize(results).metrics())
            self._tracker.table(columns_of(results), "questions.json")
        self._tracker.close(status)


def _described(options: dict[str, Any], data: str, program: Any) -> dict[str, Any]:
    return {
        "algorithm": options["algorithm"] or type(program).__name__,
        "adapter": program.adapter,
        "budget": program.budget.dump_state(),
        "profile": Path(options["profile"]).name if options["profile"] else None,
        "data": {
            "name": Path(options["data"]).name,
            "hash": data,
            "seed": options["seed"],
            "shard": options["shard"],
        },
    }


def _folder(options: dict[str, Any], lm: Any) -> Path:
    parts = [slug(options["data"]), slug(lm.model.partition("@")[0]), options["algorithm"] or "adaptive"]
    if options["shard"]:
        parts.append(options["shard"].replace("/", "-of-"))
    return Path("runs") / "-".join(["evaluate", *parts])


def print_summary(results: list[Any], questions: list[Any]) -> None:
    """The figures of a run, as far as it has come."""
    from coda_dspy.evaluation import summarize

    if not results:
        console.print(Text("no question is finished yet"))
        return
    found = summarize(results)
    rows = [["accuracy", str(found.accuracy) if found.accuracy else "unknown: no right answers are given"]]
    rows += _parts(results, questions)
    rows += [[f"pass@{k}", _estimate(estimate)] for k, estimate in found.passes.items() if k > 1]
    rows += [["recall (any candidate drawn is right)", _estimate(found.recall)]]
    rows += [["one candidate by chance", _estimate(found.hit_rate)]]
    rows += [[name, f"{getattr(found, name):.1%}"] for name in ("unparsed", "truncated", "failed")]
    rows += [["tokens each", f"{count(found.tokens)}, billed {count(found.billed_tokens)}"]]
    rows += [["calls each", f"{found.calls:.1f}"], ["seconds each", f"{found.seconds:.1f}"]]
    console.print(table("", ["", f"{found.results} answers"], rows))
    console.print(stage_table({stage: dict(row) for stage, row in found.stages.items()}))


def _parts(results: list[Any], questions: list[Any]) -> list[list[str]]:
    """Figures that only some benchmarks have: whole problems of several steps, and what is left without errata."""
    from coda_dspy.evaluation.statistics import accuracy

    rows = []
    if any("problem" in question.meta for question in questions):
        rows.append(["whole problems", str(_whole_problems(results, questions))])
    listed = {question.id for question in questions if question.meta.get("errata")}
    sound = [result for result in results if result.id not in listed and result.correct is not None]
    if listed and sound:
        rows.append(["without listed errata", str(accuracy(sound))])
    return rows


def _whole_problems(results: list[Any], questions: list[Any]) -> Any:
    """Problems all of whose steps are right, of those all of whose steps are answered, with an interval."""
    from coda_dspy.data import problems
    from coda_dspy.evaluation import Result
    from coda_dspy.evaluation.statistics import accuracy

    correct = {(result.id, result.sample): bool(result.correct) for result in results}
    whole = []
    for group in problems(questions):
        for sample in sorted({result.sample for result in results}):
            steps = [correct.get((question.id, sample)) for question in group]
            if None not in steps:
                whole.append(Result(group[0].id, correct=all(steps), sample=sample))
    return accuracy(whole) if whole else "none is whole yet"


def _estimate(found: Any) -> str:
    return "unknown" if found is None else f"{found.value:.1%} [{found.low:.1%}, {found.high:.1%}]"


def _compare(first: Path, second: Path) -> None:
    from coda_dspy.evaluation import RunFolder, results_in
    from coda_dspy.evaluation.statistics import accuracy, by_question, mean_tokens, paired_difference

    runs = {folder: results_in(folder) for folder in (first, second)}
    shared = set(by_question(runs[first])) & set(by_question(runs[second]))
    hashes = {RunFolder(folder).described_hash() for folder in (first, second)}
    if len(hashes - {None}) > 1:
        raise UserError(f"{first} and {second} were evaluated on different data; evaluate both on the same --data")
    if not shared:
        raise UserError(f"{first} and {second} have no graded question in common; evaluate both on the same --data")
    rows = []
    for folder, results in runs.items():
        kept = [result for result in results if result.id in shared]
        rows.append([str(folder), str(accuracy(kept)), count(mean_tokens(kept))])
    console.print(table("on the questions that both answered", ["run", "accuracy", "tokens each"], rows))
    difference = paired_difference(runs[first], runs[second])
    console.print(Text(f"second minus first: {difference}"))
    if difference.within_noise:
        console.print(Text("The difference is within noise: these questions are too few to tell the two apart."))
