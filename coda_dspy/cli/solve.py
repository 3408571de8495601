"""`coda solve`: answer one question, or a file of them."""

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from coda_dspy.cli.display import console, count, err_console, quiet_libraries, stage_table
from coda_dspy.cli.options import program_of, program_options, select_sandbox
from coda_dspy.errors import UserError
from coda_dspy.task import KINDS


@click.command()
@click.argument("question", required=False)
@program_options
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    help="What the answer is. Default: choice with --choice, code with --tests, else math.",
)
@click.option("--choice", "choices", multiple=True, help="An option of a multiple-choice question; repeatable.")
@click.option("--tests", type=click.Path(dir_okay=False), help="JSON of public tests of a code task.")
@click.option("--entry-point", metavar="NAME", help="The function that a code task asks for.")
@click.option("--input", "source", type=click.Path(dir_okay=False), help="JSON Lines of questions; - reads stdin.")
@click.option("--output", type=click.Path(dir_okay=False), help="JSON Lines of answers; needed with --input.")
@click.option("--workers", type=click.IntRange(1, 1024), default=8, show_default=True, help="Questions at a time.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--show", metavar="STAGES", help="Print what roles said: plan,execute,reflect,… or all.")
def solve(question: str | None, **options: Any) -> None:
    """Answer QUESTION (or the question on standard input), or every question of --input.

    A code task may be a file; its tests are a list of {input, output, testtype}.

    With --input, each answer is saved as it comes, and the same command goes on where it stopped.

    Without --profile and --preset, the profile that ships for the engine and the kind of question is used, if there is
    one; --profile none leaves it out.
    """
    quiet_libraries()
    select_sandbox(options["sandbox"])
    if options["source"] is None:
        _refuse(options, ("output",), "--{} is for --input FILE; a single answer is printed")
        _solve_one(question if question not in (None, "-") else _from_stdin(), options)
        return
    if question is not None:
        raise UserError("both a question and --input were given; use one of them")
    _refuse(
        options,
        ("as_json", "show", "kind", "choices", "tests", "entry_point"),
        "--{} is for a single question; the file says it itself",
    )
    _solve_file(options)


def _refuse(options: dict[str, Any], names: tuple[str, ...], reason: str) -> None:
    words = {"as_json": "json", "choices": "choice", "entry_point": "entry-point"}
    for name in names:
        if options[name]:
            raise UserError(reason.format(words.get(name, name)))


def _from_stdin() -> str:
    if sys.stdin.isatty():
        raise UserError("no question; give it as an argument, on standard input, or with --input FILE")
    return sys.stdin.read()


def _solve_one(question: str, options: dict[str, Any]) -> None:
    from coda_dspy.task import Task

    kind = _kind(options)
    tests = _tests(options["tests"]) if options["tests"] else ()
    text = _file_or_text(question) if kind == "code" else question
    task = Task.of(text, kind, options["choices"] or None, tests, options["entry_point"])
    stages = _stages(options["show"])
    program = program_of(options, kind)
    started = time.monotonic()
    prediction = program(**task.arguments())
    seconds = time.monotonic() - started
    if options["as_json"]:
        click.echo(json.dumps(_as_json(prediction, seconds, stages), indent=2))
    else:
        _print(prediction, seconds, stages)
    if prediction.answer is None:
        sys.exit(1)


def _kind(options: dict[str, Any]) -> str:
    if options["tests"] or options["entry_point"]:
        return str(options["kind"] or "code")
    return str(options["kind"] or ("choice" if options["choices"] else "math"))


def _file_or_text(question: str) -> str:
    """A task is long, so it may be the name of a file that holds it."""
    if len(question) > 255 or "\n" in question:
        return question
    if not Path(question).is_file():
        if Path(question).suffix and " " not in question:
            raise UserError(f"there is no file {question}; give the path of a task, or the task itself")
        return question
    try:
        return Path(question).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the task file {question} cannot be read as UTF-8 text: {error}") from error


def _tests(path: str) -> list[Any]:
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--tests {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"--tests {path} is not JSON: {error}") from error
    if not isinstance(content, list):
        raise UserError(f"--tests {path} is no list; write a list of objects with input, output and testtype")
    return content


def _stages(show: str | None) -> tuple[str, ...]:
    from coda_dspy.ledger import STAGES

    if show is None:
        return ()
    names = tuple(name.strip() for name in show.split(",") if name.strip())
    unknown = [name for name in names if name not in (*STAGES, "all")]
    if unknown or not names:
        raise UserError(f"--show {show!r}: unknown stage; the stages are: {', '.join(STAGES)}, or all")
    return STAGES if "all" in names else names


