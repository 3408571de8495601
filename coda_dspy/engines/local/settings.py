"""What one loaded model is, and how many threads this machine has for it."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """What one loaded model is: engines with equal settings share it."""

    path: Path
    slots: int = 8
    context: int = 4096
    threads: int = 1


def usable_cores() -> int:
    """The cores this process may use: its CPU affinity, and the container's CPU quota where there is one."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return max(1, min(affinity, int(quota) // int(period)))
    except (OSError, ValueError):  # no cgroup v2, or "max"
        return affinity
