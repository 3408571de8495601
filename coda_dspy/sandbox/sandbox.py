"""Run programs: one, one on many inputs, or piece by piece. What contains them is the launcher's business."""

import signal
import time
from collections.abc import Sequence

from coda_dspy.sandbox.closing import Closing
from coda_dspy.sandbox.collecting import Capture, Collector, Ending
from coda_dspy.sandbox.descriptors import Bag
from coda_dspy.sandbox.errors import SandboxLost
from coda_dspy.sandbox.jail.protocol import Descriptors
from coda_dspy.sandbox.launching import Files, Launcher, Order, Text, encoded, program_order
from coda_dspy.sandbox.limits import Limits
from coda_dspy.sandbox.many import Stop, run_many
from coda_dspy.sandbox.result import ExecutionResult
from coda_dspy.sandbox.session import Session

_HOST_GRACE = 1.0


class Sandbox(Closing):
    """Runs untrusted programs. Safe to use from many threads; a context manager.

    Attributes:
        name: The kind that was opened.
        isolation: What contains the programs: `namespaces`, `landlock` or `none`.
    """

    def __init__(self, name: str, launcher: Launcher) -> None:
        self.name = name
        self.isolation = launcher.isolation
        self._launcher = launcher

    def run(
        self, code: str, stdin: Text = "", files: Files | None = None, limits: Limits | None = None
    ) -> ExecutionResult:
        """Run one program in a process of its own.

        Args:
            code: Its text; it runs as `main.py`.
            stdin: What it reads from standard input.
            files: Contents by plain file name, put into the folder it starts in.
            limits: How much it may take; None: the defaults.

        Returns:
            What came of it. Nothing that the program does is an exception here, and where the sandbox itself failed,
            `error` says so.

        Raises:
            UserError: A file's name is not a plain one.
        """
        limits = limits or Limits()
        order = program_order(code, files or {}, limits)
        first = self._run(order, stdin, limits)
        return self._run(order, stdin, limits) if first.error else first  # a worker may have been killed from outside

    def _run(self, order: Order, stdin: Text, limits: Limits) -> ExecutionResult:
        begun = time.monotonic()
        with Bag() as bag:
            out, err, status = bag.pipe(), bag.pipe(), bag.pipe()
            given = Descriptors(bag.data(order.payload()), bag.data(encoded(stdin)), out.write, err.write, status.write)
            try:
                running = self._launcher.launch(order, given)
            except SandboxLost as error:
                return ExecutionResult(error=str(error), isolation=self.isolation)
            bag.close_now(*given.all())
            stdout, stderr = Capture(out.read, limits.output_bytes), Capture(err.read, limits.output_bytes)
            end = begun + limits.seconds + _HOST_GRACE
            try:
                ending = Collector(running, status.read, (stdout, stderr), lambda: end).wait()
            except BaseException:  # Ctrl-C: the program must not go on
                running.kill()
                raise
            finally:
                running.finished()
            return self._result(ending, stdout, stderr, limits, time.monotonic() - begun)

    def _result(
        self, ending: Ending, stdout: Capture, stderr: Capture, limits: Limits, waited: float
    ) -> ExecutionResult:
        if ending.status is None or ending.failure:
            return ExecutionResult(error=ending.failure, seconds=waited, isolation=self.isolation)
        status = ending.status
        truncated = stdout.overflowed or stderr.overflowed
        timed_out = not truncated and (ending.overdue or _timed_out(status, limits))
        return ExecutionResult(
            stdout=stdout.text(),
            stderr=stderr.text(),
            exit_code=None if timed_out or truncated else status["code"],
            timed_out=timed_out,
            truncated=truncated,
            seconds=status["seconds"],
            cpu_seconds=status["cpu"],
            max_rss_mb=status["rss"],
            isolation=self.isolation,
        )

    def run_many(
        self, code: str, stdins: Sequence[Text], limits: Limits | None = None, stop: Stop | None = None
    ) -> list[ExecutionResult]:
        """Run one program on many inputs, in as few processes as is safe: many times faster than one by one.

        A failure is believed only of a process that has run nothing before; every other input that fails is run again
        in a fresh one. Between the inputs of one process, imported modules and their state stay, and `seconds` and
        `cpu_seconds` are the process's own account, which a hostile program can falsify (the limits it cannot).

        Args:
            code: Its text.
            stdins: The inputs.
            limits: For each input; `disk_mb` and `memory_mb` for the whole process.
            stop: Called with the index and the result of each input, in order; True ends it there.

        Returns:
            The results in the order of the inputs; shorter where `stop` ended it.
        """
        limits = limits or Limits()
        return run_many(self._launcher, lambda stdin: self.run(code, stdin, limits=limits), code, stdins, limits, stop)

    def session(self, limits: Limits | None = None, lifetime: float = 3600.0) -> Session:
        """Start a living interpreter, which keeps its names from one piece of code to the next.

        Args:
            limits: `seconds` for each piece of code, the rest for the session.
            lifetime: Wall seconds after which it is killed in any case.

        Raises:
            SandboxLost: It does not start.
        """
        return Session(self._launcher, limits or Limits(), lifetime)

    def close(self) -> None:
        """End every run and every process of this sandbox. Later runs report an error."""
        self._launcher.close()


def _timed_out(status: dict[str, float], limits: Limits) -> bool:
    if status["overdue"] or status["seconds"] >= limits.seconds:
        return True
    if limits.cpu_seconds is not None and status["cpu"] >= limits.cpu_seconds:
        return True
    # The kernel's own kill: by samples, which on a busy machine run ahead of what it reports afterwards.
    return status["code"] == -signal.SIGKILL and status["cpu"] >= limits.hard_cpu_seconds / 2
