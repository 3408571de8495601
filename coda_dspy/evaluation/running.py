"""Run a program over many questions: each finished question is saved at once, and a run goes on where it stopped.

Not `dspy.Evaluate`: its 120 s rule starts slow questions again, and it keeps nothing before the end (DESIGN.md, 2, 10).
"""

import contextvars
import logging
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import dspy

from coda_dspy.engines.secrets import redact
from coda_dspy.errors import EngineSilent, UserError

from .lines import JsonLines
from .pool import Pool, PoolRecord
from .result import Gradable, Result, bill_of, fingerprint, grading_key, is_private, told

if TYPE_CHECKING:
    from coda_dspy.tracking.traces import Traces

logger = logging.getLogger(__name__)

_MOST_SILENT = 5  # questions in a row that the engine may leave without any reply


class Item(NamedTuple):
    """One sample of one question."""

    question: Any
    sample: int

    @property
    def key(self) -> tuple[str, int]:
        return self.question.id, self.sample


class Answered(NamedTuple):
    """What an item came to.

    Args:
        item: The item.
        result: Its result.
        record: Its record for the pool, where one is kept.
        started: `time.monotonic()` when it was started.
        silent: The error, where the engine never answered.
        broke_off: The engine answered, but was silent in some step.
    """

    item: Item
    result: Result
    record: PoolRecord | None
    started: float
    silent: EngineSilent | None = None
    broke_off: bool = False


def new_session() -> str:
    """A name for this run in result files: start time, process id, and what tells two in one second apart."""
    return f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}-{secrets.token_hex(2)}"


def evaluate(
    program: dspy.Module,
    questions: Sequence[Gradable],
    *,
    samples: int = 1,
    store: JsonLines | None = None,
    pool: Pool | None = None,
    workers: int = 8,
    session: str = "",
    on_result: Callable[[Result], None] | None = None,
    keep_going: Callable[[], bool] = lambda: True,
    traces: "Traces | None" = None,
) -> list[Result]:
    """Answer and grade questions, side by side.

    A question that is a step of a larger problem starts when the step before it is done, with that step's own answer.

    Args:
        program: Called with the arguments of each task; uses the engine of the context.
        questions: What to answer. Those that `store` already holds are not answered again.
        samples: How often to answer each question, on samples of its own each time.
        store: Where each finished question goes at once.
        pool: Where all its candidates go, graded, before that.
        workers: Questions at the same time.
        session: Name of this process, for the result lines.
        on_result: Called for every question as it ends, from the calling thread.
        keep_going: Asked before each question is started; once it says no, none is started any more.
        traces: Traces the questions that it chooses.

    Returns:
        The results in the order of the questions, sample by sample; fewer only where `keep_going` said no.

    Raises:
        EngineError: The engine cannot be used at all. What was finished before is in `store`.
        UserError: `store` holds answers of another program, engine or question, or no results at all; or the disk is
            full.
    """
    items = [Item(question, sample) for question in questions for sample in range(samples)]
    queue = _Queue(items)
    done: dict[tuple[str, int], Result] = {}
    saved = {(row["id"], row["sample"]): row for row in _rows(store)}
    for item in queue.saved(saved):
        found = _checked(saved[item.key], item, program, store)
        done[item.key] = found
        queue.landed(item, found)
        if on_result is not None:
            on_result(found)

    def keep(answered: Answered) -> None:
        done[answered.item.key] = answered.result
        if pool is not None and answered.record is not None:
            pool.append(answered.record)
        if store is not None:
            store.append(asdict(answered.result))
        queue.landed(answered.item, answered.result)
        if on_result is not None:
            on_result(answered.result)

    silence = _Silence(workers)

    def finished(answered: Answered) -> None:
        for settled in silence.settled(answered):
            keep(settled)

    def answer(item: Item) -> Answered:
        with nullcontext() if traces is None else traces.question(item.question, item.sample) as trace:
            answered = _answer(program, item, session, pool is not None)
            if trace is not None:
                trace.result = answered.result
            return answered

    waiting: Sequence[Answered] | None = None
    while waiting is None or waiting:
        _run_all(answer, queue, workers, finished, keep_going)
        waiting = silence.rest()
        for settled in waiting:
            keep(settled)
    return [done[item.key] for item in items if item.key in done]


