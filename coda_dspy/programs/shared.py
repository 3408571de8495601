"""The one sandbox of this process: opened when a first program runs, closed at exit."""

import atexit
import threading

from coda_dspy.errors import UserError
from coda_dspy.sandbox import KINDS, Sandbox, open_sandbox
from coda_dspy.sandbox.places import PACKAGES

_lock = threading.Lock()
_opened: dict[str, Sandbox] = {}
_kind = "auto"
_PACKAGES = (*PACKAGES, "scipy")  # SciCode's problems need it


def choose_sandbox(kind: str) -> None:
    """Have the programs of this process run in another kind of sandbox (see `coda_dspy.sandbox.open_sandbox`).

    Raises:
        UserError: There is no such kind.
    """
    global _kind
    if kind not in KINDS:
        raise UserError(f"sandbox {kind!r} does not exist; choose one of: {', '.join(KINDS)}")
    _kind = kind


def chosen_kind() -> str:
    """The kind of sandbox that was chosen for this process."""
    return _kind


def shared_sandbox() -> Sandbox:
    """The sandbox that programs run in.

    Raises:
        SandboxUnavailable: None starts on this machine; the message names the reasons and the ways out.
    """
    with _lock:
        if _kind not in _opened:
            _opened[_kind] = open_sandbox(_kind, packages=_PACKAGES)
        return _opened[_kind]


@atexit.register
def _close() -> None:
    with _lock:
        while _opened:
            _opened.popitem()[1].close()
