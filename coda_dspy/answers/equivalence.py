"""Compare two formulas in the sandbox: what a parser makes of a stranger's text is hostile until proven otherwise.

Where the sandbox contains programs, each comparison has a fork of its own, made of a worker that has loaded everything,
so no text can touch the next verdict. Where no sandbox starts (macOS, Windows), one plain
process compares one pair after another: the parser takes LaTeX only, and that process has limits and no keys.
"""

import atexit
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coda_dspy.errors import UserError
from coda_dspy.programs.shared import chosen_kind
from coda_dspy.sandbox import Limits, Sandbox, SandboxLost, SandboxUnavailable, Session, open_sandbox

LIMIT_SECONDS = 3.0
"""Wall-clock seconds for one comparison. The start of a worker, about a second, is not counted."""

_LOAD_SECONDS = 60.0
_MEMORY_MB = 2048
_REMEMBERED = 4096
_FORMULAS = Path(__file__).with_name("formulas.py")
_PACKAGES = ("sympy", "mpmath", "math_verify", "latex2sympy2_extended", "antlr4", "antlr4_python3_runtime")


class Comparer:
    """Compares formulas. Safe to use from many threads.

    Args:
        limit: Wall-clock seconds after which a comparison is given up as False.
    """

    def __init__(self, limit: float = LIMIT_SECONDS) -> None:
        self._limits = Limits(seconds=limit, memory_mb=_MEMORY_MB)
        self._lock = threading.Lock()
        self._turns = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._known: dict[tuple[str, str], bool] = {}
        self._sandbox: Sandbox | None = None
        self._turn = threading.Lock()
        self._kept: Session | None = None

    def same(self, a: str, b: str) -> bool:
        """Whether two formulas in LaTeX are equal in value; False also where that cannot be found out in time.

        What was found out is remembered.

        Raises:
            UserError: Nothing that could compare starts, so that no comparison at all is possible.
        """
        first, second = sorted((a, b))  # one order, so that the verdict is symmetric
        if (first, second) not in self._known:
            with self._turns:  # as many at once as there are cores, for the limit is one of time
                verdict = self._compared(first, second)
            if verdict is None:  # not found out, which another time it may be
                return False
            with self._lock:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[first, second] = verdict
        return self._known.get((first, second), False)

    def _compared(self, a: str, b: str) -> bool | None:
        for pause in (0.0, 0.1, 0.5):  # again where the process died before its time: something may have killed it
            time.sleep(pause)
            begun = time.monotonic()
            try:
                with self._session() as session:
                    begun = time.monotonic()
                    reply = session.execute("formulas.same_or_unknown(a, b)", {"a": a, "b": b})
                return bool(reply["value"]) if reply["type"] == "result" else None
            except SandboxLost:
                if time.monotonic() - begun >= self._limits.seconds:
                    break
        return None

    @contextmanager
    def _session(self) -> Iterator[Session]:
        sandbox = self._opened()
        if sandbox.isolation != "none":
            with self._started(sandbox) as session:
                yield session
            return
        with self._turn:
            if self._kept is None or self._kept.closed:
                self._kept = self._started(sandbox)
            yield self._kept

    def _opened(self) -> Sandbox:
        with self._lock:
            if self._sandbox is None:
                self._sandbox = _open()
            return self._sandbox

    def _started(self, sandbox: Sandbox) -> Session:
        """An interpreter that has loaded `formulas`; a plain process has to be told where to find it."""
        paths = [] if sandbox.isolation != "none" else [*filter(None, sys.path), str(_FORMULAS.parent)]
        try:
            session = sandbox.session(self._limits)
        except SandboxLost as error:
            raise _no_comparison(error) from error
        load = "import sys; sys.path += paths; import formulas"
        reply = session.execute(load, {"paths": paths}, seconds=_LOAD_SECONDS)
        if reply["type"] != "result":
            session.close()
            raise _no_comparison(reply["error"])
        return session

    def close(self) -> None:
        """End every process; the next comparison starts a new one."""
        with self._lock:
            sandbox, self._sandbox, self._kept = self._sandbox, None, None
        if sandbox is not None:
            sandbox.close()


def _open() -> Sandbox:
    kind = chosen_kind()
    packages = (*_PACKAGES, str(_FORMULAS))
    try:
        return open_sandbox(kind, packages, preload=(_FORMULAS.stem,))
    except SandboxUnavailable:
        if kind != "auto":
            raise
        return open_sandbox("unsafe-subprocess")


def _no_comparison(reason: object) -> UserError:
    return UserError(f"formulas cannot be compared: {reason}; is math-verify installed?")


_comparer = Comparer()


def equivalent(a: str, b: str) -> bool:
    """Whether two formulas in LaTeX are equal in value, by the process-wide `Comparer`."""
    return _comparer.same(a, b)


def _after_fork() -> None:
    """A forked copy of this process must not share what the comparer holds."""
    global _comparer
    _comparer = Comparer()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _comparer.close())
