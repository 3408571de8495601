"""Run one program as `python main.py` would: its streams, its way to end, its traceback."""

import atexit
import builtins
import io
import linecache
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import NoReturn

from .protocol import Job

NAME = "main.py"
_LONGEST_SHOWN = 1 << 20


def open_streams(stdout: io.RawIOBase | None = None, stderr: io.RawIOBase | None = None) -> None:
    """Give `sys` streams on descriptors 0, 1 and 2, or on what is handed in for the last two."""
    sys.stdin = io.TextIOWrapper(
        io.BufferedReader(io.FileIO(0, "r", closefd=False)), encoding="utf-8", errors="surrogateescape"
    )
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(stdout or io.FileIO(1, "w", closefd=False)), encoding="utf-8", errors="backslashreplace"
    )
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(stderr or io.FileIO(2, "w", closefd=False)),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]


def compiled(code: str) -> CodeType:
    """Compile without this file's own `__future__` imports.

    Raises:
        Exception: Whatever the compiler makes of a stranger's text.
    """
    return compile(code, NAME, "exec", dont_inherit=True)


def execute(code: str | CodeType) -> int:
    """Run a program in a fresh `__main__` and return its exit code, its last outputs flushed."""
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    sys.argv = [NAME]
    try:
        exec(compiled(code) if isinstance(code, str) else code, main.__dict__)
        status = 0
    except SystemExit as error:
        status = _exit_code(error)
    except BaseException as error:  # noqa: BLE001 - a program may raise anything
        _show(error)
        status = 1
    return _flushed(status)


def remember_source(code: str) -> None:
    """Let tracebacks show the program's lines, which no file holds."""
    if len(code) <= _LONGEST_SHOWN:
        linecache.cache[NAME] = (len(code), None, code.splitlines(keepends=True), NAME)


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    _say(str(error.code))
    return 1


def _show(error: BaseException) -> None:
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != NAME:
        trace = trace.tb_next
    try:
        traceback.print_exception(type(error), error, trace)
    except BaseException:  # noqa: BLE001 - its __str__ or its sys.stderr is the program's own
        _say(f"{type(error).__name__} (its message cannot be shown)")


def _say(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
    except BaseException:  # noqa: BLE001 - as above
        return


def _flushed(status: int) -> int:
    """Run the program's exit handlers and empty its buffers, as the interpreter does at its end."""
    try:
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001 - the program's own handlers
        status = status or 1
    for stream in (sys.stdout, sys.__stdout__, sys.stderr, sys.__stderr__):
        try:
            stream.flush()  # type: ignore[union-attr]
        except BaseException:  # noqa: BLE001 - closed, replaced, or nobody reads any more
            status = status or (1 if stream is sys.stdout else 0)
    return status


def on_time_up(seconds: float, cpu_seconds: float | None, after: Callable[[], None]) -> None:
    """When the seconds are over, show where the program stands, flush what it printed, and call `after`.

    A program can get around this one; then the worker kills it a moment later, and its buffered output is lost.
    """

    begun = time.process_time()

    def handler(number: int, frame: FrameType | None) -> None:
        # The kernel samples for this signal, and on a busy machine comes early.
        if cpu_seconds and number == signal.SIGPROF and (left := begun + cpu_seconds - time.process_time()) > 0:
            signal.setitimer(signal.ITIMER_PROF, max(left, 0.01))
            return
        limit = f"{cpu_seconds:g} CPU seconds" if number == signal.SIGPROF else f"{seconds:g} seconds"
        stack = list(traceback.extract_stack(frame))
        while stack and stack[0].filename != NAME:  # what leads to the program is ours
            del stack[0]
        lines = ["Traceback (most recent call last):\n", *traceback.format_list(stack)]
        _say("".join(lines) + f"TimeoutError: the limit of {limit} was reached")
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:  # noqa: BLE001 - also RuntimeError where the signal came in the middle of a write
                continue
        after()

    signal.signal(signal.SIGALRM, handler)
    signal.signal(signal.SIGPROF, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds or 0)


def stop_clocks() -> None:
    """Take `on_time_up` back."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.setitimer(signal.ITIMER_PROF, 0)


def run(code: str, job: Job) -> NoReturn:
    """Run one program on descriptors 0, 1 and 2, and end this process with its exit code."""
    open_streams()
    remember_source(code)
    on_time_up(job.seconds, job.cpu_seconds, lambda: os._exit(1))
    status = execute(code)
    threading = sys.modules.get("threading")
    if threading is not None:
        try:
            threading._shutdown()  # waits for threads that are not daemons, as the interpreter does
        except BaseException:  # noqa: BLE001 - the program's own threads
            status = status or 1
    os._exit(_flushed(status))
