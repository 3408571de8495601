"""The folder of a run: everything that a question cost is in it, and a run that broke goes on from it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dspy
from filelock import FileLock, Timeout

from coda_dspy.errors import UserError
from coda_dspy.evaluation import JsonLines
from coda_dspy.profile import write_atomically


class RunFolder:
    """What is kept of a run.

    Args:
        path: The folder: `run.json` says what the run is, `results/` holds a file of results a phase, `cache/` DSPy's
            cache, `study.log` the search, `sizes.json` how many questions fitted into a time limit, `clock.json` the
            seconds that were spent.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, described: dict[str, Any]) -> None:
        """Write down what this run is, or check that it is the one that was begun here.

        Raises:
            UserError: Another run was begun in this folder; the message says in what it differs.
        """
        path = self.path / "run.json"
        if path.exists():
            _check_same(json.loads(path.read_text(encoding="utf-8")), described, self.path)
        else:
            write_atomically(path, json.dumps(described, indent=2) + "\n")

    def store(self, phase: str) -> JsonLines:
        """The results of one phase."""
        return JsonLines(self.path / "results" / f"{phase.replace(', ', '-').replace(' ', '-')}.jsonl")

    def spent(self) -> float:
        """Seconds that earlier processes spent on this run."""
        path = self.path / "clock.json"
        return float(json.loads(path.read_text(encoding="utf-8"))["seconds"]) if path.exists() else 0.0

    def keep_spent(self, seconds: float) -> None:
        """Write down what was spent so far, so that a time limit holds over restarts."""
        write_atomically(self.path / "clock.json", json.dumps({"seconds": round(seconds, 1)}) + "\n")

    def sizes(self) -> dict[str, int]:
        """Numbers of questions that were decided on, by part."""
        path = self.path / "sizes.json"
        found: dict[str, int] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return found

    def keep_size(self, part: str, size: int) -> None:
        """Decide on a number of questions, once and for all."""
        write_atomically(self.path / "sizes.json", json.dumps({part: size, **self.sizes()}) + "\n")


def _check_same(begun: dict[str, Any], now: dict[str, Any], folder: Path) -> None:
    for key, value in now.items():
        if begun.get(key) != value:
            raise UserError(
                f"{folder} holds a tune with another {key}; give --output another folder, or remove this one"
            )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One tune at a time in a folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock", timeout=0)
        lock.acquire()
    except Timeout as error:
        raise UserError(f"{folder} is in use by another run; wait for it, or give --output another folder") from error
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}; give --output another folder") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def own_cache(folder: Path) -> Iterator[None]:
    """DSPy's cache in the run's folder: it outlives a crash, and no other run's replies make this one look cheap."""
    before = dspy.cache
    dspy.configure_cache(disk_cache_dir=str(folder), enable_disk_cache=True, enable_memory_cache=True)
    try:
        yield
    finally:
        dspy.cache = before
