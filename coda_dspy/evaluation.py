"""Run a program over many questions: each finished question is saved at once, and a run goes on where it stopped.

Not `dspy.Evaluate`: its 120 s rule starts slow questions again, and it keeps nothing before the end (DESIGN.md, 2, 10).
"""

import contextvars
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import dspy

from coda_dspy.engines.connect import is_secret
from coda_dspy.errors import CallFailed, UserError
from coda_dspy.ledger import Ledger
from coda_dspy.task import Task


class Gradable(Protocol):
    """A question to answer; an empty `answer` is one that nobody knows."""

    @property
    def id(self) -> str: ...
    @property
    def answer(self) -> str: ...
    @property
    def task(self) -> Task: ...
    def grade(self, answer: str | None) -> bool | None: ...


@dataclass(frozen=True)
class Result:
    """What one question came to.

    Args:
        id: The question's id.
        answer: The program's answer; `None` without one.
        gold: The right answer; `None` where nobody knows it.
        correct: Whether both mean the same; `None` without a right answer.
        solution: The text that gave the answer.
        path: `direct`, `code` or `coda`; `None` without an answer.
        tokens: Tokens in and out, calls answered by the cache included; `None` where unknown.
        known_tokens: The same of those calls whose usage is known: a lower bound.
        billed_tokens: The same without calls answered by the cache.
        calls: Number of calls to the engine.
        billed_calls: The same without calls answered by the cache.
        seconds: Wall time of the question, in the company of those that ran beside it.
        stages: Calls, tokens and failures by stage.
        votes: Votes by answer.
        failures: Why steps gave nothing.
        error: Why the question failed as a whole; it counts as wrong.
        session: Which process answered it (see `new_session`).
        asked: Fingerprint of the question, the engine and the program (see `fingerprint`).
    """

    id: str
    answer: str | None = None
    gold: str | None = None
    correct: bool | None = None
    solution: str = ""
    path: str | None = None
    tokens: int | None = None
    known_tokens: int = 0
    billed_tokens: int | None = None
    calls: int = 0
    billed_calls: int = 0
    seconds: float = 0.0
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    votes: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    error: str | None = None
    session: str = ""
    asked: str = ""