class _Silence:
    """Holds back questions that the engine left unanswered, or half answered, until it is known whether it is gone.

    What it cannot take is a failed question; but an engine that is gone must not leave wrong answers behind.

    Args:
        at_a_time: Questions that run side by side: the most that an engine breaks off when it dies.
    """

    def __init__(self, at_a_time: int) -> None:
        self._most_held = at_a_time + _MOST_SILENT
        self._held: list[tuple[float, Answered]] = []  # with the time at which each landed
        self._silent_in_a_row = 0
        self._heard = False

    def settled(self, answered: Answered) -> list[Answered]:
        """What can be kept now.

        Raises:
            EngineSilent: It never answered several questions in a row.
        """
        if answered.silent is not None:
            self._silent_in_a_row += 1
            if self._silent_in_a_row >= _MOST_SILENT:
                raise answered.silent
        else:
            self._heard, self._silent_in_a_row = True, 0
            if not answered.broke_off:
                return [*self._released(answered.started), answered]
        self._held.append((time.monotonic(), answered))
        return [self._held.pop(0)[1]] if len(self._held) > self._most_held else []

    def _released(self, alive: float) -> list[Answered]:
        """Those that had landed at a time after which the engine was still there."""
        released = [answered for landed, answered in self._held if landed <= alive]
        self._held = [(landed, answered) for landed, answered in self._held if landed > alive]
        return released

    def rest(self) -> list[Answered]:
        """What is left at the end.

        Raises:
            EngineSilent: It never answered anything.
        """
        held, self._held = [answered for _, answered in self._held], []
        if held and held[-1].silent is not None and not self._heard:
            raise held[-1].silent
        return held


class _Queue:
    """What can be started: a step of a larger problem once the step before it has landed."""

    def __init__(self, items: Sequence[Item]) -> None:
        keys = {item.key for item in items}
        self._ready: deque[Item] = deque()
        self._waiting: dict[tuple[str, int], Item] = {}
        self._programs: dict[tuple[str, int], tuple[str, ...]] = {}
        for item in items:
            previous = (getattr(item.question, "previous", None) or "", item.sample)
            if previous in keys:
                self._waiting[previous] = item
            else:
                self._ready.append(item)

    def saved(self, keys: Container[tuple[str, int]]) -> Iterator[Item]:
        """The items that are saved already; call `landed` for each before the next one."""
        unsaved: deque[Item] = deque()
        while self._ready:
            item = self._ready.popleft()
            if item.key in keys:
                yield item  # its successor now stands in front
            else:
                unsaved.append(item)
        self._ready = unsaved

    def landed(self, item: Item, result: Result) -> None:
        """An item is done; the step after it can start, on its answer."""
        successor = self._waiting.pop(item.key, None)
        if successor is None:
            return
        programs = (*self._programs.pop(item.key, ()), result.answer or "")
        self._programs[successor.key] = programs
        self._ready.appendleft(Item(successor.question.after(programs), successor.sample))

    def next(self) -> Item | None:
        return self._ready.popleft() if self._ready else None


