"""The folder of a tune: beside what every run keeps, its phases and how a time limit was kept."""

import json
import logging
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import uuid4

from coda_dspy.evaluation import JsonLines, Pool, RunFolder
from coda_dspy.files import set_aside, write_atomically

logger = logging.getLogger(__name__)

T = TypeVar("T")


class TuneFolder(RunFolder):
    """What is kept of a tune.

    Args:
        path: The folder. Beside a run's own files, `results/` holds the results of each phase, `pools/` the candidates
            of each budget, `study-1.log` the first search, `sizes.json` how many questions fitted into a time limit,
            `clock.json` the seconds that were spent, `pace.json` how fast the engine was, `token` the run's name where
            workers share it.
    """

    def store(self, phase: str) -> JsonLines:
        """The results of one phase."""
        return JsonLines(self.path / "results" / f"{phase.replace(', ', '-').replace(' ', '-')}.jsonl")

    def pool(self, phase: str) -> Pool:
        """All candidates of one phase."""
        return Pool(self.path / "pools" / f"{phase.replace(', ', '-').replace(' ', '-')}.jsonl.gz")

    def token(self) -> str:
        """A name that no other run has, and that this one keeps over restarts."""
        path = self.path / "token"
        if not path.exists():
            write_atomically(path, uuid4().hex)
        return path.read_text(encoding="utf-8")

    def spent(self) -> float:
        """Seconds that earlier processes spent on this run."""
        return self._kept("clock.json", lambda kept: float(kept["seconds"]), 0.0)

    def keep_spent(self, seconds: float) -> None:
        """Write down what was spent so far, so that a time limit holds over restarts."""
        write_atomically(self.path / "clock.json", json.dumps({"seconds": round(seconds, 1)}) + "\n")

    def pace(self) -> tuple[int, float]:
        """Tokens that earlier processes generated, and the seconds in which they did."""
        return self._kept("pace.json", lambda kept: (int(kept["tokens"]), float(kept["seconds"])), (0, 0.0))

    def keep_pace(self, tokens: int, seconds: float) -> None:
        """Write down how fast the engine was, so that a time limit holds over restarts."""
        write_atomically(self.path / "pace.json", json.dumps({"tokens": tokens, "seconds": seconds}) + "\n")

    def sizes(self) -> dict[str, int]:
        """Numbers of questions that were decided on, by part."""
        return self._kept("sizes.json", lambda kept: {part: int(size) for part, size in kept.items()}, {})

    def keep_size(self, part: str, size: int) -> None:
        """Decide on a number of questions, once and for all."""
        write_atomically(self.path / "sizes.json", json.dumps({part: size, **self.sizes()}) + "\n")

    def _kept(self, name: str, read: Callable[[Any], T], nothing: T) -> T:
        """What a file of this folder holds; a damaged one is set aside, as if nothing had been kept."""
        path = self.path / name
        if not path.exists():
            return nothing
        try:
            return read(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            logger.warning("%s is damaged (%s); it is kept as %s and begun anew", path, error, set_aside(path).name)
            return nothing