def _print(prediction: Any, seconds: float, stages: tuple[str, ...]) -> None:
    shown = [step for step in prediction.transcript if step.stage in stages]
    for step in sorted(shown, key=lambda step: (step.sample.path, step.sample.attempt, step.sample.plan)):
        _print_step(step)
    if stages and not shown:
        console.print(Text(f"nothing to show: no {' or '.join(stages)} was needed"))
    answer = prediction.answer if prediction.answer is not None else "no answer"
    console.print(Text(answer, style="bold green" if prediction.answer is not None else "bold red"))
    votes = ", ".join(f"{name}: {number}" for name, number in prediction.votes.items()) or "none"
    if prediction.path is not None:
        console.print(Text(f"path {prediction.path}   votes {votes}"))
    if prediction.answer is not None and not prediction.trusted:
        console.print(Text("the program fails a public test; --show all says which", style="yellow"))
    console.print(stage_table(prediction.ledger.by_stage()))
    ledger = prediction.ledger
    cached = ledger.calls() - ledger.calls(billed=True)
    note = f", {cached} of them answered by the cache" if cached else ""
    console.print(Text(f"{ledger.calls()} calls{note}, {count(ledger.tokens())} tokens, {seconds:.1f} s"))
    for failure, times in Counter(prediction.failures).items():
        console.print(Text(f"failed: {failure}" + (f" ({times} times)" if times > 1 else ""), style="yellow"))


def _print_step(step: Any) -> None:
    console.rule(Text(step.sample.shown(step.stage)), align="left")
    console.print(Text(step.text if step.failure is None else f"failed: {step.failure}"))


def _as_json(prediction: Any, seconds: float, stages: tuple[str, ...]) -> dict[str, Any]:
    ledger = prediction.ledger
    answer = {
        "answer": prediction.answer,
        "trusted": prediction.trusted,
        "path": prediction.path,
        "votes": prediction.votes,
        "solution": prediction.solution,
        "calls": ledger.calls(),
        "tokens": ledger.tokens(),
        "billed_tokens": ledger.tokens(billed=True),
        "seconds": round(seconds, 3),
        "stages": ledger.by_stage(),
        "failures": prediction.failures,
    }
    if stages:
        shown = [step for step in prediction.transcript if step.stage in stages]
        answer["transcript"] = [
            {"stage": s.stage, **s.sample._asdict(), "text": s.text, "failure": s.failure} for s in shown
        ]
    return answer


def _solve_file(options: dict[str, Any]) -> None:
    from coda_dspy.evaluation import JsonLines, evaluate, locked_file, new_session

    if options["output"] is None:
        raise UserError("--input needs --output FILE, where each answer is saved as it comes")
    if Path(options["output"]).resolve() == Path(options["source"]).resolve():
        raise UserError("--output is the same file as --input; give another one")
    questions = _read(options["source"])
    kinds = {question.kind for question in questions}
    program = program_of(options, kinds.pop() if len(kinds) == 1 else None)
    session = new_session()
    seen: list[Any] = []

    def on_result(result: Any) -> None:
        seen.append(result)
        if result.session != session:
            return  # it was in the file before
        shown = result.answer if result.answer is not None else f"no answer ({result.error or 'no attempt gave one'})"
        err_console.print(Text(f"{len(seen)}/{len(questions)} {result.id}: {shown}"))

    store = JsonLines(Path(options["output"]))
    with locked_file(store.path):
        results = evaluate(
            program, questions, store=store, workers=options["workers"], session=session, on_result=on_result
        )
    console.print(Text(f"{_summary(results, session)}; saved in {options['output']}"))


def _summary(results: list[Any], session: str) -> str:
    answered = sum(result.answer is not None for result in results)
    parts = [f"{answered} of {len(results)} questions answered"]
    before = sum(result.session != session for result in results)
    if before:
        parts.append(f"{before} of them were there already")
    graded = [result for result in results if result.correct is not None]
    if graded:
        parts.append(f"{sum(bool(result.correct) for result in graded)} of {len(graded)} graded ones right")
    return ", ".join(parts)


def _read(source: str) -> list[Any]:
    from coda_dspy.data import read_questions

    if source != "-":
        return read_questions(source, need_answers=False)
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.write(sys.stdin.read())
        file.flush()
        return read_questions(file.name, need_answers=False)