def _answer(program: dspy.Module, item: Item, session: str, keep: bool) -> Answered:
    """Answer and grade one item; a failure of that question alone is part of its result.

    Raises:
        UserError: The engine cannot be used at all, or the machine lacks something that every question needs.
    """
    question = item.question
    known = {"id": question.id, "gold": _gold(question), "session": session, "sample": item.sample}
    known |= {"asked": fingerprint(question, program), "grading": grading_key(question)}
    grade = cache(question.grade)
    started = time.monotonic()
    try:
        with dspy.context(**_resampled(program, item.sample)):
            prediction = program(**question.task.arguments())
        seconds = round(time.monotonic() - started, 3)
        known |= {"seconds": seconds, **bill_of(prediction.ledger)}
        record = PoolRecord.of(question, item.sample, known["asked"], prediction, seconds, grade) if keep else None
        result = _result(question, prediction, record, grade, known)
        return Answered(item, result, record, started, broke_off=prediction.broke_off)
    except EngineSilent as error:
        known |= {"seconds": round(time.monotonic() - started, 3), **bill_of(error.ledger)}
        return Answered(item, *_failed(question, error, known, keep), started, silent=error)
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it was, it is this question's failure, not the run's
        return Answered(item, *_failed(question, error, known, keep), started)


def _result(question: Any, prediction: Any, record: PoolRecord | None, grade: Any, known: dict[str, Any]) -> Result:
    return Result(
        answer=prediction.answer,
        correct=grade(prediction.answer),
        solution="" if is_private(question) else prediction.solution,
        path=prediction.path,
        votes=prediction.votes,
        failures=told(question, prediction.failures),
        recalled=record.recalled if record is not None else None,
        hit_rate=record.hit_rate if record is not None else None,
        **known,
    )


def _failed(question: Any, error: Exception, known: dict[str, Any], keep: bool) -> tuple[Result, PoolRecord | None]:
    """A question that failed as a whole."""
    reason = type(error).__name__ if is_private(question) else redact(f"{type(error).__name__}: {error}")
    correct = question.grade(None)
    record = PoolRecord.empty(question, known["sample"], known["asked"], correct, reason) if keep else None
    nothing: dict[str, Any] = {"recalled": False, "hit_rate": 0.0} if keep and correct is not None else {}
    return Result(correct=correct, error=reason, **known, **nothing), record


def _gold(question: Gradable) -> str | None:
    return None if is_private(question) else question.answer or None


def _resampled(program: dspy.Module, sample: int) -> dict[str, Any]:
    """The engine on another rollout for every sample but the first."""
    lm = dspy.settings.lm or getattr(program, "lm", None)
    if not sample or lm is None:
        return {}
    return {"lm": lm.copy(rollout_id=(lm.kwargs.get("rollout_id") or 0) + sample)}


def _rows(store: JsonLines | None) -> list[dict[str, Any]]:
    """The saved results. Damaged ones are set aside, and so answered again."""
    if store is None:
        return []
    rows, damaged = store.sorted_out()
    if any("id" not in row or "sample" not in row for row in rows) or (damaged and not rows):
        raise UserError(f"{store.path} holds something else than results; give another file")
    if damaged:
        aside = store.set_aside(damaged)
        logger.warning("%s: %d damaged lines are now in %s; they are answered again", store.path, len(damaged), aside)
    return rows


def _checked(row: dict[str, Any], item: Item, program: dspy.Module, store: JsonLines | None) -> Result:
    """A saved result, if it is of this very program; graded again where its grading has been corrected."""
    path = store.path if store is not None else ""
    try:
        found = Result(**row)
    except TypeError as error:
        raise UserError(f"{path} holds something else than results; give another file") from error
    if found.asked != fingerprint(item.question, program):
        raise UserError(
            f"{path} holds an answer to {found.id!r} of another question, engine, profile or budget; "
            "give another file, or remove this one"
        )
    if found.grading == grading_key(item.question):
        return found
    return replace(found, gold=_gold(item.question), correct=item.question.grade(found.answer))


def _run_all(
    run: Callable[[Item], Answered],
    queue: _Queue,
    workers: int,
    finished: Callable[[Answered], None],
    keep_going: Callable[[], bool],
) -> None:
    """Keep `workers` items in flight; results are handled here, one at a time, in the order in which they end."""
    pool = ThreadPoolExecutor(workers, thread_name_prefix="coda-question")
    flying: set[Future[Answered]] = set()
    try:
        while True:
            while len(flying) < workers and keep_going() and (item := queue.next()) is not None:
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
