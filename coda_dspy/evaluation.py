"""Run a program over many questions: each finished question is saved at once, and a run goes on where it stopped.

Not `dspy.Evaluate`: its 120 s rule starts slow questions again, and it keeps nothing before the end (DESIGN.md, 2, 10).
"""

import contextvars
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import dspy

from coda_dspy import answers
from coda_dspy.errors import CodaError, EngineError, UserError
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
        billed_tokens: The same without calls answered by the cache.
        calls: Number of calls to the engine.
        billed_calls: The same without calls answered by the cache.
        seconds: Wall time of the question, in the company of those that ran beside it.
        stages: Calls, tokens and failures by stage.
        votes: Votes by answer.
        failures: Why steps gave nothing.
        error: Why the question failed as a whole; it counts as wrong.
        session: Which process answered it (see `new_session`).
    """

    id: str
    answer: str | None = None
    gold: str | None = None
    correct: bool | None = None
    solution: str = ""
    path: str | None = None
    tokens: int | None = None
    billed_tokens: int | None = None
    calls: int = 0
    billed_calls: int = 0
    seconds: float = 0.0
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    votes: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    error: str | None = None
    session: str = ""


class JsonLines:
    """An append-only file with one JSON object a line, each on the disk before `append` returns.

    A line that a crash has torn is dropped when the file is opened again; every other line is kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def read(self) -> list[dict[str, Any]]:
        """All whole lines.

        Raises:
            UserError: A line other than the last one is no JSON object; the message names it.
        """
        if not self.path.exists():
            return []
        content = self.path.read_bytes()
        whole, _, torn = content.rpartition(b"\n")
        if torn:
            self._truncate(len(content) - len(torn))
        return [self._parse(number, line) for number, line in enumerate(whole.splitlines(), 1) if line.strip()]

    def append(self, row: dict[str, Any]) -> None:
        """Add one line.

        Raises:
            UserError: The disk is full, or the file cannot be written.
        """
        line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
        with self._lock:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("ab") as file:
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise UserError(
                    f"{self.path} cannot be written: {error.strerror}; what was saved before is kept, "
                    "make room and run the same command again"
                ) from error

    def _truncate(self, length: int) -> None:
        with self.path.open("r+b") as file:
            file.truncate(length)

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
        program: Called with `question`, `kind` and `choices`; uses the engine of the context.
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
    """
    done = {row["id"]: Result(**row) for row in store.read()} if store is not None else {}
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

    _run_all(lambda q: answer_one(program, q, session), missing, workers, finished, keep_going)
    return [done[question.id] for question in questions if question.id in done]


def answer_one(program: dspy.Module, question: Gradable, session: str = "") -> Result:
    """Answer and grade one question; a failure of that question alone is part of its result.

    Raises:
        EngineError: The engine cannot be used at all.
    """
    started = time.monotonic()
    task = question.task
    try:
        prediction = program(question=task.question, kind=task.kind, choices=task.choices)
    except EngineError:
        raise
    except CodaError as error:
        gold, correct = question.answer or None, False if question.answer else None
        return Result(question.id, None, gold, correct, error=str(error), session=session)
    ledger: Ledger = prediction.ledger
    return Result(
        id=question.id,
        answer=prediction.answer,
        gold=question.answer or None,
        correct=answers.correct(task, prediction.answer, question.answer) if question.answer else None,
        solution=prediction.solution,
        path=prediction.path,
        tokens=ledger.tokens(),
        billed_tokens=ledger.tokens(billed=True),
        calls=ledger.calls(),
        billed_calls=ledger.calls(billed=True),
        seconds=round(time.monotonic() - started, 3),
        stages=ledger.by_stage(),
        votes=prediction.votes,
        failures=prediction.failures,
        session=session,
    )


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
            for future in landed:
                finished(future.result())
    finally:
        # After Ctrl-C, a full disk or a dead engine nothing new starts, and nobody waits for calls in flight.
        pool.shutdown(wait=False, cancel_futures=True)
