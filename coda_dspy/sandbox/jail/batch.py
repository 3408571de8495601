"""Run one program on many inputs in one child, one after another.

Each input gets a fresh `__main__`, fresh streams and what else is cheap to put back; modules that the program imported
stay. A report goes out after each input, on a descriptor of its own. The host believes a failure of a fresh child only,
so this one ends after the first input that did not go well.
"""

import base64
import builtins
import io
import os
import resource
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import CodeType
from typing import Any, NoReturn

from . import program
from .protocol import Job, write_line

_DONE = 0


class _Captured(io.RawIOBase):
    """What the program writes, kept in memory. A program that writes too much gets no report."""

    def __init__(self, descriptor: int, most: int) -> None:
        self._descriptor = descriptor
        self._most = most
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        # What is written around this object reaches the real pipe, and the host sees that there.
        return self._descriptor

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.data += view
        if len(self.data) > self._most:
            os._exit(_DONE)
        return len(view)


class _Baseline:
    """The state of the interpreter before the first input, as far as programs are known to change it."""

    def __init__(self) -> None:
        self._builtins = dict(vars(builtins))
        self._environment = dict(os.environ)
        self._path = list(sys.path)
        self._folder = Path.cwd()
        self._recursion = sys.getrecursionlimit()
        self._digits = sys.get_int_max_str_digits()
        self._stack = threading.stack_size()
        self._filters = list(warnings.filters)

    def restore(self) -> None:
        if vars(builtins) != self._builtins:
            vars(builtins).clear()
            vars(builtins).update(self._builtins)
        if os.environ != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
        sys.path[:] = self._path
        os.chdir(self._folder)
        sys.setrecursionlimit(self._recursion)
        sys.set_int_max_str_digits(self._digits)
        threading.stack_size(self._stack)
        warnings.filters[:] = self._filters  # type: ignore[index]
        if "decimal" in sys.modules:
            decimal = sys.modules["decimal"]
            decimal.setcontext(decimal.Context())


def run(code: str, inputs: Sequence[int], report: int, job: Job) -> NoReturn:
    """Run a program once for each input descriptor, and end this process."""
    program.remember_source(code)
    try:
        ready: str | CodeType = program.compiled(code)
    except BaseException:  # noqa: BLE001 - the compiler fails again below, where its message is captured
        ready = code
    baseline = _Baseline()
    for place, descriptor in enumerate(inputs):
        if place:
            baseline.restore()
        os.dup2(descriptor, 0)
        if not _one(ready, report, job):
            break
    os._exit(_DONE)


def _one(code: str | CodeType, report: int, job: Job) -> bool:
    """Run one input and report it; whether the next may follow in this child."""
    out, err = _Captured(1, job.output_bytes), _Captured(2, job.output_bytes)
    program.open_streams(out, err)
    begun, used = time.monotonic(), _cpu()

    def tell(status: int, timed_out: bool) -> None:
        write_line(
            report,
            {
                "stdout": base64.b64encode(out.data).decode(),
                "stderr": base64.b64encode(err.data).decode(),
                "code": status,
                "timed_out": timed_out,
                "seconds": time.monotonic() - begun,
                "cpu": _cpu() - used,
                "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            },
        )

    def overdue() -> None:
        tell(1, True)
        os._exit(_DONE)

    program.on_time_up(job.seconds, job.cpu_seconds, overdue)
    status = program.execute(code)
    program.stop_clocks()
    if threading.active_count() > 1:  # what they still do belongs to this input: one input in one child, then
        return False
    tell(status, False)
    return status == 0


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
