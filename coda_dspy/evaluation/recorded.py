"""An evaluation in a folder of its own: results, pool and cache in it, and the same call goes on after a crash."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy

from coda_dspy.errors import UserError

from .cache import own_cache
from .folder import RunFolder, locked
from .lines import JsonLines
from .pool import Pool
from .result import Gradable, Result, settings_of
from .running import evaluate, new_session

if TYPE_CHECKING:
    from coda_dspy.tracking.traces import Traces

RESULTS = "results.jsonl"
POOL = "pool.jsonl.gz"


@dataclass
class Stop:
    """When to start no further question.

    Args:
        tokens: Tokens that the whole run may be billed for, earlier processes' included; what is in flight then ends
            in its own time. `None`: no limit.
        minutes: Wall time of this process.
    """

    tokens: int | None = None
    minutes: float | None = None
    billed: int = field(default=0, init=False)
    reached: str = field(default="", init=False)
    _begun: float = field(default_factory=time.monotonic, init=False)

    def count(self, result: Result) -> None:
        """A question is done.

        Raises:
            UserError: There is a limit on tokens, and the engine does not say how many it took.
        """
        if self.tokens is not None and result.replied and result.tokens is None and not result.known_tokens:
            raise UserError("the limit on tokens cannot be kept: the engine does not report usage; use --deadline")
        self.billed += result.billed_tokens if result.billed_tokens is not None else result.known_tokens

    def keep_going(self) -> bool:
        """Whether another question may be started; `reached` says what forbids it."""
        if self.tokens is not None and self.billed >= self.tokens:
            self.reached = f"{self.billed:,} of {self.tokens:,} tokens are spent"
        elif self.minutes is not None and time.monotonic() - self._begun >= 60 * self.minutes:
            self.reached = f"{self.minutes:g} minutes have passed"
        return not self.reached


def evaluate_in(
    folder: Path,
    program: dspy.Module,
    questions: Sequence[Gradable],
    lm: dspy.LM,
    described: dict[str, Any],
    *,
    samples: int = 1,
    workers: int = 8,
    stop: Stop | None = None,
    on_result: Callable[[Result], None] = lambda result: None,
    cache: Path | None = None,
    session: str = "",
    on_begin: Callable[[], "Traces | None"] = lambda: None,
) -> list[Result]:
    """Evaluate a program and keep everything in a folder.

    Args:
        folder: Where `run.json`, `results.jsonl`, `pool.jsonl.gz` and `cache/` go; one run at a time.
        program: The program; its budget and prompts are a part of what the run is.
        questions: What to answer.
        lm: The engine.
        described: What else the run is: plain values for `run.json`.
        samples: How often to answer each question.
        workers: Questions at the same time.
        stop: When to start no further question.
        on_result: Called for every result as it comes, those of earlier processes first.
        session: Name of this process, for the results.
        on_begin: Called once the folder is this run's; gives what traces its questions, if anything does.
        cache: Another folder for DSPy's cache, for runs that share samples.

    Raises:
        UserError: Another run was begun in the folder, or is running there; the disk is full.
        EngineError: The engine cannot be used at all.
    """
    stop, session = stop or Stop(), session or new_session()
    what = {"engine": str(lm.model), "settings": settings_of(lm), **described}

    def finished(result: Result) -> None:
        stop.count(result)
        # What an earlier process has paid for says nothing of this one's speed.
        on_result(result if result.session == session else replace(result, billed_tokens=0))

    with locked(folder), own_cache(cache or folder / "cache"), dspy.context(lm=lm):
        RunFolder(folder).begin(what)
        traces = on_begin()
        return evaluate(
            program,
            questions,
            samples=samples,
            store=JsonLines(folder / RESULTS),
            pool=Pool(folder / POOL),
            workers=workers,
            session=session,
            on_result=finished,
            keep_going=stop.keep_going,
            traces=traces,
        )


def results_in(folder: Path) -> list[Result]:
    """The results that a folder holds; none where nothing was evaluated there.

    Raises:
        UserError: They are damaged.
    """
    store = JsonLines(folder / RESULTS)
    try:
        return [Result(**row) for row in store.read()]
    except TypeError as error:
        raise UserError(f"{store.path} holds something else than results") from error
