"""What people see: tables, bars, and a run's progress. Model output never reaches the terminal raw."""

import logging
import os
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text


class _SafeConsole(Console):
    """Prints no control character of a text, whoever has written it: file names and notes may be a stranger's too."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*map(_harmless, objects), **options)

    def rule(self, title: Any = "", **options: Any) -> None:
        super().rule(_harmless(title), **options)


def _harmless(shown: Any) -> Any:
    if isinstance(shown, Text):
        made = shown.copy()
        made.plain = safe(shown.plain)  # as long as before, so its styles stay in place
        return made
    return safe(shown) if isinstance(shown, str) else shown


def _console(stderr: bool) -> Console:
    """Tables that go into a file or a pipe are not squeezed into the 80 columns that rich would assume."""
    stream = sys.stderr if stderr else sys.stdout
    return _SafeConsole(stderr=stderr, width=None if stream.isatty() or "COLUMNS" in os.environ else 140)


class _SafeFormatter(logging.Formatter):
    """The same for what is logged: a warning may quote a server, or name a file."""

    def format(self, record: logging.LogRecord) -> str:
        return safe(super().format(record))


console = _console(stderr=False)
err_console = _console(stderr=True)

SECONDS_BETWEEN_LINES = 5.0  # how often progress is written where there is no terminal to redraw


def quiet_libraries() -> None:
    """DSPy warns of every cut reply, and its optimizers draw bars; both are in our own tables and progress."""
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    logging.lastResort.setFormatter(_SafeFormatter())  # type: ignore[union-attr]
    for name in ("dspy.clients.lm", "dspy.teleprompt.bootstrap"):  # not "dspy": importing it sets that one again
        logging.getLogger(name).setLevel(logging.ERROR)


def safe(text: str) -> str:
    """Text without control characters, terminal escapes and reversals of writing among them; line breaks stay."""
    return "".join(c if c in "\n\t" or c.isprintable() or unicodedata.category(c) == "Zs" else "�" for c in text)


def count(number: int | float | None) -> str:
    """A number for people; what nobody reported is unknown, not 0."""
    return "unknown" if number is None else f"{number:,.0f}"


def table(title: str, columns: list[str], rows: list[list[str]]) -> Table:
    """A plain table; the first column is text, the others are numbers."""
    made = Table(title=Text(safe(title)), title_justify="left", header_style="bold")
    for index, column in enumerate(columns):
        made.add_column(Text(safe(column)), justify="left" if index == 0 else "right")
    for row in rows:
        made.add_row(*(Text(safe(cell)) for cell in row))
    return made


def stage_table(stages: dict[str, dict[str, Any]]) -> Table:
    """The bill of a question, a row a stage."""
    columns = ["stage", "calls", "cached", "failed", "cut", "tokens in", "tokens out", "seconds"]
    rows = [
        [
            stage,
            *(str(row[key]) for key in ("calls", "cached", "failed", "cut")),
            count(row["tokens_in"]),
            count(row["tokens_out"]),
            f"{row['seconds']:.1f}",
        ]
        for stage, row in stages.items()
    ]
    return table("", columns, rows)


@contextmanager
def download_bar() -> Iterator[Callable[[int, int, str], None]]:
    """A progress callback for weights; draws nothing unless something is really fetched."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    bar = Progress(*columns, TimeRemainingColumn(), console=err_console)
    tasks: dict[str, Any] = {}
    last = time.monotonic()

    def progress(done: int, total: int, source: str) -> None:
        nonlocal last
        if not tasks:
            bar.start()
        if source not in tasks:
            tasks[source] = bar.add_task(f"weights from {source}", total=total)
        bar.update(tasks[source], completed=done)
        if not err_console.is_terminal and time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            err_console.print(f"weights from {source}: {done / 1e6:.0f} of {total / 1e6:.0f} MB")

    try:
        yield progress
    finally:
        if tasks:
            bar.stop()


class RunDisplay:
    """Progress of a run: phase, questions, tokens, tokens a second, best so far, time left.

    Args:
        questions: Questions of all phases together.
        minutes: Time limit of the run, if it has one.
        started: `time.monotonic()` of its start; by default now.
    """

    def __init__(self, questions: int, minutes: float | None = None, started: float | None = None) -> None:
        self.planned, self.minutes = questions, minutes
        self.started = time.monotonic() if started is None else started
        self.begun = time.monotonic()
        self.done = self.tokens = self.right = self.judged = 0
        self.name, self.phase_total, self.phase_done = "starting", 0, 0
        self.so_far = ""
        self._live: Live | None = None
        self._ended = threading.Event()

    def __enter__(self) -> "RunDisplay":
        if err_console.is_terminal:
            self._live = Live(get_renderable=self.render, console=err_console, refresh_per_second=2, transient=True)
            self._live.start()
        else:
            threading.Thread(target=self._print_lines, name="coda-progress", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._live is not None:
            self._live.stop()

    def _print_lines(self) -> None:
        """Where nothing can be redrawn: a line every few seconds, also while one long question is being answered."""
        while not self._ended.wait(SECONDS_BETWEEN_LINES):
            err_console.print(self._line(), markup=False, highlight=False, soft_wrap=True)

    def phase(self, name: str, questions: int) -> None:
        self.name, self.phase_total, self.phase_done = name, questions, 0
        if self._live is None:
            err_console.print(f"[{self._clock()}] {name}: {questions} questions", markup=False, highlight=False)

    def result(self, result: Any) -> None:
        self.done += 1
        self.phase_done += 1
        self.tokens += result.billed_tokens or 0

    def best(self, text: str) -> None:
        self.so_far = f"best so far {text}"

    def graded(self, result: Any) -> None:
        """A result, and how many of the graded ones were right so far."""
        self.result(result)
        if result.correct is not None:
            self.right += bool(result.correct)
            self.judged += 1
            self.so_far = f"{self.right} of {self.judged} right"

    def render(self) -> Text:
        return Text(safe(f"{self.name}\n{self._line()}"))

    def _line(self) -> str:
        rate = self.tokens / max(time.monotonic() - self.begun, 0.001)
        return (
            f"[{self._clock()}] {self.phase_done}/{self.phase_total} questions, {self.tokens:,} tokens, "
            f"{rate:.0f} tokens/s, {self.so_far + ', ' if self.so_far else ''}{self._left()}"
        )

    def _clock(self) -> str:
        return _minutes(time.monotonic() - self.started)

    def _left(self) -> str:
        """By the questions that have ended, and by the limit: the only one that is known before any has."""
        now = time.monotonic()
        limit = 60 * self.minutes - (now - self.started) if self.minutes is not None else 0.0
        if not self.done or not self.planned:
            return f"at most {_minutes(limit)} left" if limit > 0 else "time left unknown until a question ends"
        estimate = (now - self.begun) / self.done * max(self.planned - self.done, 0)
        return f"about {_minutes(min(estimate, limit) if limit > 0 else estimate)} left"


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
