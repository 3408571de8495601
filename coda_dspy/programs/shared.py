"""The one sandbox of this process: opened when a first program runs, closed at exit."""

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from coda_dspy.errors import UserError
from coda_dspy.sandbox import KINDS, Sandbox, open_sandbox
from coda_dspy.sandbox.places import PACKAGES


def _places() -> threading.BoundedSemaphore:
    return threading.BoundedSemaphore(os.cpu_count() or 1)


_lock = threading.Lock()
_turns = _places()
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


@contextmanager
def a_turn() -> Iterator[None]:
    """A place to run in: as many programs at once as there are cores, for their limits are times."""
    with _turns:
        yield


def _after_fork() -> None:
    """A forked copy of this process gets a sandbox of its own; a lock that another thread held would never open."""
    global _lock, _turns
    _lock = threading.Lock()
    _turns = _places()
    _opened.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _close() -> None:
    with _lock:
        while _opened:
            _opened.popitem()[1].close()
