"""What the sandbox of this machine contains and what it does not, in words that can be shown."""

from typing import NamedTuple

from coda_dspy.sandbox.errors import SandboxUnavailable
from coda_dspy.sandbox.forkserver import LEVELS
from coda_dspy.sandbox.opening import open_sandbox

_BOTH = (
    "time, CPU, memory, output and thread limits",
    "no network, no other program, no other process to signal or trace",
    "no environment, no file of the user to read or write",
    "nothing outlives its run",
)
_CONTAINS = {
    "namespaces": (*_BOTH, "a file system of its own, a private folder that ends with the run"),
    "landlock": (*_BOTH, "nothing at all can be written to disk"),
}
_KERNEL = "one kernel is shared: a hole in it, reachable by plain system calls, is a way out"
_DOES_NOT = {
    "namespaces": (_KERNEL, "a run may keep as many cores busy as it has threads"),
    "landlock": (
        _KERNEL,
        "a run may keep as many cores busy as it has threads",
        "whether a path exists, and its size and owner, can be asked; names in Python's own folders can be listed",
        "as root, with a Python that only root can read, programs keep uid 0 (without capabilities), and threads are "
        "limited by memory only",
    ),
}


class SandboxReport(NamedTuple):
    """What `report` found.

    Attributes:
        isolation: The level that `open_sandbox()` gives here; None where nothing starts.
        contains: What programs are held by.
        does_not_contain: What they are not held by.
        refused: Levels that do not start here, with the reason of each.
    """

    isolation: str | None
    contains: tuple[str, ...]
    does_not_contain: tuple[str, ...]
    refused: dict[str, str]


def report() -> SandboxReport:
    """Try each level by starting it and running one program, and say what `open_sandbox()` contains here.

    Takes about a fifth of a second for each level.
    """
    refused = {level: reason for level in LEVELS if (reason := _refusal(level))}
    isolation = next((level for level in LEVELS if level not in refused), None)
    if isolation is None:
        return SandboxReport(None, (), ("model-written programs do not run here at all",), refused)
    return SandboxReport(isolation, _CONTAINS[isolation], _DOES_NOT[isolation], refused)


def _refusal(level: str) -> str:
    """Why a level cannot be used here; empty where it can."""
    try:
        with open_sandbox(level) as sandbox:
            result = sandbox.run("print('works')")
    except SandboxUnavailable as error:
        return error.reasons[level]
    return (
        "" if result.ok and result.stdout == "works\n" else result.error or f"a first program failed: {result.stderr}"
    )