class JsonLines:
    """An append-only file with one JSON object a line, each on the disk before `append` returns.

    A line that a crash has torn is passed over, and dropped before the first new one; every other line is kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._whole = False

    def read(self) -> list[dict[str, Any]]:
        """All whole lines.

        Raises:
            UserError: A line other than the last one is no JSON object; the message names it.
        """
        if not self.path.exists():
            return []
        whole, _, _ = self.path.read_bytes().rpartition(b"\n")
        return [self._parse(number, line) for number, line in enumerate(whole.splitlines(), 1) if line.strip()]

    def append(self, row: dict[str, Any]) -> None:
        """Add one line.

        Raises:
            UserError: The disk is full, or the file cannot be written.
        """
        line = json.dumps(row).encode() + b"\n"
        with self._lock:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a+b") as file:
                    self._drop_torn_line(file)
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                self._whole = False  # half of the line may be there
                raise UserError(
                    f"{self.path} cannot be written: {error.strerror}; what was saved before is kept, "
                    "make room and run the same command again"
                ) from error

    def _drop_torn_line(self, file: BinaryIO) -> None:
        """Once, before the first line of this process: what a crash left behind the last line break goes."""
        if not self._whole:
            file.seek(0)
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)
            file.seek(0, os.SEEK_END)
            self._whole = True

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(
                f"{self.path}, line {number} is damaged: {error}; remove that line and run the same command again"
            ) from error
        if not isinstance(row, dict):
            raise UserError(f"{self.path}, line {number} is no JSON object; remove that line")
        return row


def new_session() -> str:
    """A name for this process in result files: start time and process id."""
    return f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"


def evaluate(
    program: dspy.Module,
    questions: Sequence[Gradable],
    *,
    store: JsonLines | None = None,
    workers: int = 8,
    session: str = "",
    on_result: Callable[[Result], None] | None = None,
    keep_going: Callable[[], bool] = lambda: True,
) -> list[Result]:
    """Answer and grade questions, side by side.

    Args:
        program: Called with the arguments of each task; uses the engine of the context.
        questions: What to answer. Those that `store` already holds are not answered again.
        store: Where each finished question goes at once.
        workers: Questions at the same time.
        session: Name of this process, for the result lines.
        on_result: Called for every question as it ends, from the calling thread.
        keep_going: Asked before each question is started; once it says no, none is started any more.

    Returns:
        The results in the order of the questions; shorter than `questions` only where `keep_going` said no.

    Raises:
        EngineError: The engine cannot be used at all. What was finished before is in `store`.
        UserError: `store` holds answers of another program, engine or question; or the disk is full.
    """
    done = _finished(store, questions, program) if store is not None else {}
    for question in questions:
        if question.id in done and on_result is not None:
            on_result(done[question.id])
    missing = [question for question in questions if question.id not in done]

    def finished(result: Result) -> None:
        done[result.id] = result
        if store is not None:
            store.append(asdict(result))
        if on_result is not None:
            on_result(result)

    _run_all(lambda question: answer_one(program, question, session), missing, workers, finished, keep_going)
    return [done[question.id] for question in questions if question.id in done]


def answer_one(program: dspy.Module, question: Gradable, session: str = "") -> Result:
    """Answer and grade one question; a failure of that question alone is part of its result.

    Raises:
        UserError: The engine cannot be used at all, or the machine lacks something that every question needs.
    """
    started = time.monotonic()
    task = question.task
    asked = fingerprint(question, program)
    try:
        prediction = program(**task.arguments())
    except CallFailed as error:
        gold, correct = question.answer or None, question.grade(None)
        return Result(question.id, None, gold, correct, error=str(error), session=session, asked=asked)
    ledger: Ledger = prediction.ledger
    return Result(
        id=question.id,
        answer=prediction.answer,
        gold=question.answer or None,
        correct=question.grade(prediction.answer),
        solution=prediction.solution,
        path=prediction.path,
        tokens=ledger.tokens(),
        known_tokens=ledger.known_tokens(),
        billed_tokens=ledger.tokens(billed=True),
        calls=ledger.calls(),
        billed_calls=ledger.calls(billed=True),
        seconds=round(time.monotonic() - started, 3),
        stages=ledger.by_stage(),
        votes=prediction.votes,
        failures=prediction.failures,
        session=session,
        asked=asked,
    )


def fingerprint(question: Gradable, program: dspy.Module) -> str:
    """What an answer depends on: the question, the program's prompts and budget, the engine and its settings."""
    lm = getattr(program, "lm", None) or dspy.settings.lm
    engine = [str(getattr(lm, "model", None)), settings_of(lm)]
    adapter = getattr(program, "adapter", None)
    content = [question.task.arguments(), type(program).__name__, adapter, program.dump_state(), engine]
    return hashlib.blake2b(json.dumps(content, default=str).encode(), digest_size=8).hexdigest()


def settings_of(lm: Any) -> dict[str, Any]:
    """An engine's decoding settings, without keys and addresses."""
    kwargs = getattr(lm, "kwargs", {})
    return {name: value for name, value in kwargs.items() if value is not None and not is_secret(name)}


def _finished(store: JsonLines, questions: Sequence[Gradable], program: dspy.Module) -> dict[str, Result]:
    """The results that are there already, if they are of this very program."""
    rows = store.read()
    try:
        done = {row["id"]: Result(**row) for row in rows}
    except (KeyError, TypeError) as error:
        raise UserError(f"{store.path} holds something else than results; give another file") from error
    for question in questions:
        found = done.get(question.id)
        if found is None:
            continue
        if found.asked != fingerprint(question, program):
            raise UserError(
                f"{store.path} holds an answer to {question.id!r} of another question, engine, profile or budget; "
                "give another file, or remove this one"
            )
        # The right answer may have been corrected since.
        done[question.id] = replace(found, gold=question.answer or None, correct=question.grade(found.answer))
    return done


def _run_all(
    run: Callable[[Any], Result],
    items: Iterable[Any],
    workers: int,
    finished: Callable[[Result], None],
    keep_going: Callable[[], bool],
) -> None:
    """Keep `workers` items in flight; results are handled here, one at a time, in the order in which they end."""
    queue = iter(items)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="coda-question")
    flying: set[Future[Result]] = set()
    try:
        while True:
            while len(flying) < workers and keep_going() and (item := next(queue, None)) is not None:
                flying.add(pool.submit(contextvars.copy_context().run, run, item))
            if not flying:
                return
            landed, flying = wait(flying, return_when=FIRST_COMPLETED)
            # What landed together is saved together, also where one of them ends the run.
            for future in sorted(landed, key=lambda future: future.exception() is not None):
                finished(future.result())
    finally:
        # After Ctrl-C, a full disk or a dead engine nothing new starts; calls in flight end in their own time.
        pool.shutdown(wait=False, cancel_futures=True)
