"""Wait for a run and take what it writes, never more than a cap, never longer than a deadline."""

import json
import os
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from coda_dspy.sandbox.launching import Running

_PART = 1 << 16
_LONGEST_STATUS = 1 << 14
# After a kill the status is a matter of milliseconds; a machine under load gets this long.
_PATIENCE = 5.0


class Capture:
    """What came out of one descriptor, up to a cap."""

    def __init__(self, descriptor: int, cap: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.data = bytearray()
        self.overflowed = False
        self.open = True
        self._cap = cap

    def read(self) -> bool:
        """Take what is there; False where there is nothing (now, or ever again)."""
        if not self.open:
            return False
        try:
            part = os.read(self.descriptor, _PART)
        except BlockingIOError:
            return False
        room = self._cap - len(self.data)
        self.data += part[:room]
        self.overflowed |= len(part) > room
        self.open = bool(part) and not self.overflowed
        return self.open

    def drain(self) -> None:
        """Take all that is there without waiting."""
        while self.read():
            pass

    def text(self) -> str:
        """As UTF-8, with U+FFFD for what is none."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Attributes:
        status: The worker's report; None where none came.
        overdue: The host's own deadline passed.
    """

    status: dict[str, Any] | None
    overdue: bool

    @property
    def failure(self) -> str:
        """Why this says nothing about the program; empty where it does."""
        if self.status is None:
            return (
                "the sandbox's process does not answer" if self.overdue else "the sandbox's process died during the run"
            )
        return f"the sandbox could not be set up: {self.status['setup']}" if "setup" in self.status else ""


class Collector:
    """Reads the captures of one run until its status is complete.

    Args:
        running: The run.
        status: The descriptor that only the worker holds the other end of.
        captures: What the run writes. One that overflows ends it.
        deadline: On the monotonic clock; the run is killed there if it has not ended. It may move while we wait.
        seen: Called after each round of reading.
    """

    def __init__(
        self,
        running: Running,
        status: int,
        captures: Sequence[Capture],
        deadline: Callable[[], float],
        seen: Callable[[], None] = lambda: None,
    ) -> None:
        self._running = running
        self._status = Capture(status, _LONGEST_STATUS)
        self._captures = captures
        self._deadline = deadline
        self._seen = seen
        self._killed_at: float | None = None

    def wait(self) -> Ending:
        """Until the run has ended or is given up."""
        overdue = False
        while self._status.open:
            now = time.monotonic()
            if self._killed_at is not None and now > self._killed_at + _PATIENCE:
                self._running.abandon()
                return Ending(None, True)
            if self._killed_at is None and now > self._deadline():
                overdue = True
                self.kill()
            self._round()
        for capture in self._captures:
            capture.drain()
        self._seen()
        return Ending(_parsed(bytes(self._status.data)), overdue)

    def kill(self) -> None:
        """End the run; its status is still waited for."""
        if self._killed_at is None:
            self._killed_at = time.monotonic()
            self._running.kill()

    def _round(self) -> None:
        by_descriptor = {each.descriptor: each for each in (self._status, *self._captures) if each.open}
        poll = select.poll()
        for descriptor in by_descriptor:
            poll.register(descriptor, select.POLLIN)
        end = self._deadline() if self._killed_at is None else self._killed_at + _PATIENCE
        for descriptor, _ in poll.poll(max(0.0, end - time.monotonic()) * 1000 + 1):
            by_descriptor[descriptor].read()
        if any(capture.overflowed for capture in self._captures):
            self.kill()
        self._seen()


def _parsed(lines: bytes) -> dict[str, Any] | None:
    """The lines of a status put together: the child's, if it could not be locked in, and the worker's."""
    merged: dict[str, Any] = {}
    for line in lines.splitlines():
        try:
            merged |= json.loads(line)
        except ValueError:  # the worker died in the middle of it
            return None
    return merged or None
