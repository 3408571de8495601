"""Compare two formulas in a child process, where a hang or a crash hurts nothing but that one comparison.

The child is a plain Python process that talks JSON lines over pipes: no fork of a program that has threads, no second
run of the caller's `__main__`, and an environment of its own in which no API key is.
"""

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from coda_dspy.errors import UserError

LIMIT_SECONDS = 3.0
"""Wall-clock seconds for one comparison. The start of a child, about a second, is not counted."""

_START_SECONDS = 60.0
_REMEMBERED = 4096
_WORKER = Path(__file__).with_name("equivalence_worker.py")
# What a Python installation may need to start at all; nothing else of the caller's environment goes in.
_NEEDED = ("SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class Comparer:
    """Keeps one child warm and asks it, one comparison at a time.

    Args:
        limit: Wall-clock seconds after which a comparison is given up as False.
    """

    def __init__(self, limit: float = LIMIT_SECONDS) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._known: dict[tuple[str, str], bool] = {}

    def same(self, a: str, b: str) -> bool:
        """Whether two formulas in LaTeX are equal in value; False also where that cannot be found out in time.

        Raises:
            UserError: The child does not start, so that no comparison at all is possible.
        """
        first, second = sorted((a, b))  # one order, so that the verdict is symmetric
        with self._lock:
            if (first, second) not in self._known:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[first, second] = self._compared(first, second)
            return self._known[first, second]

    def _compared(self, a: str, b: str) -> bool:
        """Ask once more where the child died before its time: something outside may have ended it."""
        left = self._limit
        for _ in range(2):
            child = self._ready()
            begun = time.monotonic()
            if (reply := self._asked(child, a, b, left)) is not None:
                return reply.get("same") is True
            left -= time.monotonic() - begun
            if left <= 0:
                break
        self._child = _Child()  # loads its libraries while nobody waits for it
        return False

    def _ready(self) -> "_Child":
        if self._child is not None and self._child.process.poll() is not None:
            self._drop()
        if self._child is None:
            self._child = _Child()
        if not self._child.ready:
            try:
                self._child.greet(self._limit)
            finally:
                if not self._child.ready:
                    self._drop()
        return self._child

    def _asked(self, child: "_Child", a: str, b: str, seconds: float) -> dict[str, object] | None:
        reply = None
        try:
            reply = child.ask({"a": a, "b": b}, seconds)
        finally:  # also on Ctrl-C: the reply that is still to come must not be taken for that to the next request
            if reply is None:
                self._drop()
        return reply

    def _drop(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.close()

    def close(self) -> None:
        """End the child; the next comparison starts a new one."""
        with self._lock:
            self._drop()


class _Child:
    """One worker process."""

    def __init__(self) -> None:
        # -I keeps the worker's own folder, which holds a math.py, off its import path.
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", str(_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _NEEDED if name in os.environ},
            start_new_session=True,  # Ctrl-C in a terminal is for the caller
            encoding="utf-8",
        )
        self.ready = False

    def greet(self, limit: float) -> None:
        """Hand over the import path, which -I has emptied, and wait until the libraries are loaded."""
        reply = self.ask({"path": [path for path in sys.path if path], "limit": limit}, _START_SECONDS)
        if reply is None or "error" in reply:
            reason = reply["error"] if reply else "it ended at once"
            raise UserError(f"the process that compares formulas does not start: {reason}; is math-verify installed?")
        self.ready = True

    def ask(self, request: dict[str, object], seconds: float) -> dict[str, object] | None:
        """One request and its reply; None if the process died, or was ended because it took too long."""
        timer = threading.Timer(seconds, self.process.kill)
        timer.daemon = True
        timer.start()
        try:
            return self._exchange(json.dumps(request))
        except OSError:
            return None
        finally:
            timer.cancel()

    def _exchange(self, line: str) -> dict[str, object] | None:
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            return None
        stdin.write(line + "\n")
        stdin.flush()
        reply = stdout.readline()
        return json.loads(reply) if reply.endswith("\n") else None

    def close(self) -> None:
        """End the process and give its pipes back."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()


_comparer = Comparer()


def equivalent(a: str, b: str) -> bool:
    """Whether two formulas in LaTeX are equal in value, by the process-wide `Comparer`."""
    return _comparer.same(a, b)


def _after_fork() -> None:
    """A forked copy of this process must not share the pipes: two askers would read each other's replies."""
    global _comparer
    _comparer = Comparer()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _comparer.close())
