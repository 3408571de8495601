"""How much one run may take."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from coda_dspy.errors import UserError

# name: (lowest, highest)
_RANGES: dict[str, tuple[float, float]] = {
    "seconds": (0.05, 86_400),
    "cpu_seconds": (0.05, 86_400),
    "memory_mb": (16, 1 << 20),
    "output_bytes": (1, 1 << 30),
    "disk_mb": (1, 1 << 16),
    "disk_files": (16, 1 << 20),
    "threads": (1, 4096),
    "stack_mb": (1, 120),
}
_FRACTIONS = ("seconds", "cpu_seconds")


@dataclass(frozen=True)
class Limits:
    """How much one run may take. What each level enforces stands in the README of this folder.

    Args:
        seconds: Wall-clock seconds of one run (in `run_many`, of each input), 0.05 to 86,400.
        cpu_seconds: CPU seconds, 0.05 to 86,400. A program that does not let itself be stopped there is killed by the
            kernel, which counts whole seconds and by samples, at twice as many. None: only that kill, at twice
            `seconds`, which threads outside of Python can reach.
        memory_mb: Megabytes of memory beyond Python and the preloaded packages, 16 to 1,048,576.
        output_bytes: Bytes of standard output, and as many of standard error; past them the run is ended.
        disk_mb: Megabytes of the run's own folder, 1 to 65,536, and the largest file in it.
        disk_files: Files and folders in it, 16 to 1,048,576.
        threads: Threads of the run, 1 to 4,096.
        stack_mb: Megabytes of the main thread's stack, which deep recursion through C needs, 1 to 120.

    Raises:
        UserError: A value is out of range; the message names field, value and range.

    Example:
        >>> Limits(seconds=2).memory_mb
        1024
    """

    seconds: float = 10.0
    cpu_seconds: float | None = None
    memory_mb: int = 1024
    output_bytes: int = 1 << 20
    disk_mb: int = 64
    disk_files: int = 4096
    threads: int = 64
    stack_mb: int = 120

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None or field.name != "cpu_seconds":
                _check(field.name, value)

    @property
    def hard_cpu_seconds(self) -> int:
        """Where the kernel kills a program that did not stop when asked; well beyond, as it counts too fast."""
        return 2 * math.ceil(self.seconds if self.cpu_seconds is None else self.cpu_seconds)


def _check(name: str, value: Any) -> None:
    low, high = _RANGES[name]
    kinds = (int, float) if name in _FRACTIONS else (int,)
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        kind = "a number" if name in _FRACTIONS else "a whole number"
        raise UserError(f"limits: {name} is {value!r}, but must be {kind} from {low:,} to {high:,}")
