"""What the parts of a tune share: the engine, the folder, the clock, and how questions are answered."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import Any, Protocol

import dspy

from coda_dspy.algorithms import with_algorithm
from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.evaluation import Gradable, Pool, Result, evaluate, new_session
from coda_dspy.program import Conductor
from coda_dspy.tracking.traces import Traces

from .folder import TuneFolder
from .log import TuneLog
from .plan import TunePlan

# Shares of a time limit after which the prompt optimizer, compiling and search, the choice among the finalists, and
# then the test start nothing new.
PROMPTS_END, SEARCH_ENDS, CHOICE_ENDS, TEST_ENDS = 0.4, 0.65, 0.75, 1.0
LEAST = 4  # questions of a part that a time limit leaves, whatever the speed


class Watcher(Protocol):
    """Whoever shows the progress of a tune."""

    def phase(self, name: str, questions: int) -> None:
        """A phase begins; it has so many questions."""

    def result(self, result: Result) -> None:
        """A question is done."""

    def best(self, text: str) -> None:
        """The best so far has changed."""


class Silent:
    """Nobody watches."""

    def phase(self, name: str, questions: int) -> None: ...
    def result(self, result: Result) -> None: ...
    def best(self, text: str) -> None: ...


class Workbench:
    """Answers questions, writes down what each came to, and knows how much time is left.

    Args:
        lm: The engine.
        plan: How much work to do.
        folder: Where results are kept.
        workers: Questions at the same time.
        log: Where figures are tracked.
        watcher: Shows progress.
        adapter: `plain` or `sections`.
        begun: `time.monotonic()` when the tune began, earlier processes' time included.
        traces: Traces the questions that it chooses.
    """

    def __init__(
        self,
        lm: dspy.LM,
        plan: TunePlan,
        folder: TuneFolder,
        workers: int,
        log: TuneLog,
        watcher: Watcher,
        adapter: str,
        begun: float,
        traces: Traces | None = None,
    ) -> None:
        self.lm, self.plan, self.folder, self.workers = lm, plan, folder, workers
        self.log, self.watcher, self.adapter, self.begun = log, watcher, adapter, begun
        self.traces = traces
        self.session = new_session()
        self.notes: list[str] = []  # what a reader of the report has to know
        # Tokens that were generated, and the seconds in which that was done, by earlier processes too.
        self.generated, self.busy = folder.pace()

    def seconds_to(self, share: float) -> float:
        """Seconds until a share of the time limit has passed."""
        if self.plan.minutes is None:
            return inf
        return share * 60 * self.plan.minutes - (time.monotonic() - self.begun)

    def affordable(self, tokens_each: float | None, share: float) -> float | None:
        """How many questions fit into the time until `share`, at the speed so far; `None` where it is not known."""
        if self.plan.minutes is None:
            return inf
        if not tokens_each or not self.generated:
            return None
        return self.seconds_to(share) * self.generated / self.busy / tokens_each

    def fitting(self, part: str, most: int, tokens_each: float | None, share: float) -> int:
        """How many questions fit into the time until `share`, of at most so many; once decided, it stays so."""
        fit = self.affordable(tokens_each, share)
        if fit is None and part not in self.folder.sizes():
            self.notes.append(f"no speed is known that could tell how many {part} questions the time limit leaves")
        if self.plan.minutes is not None:
            self.folder.keep_size(part, int(max(min(most, most if fit is None else fit), min(most, LEAST))))
        size = self.folder.sizes().get(part, most)
        if size < most:
            self.notes.append(f"the time limit leaves {size} of {most} {part} questions")
        return size

    def evaluate(
        self,
        phase: str,
        program: Conductor,
        questions: Sequence[Gradable],
        ends: float = SEARCH_ENDS,
        pool: Pool | None = None,
    ) -> list[Result]:
        """Answer questions; fewer where the time ends.

        Args:
            phase: What it is called, in the folder and to the watcher.
            program: What answers.
            questions: What to answer.
            ends: Share of the time limit after which none is started.
            pool: Where every candidate is kept, if at all.
        """
        self.watcher.phase(phase, len(questions))
        return self.run(phase, program, questions, lambda: self.seconds_to(ends) > 0, pool)

    def run(
        self,
        phase: str,
        program: Conductor,
        questions: Sequence[Gradable],
        keep_going: Callable[[], bool] = lambda: True,
        pool: Pool | None = None,
    ) -> list[Result]:
        """The same within a phase that has begun."""
        with self.generating():
            return evaluate(
                program,
                questions,
                store=self.folder.store(f"{phase} {key_of(program)}"),
                pool=pool,
                traces=self.traces,
                workers=self.workers,
                session=self.session,
                on_result=self.on_result,
                keep_going=keep_going,
            )

    @contextmanager
    def generating(self) -> Iterator[None]:
        """The engine is at work: this counts as time in which it generates."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.busy += time.monotonic() - started
            self.folder.keep_pace(self.generated, self.busy)

    def is_stored(self, phase: str, program: Conductor, questions: Sequence[Gradable]) -> bool:
        """Whether a phase has answered all of these questions."""
        rows, _ = self.folder.store(f"{phase} {key_of(program)}").sorted_out()
        stored = {row["id"] for row in rows}
        return all(question.id in stored for question in questions)

    def on_result(self, result: Result) -> None:
        """A question has ended."""
        if result.session == self.session:
            self.generated += result.billed_tokens or 0
            self.folder.keep_spent(time.monotonic() - self.begun)
            self.watcher.result(result)
        else:
            self.watcher.result(replace(result, billed_tokens=0))  # generated, and paid for, by another process


def key_of(program: Conductor) -> str:
    """Names a program by its prompts and its budget: results of another one must never be taken for its own."""
    content = json.dumps([type(program).__name__, program.dump_state()], sort_keys=True, default=str)
    return hashlib.blake2b(content.encode(), digest_size=4).hexdigest()


def small(program: AdaptiveCoda, algorithm: str) -> Conductor:
    """The smallest program in which every role of an algorithm takes part, with the prompts of `program`."""
    return with_algorithm(at_budget(program, best_of_n=1, n_plans=1), algorithm)


def at_budget(program: AdaptiveCoda, **changes: Any) -> AdaptiveCoda:
    """A copy with some fields of the budget changed."""
    copy: AdaptiveCoda = program.deepcopy()
    copy.budget.load_state(copy.budget.replace(**changes).dump_state())
    return copy
