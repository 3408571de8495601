"""One program on many inputs: batches in one child each, and single runs where a batch has nothing to say."""

import base64
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from coda_dspy.sandbox.collecting import Capture, Collector
from coda_dspy.sandbox.descriptors import Bag
from coda_dspy.sandbox.errors import SandboxLost
from coda_dspy.sandbox.jail.protocol import Descriptors
from coda_dspy.sandbox.launching import Launcher, Order, Text, encoded
from coda_dspy.sandbox.limits import Limits
from coda_dspy.sandbox.result import ExecutionResult

Stop = Callable[[int, ExecutionResult], bool]

_LARGEST_BATCH = 32  # each input is a descriptor in one message
_GRACE = 0.25
_SPARE_SECONDS = 1.0


def run_many(
    launcher: Launcher,
    run_alone: Callable[[Text], ExecutionResult],
    code: str,
    stdins: Sequence[Text],
    limits: Limits,
    stop: Stop | None,
) -> list[ExecutionResult]:
    """See `Sandbox.run_many`.

    Args:
        run_alone: Runs one input in a child of its own; what it says is always believed.
    """
    results: list[ExecutionResult] = []
    batches = True
    while len(results) < len(stdins):
        chunk = stdins[len(results) : len(results) + _LARGEST_BATCH]
        accepted: list[ExecutionResult] = []
        if batches and len(chunk) > 1:
            accepted, ended = _Batch(launcher, code, chunk, limits, stop, len(results)).run()
            results += accepted
            if ended:
                break
        if not accepted:
            # Nothing came of the first input: a program of this kind (it leaves by os._exit, say) gets no more batches.
            batches = False
            results.append(run_alone(chunk[0]))
            if stop is not None and stop(len(results) - 1, results[-1]):
                break
    return results


class _Batch:
    """One child, and the reports of it that can be believed."""

    def __init__(
        self, launcher: Launcher, code: str, stdins: Sequence[Text], limits: Limits, stop: Stop | None, first: int
    ) -> None:
        self._launcher = launcher
        self._stdins = stdins
        self._limits = limits
        self._stop = stop
        self._first = first
        # The child ends its inputs by itself; the worker's limit is for one that does not, and the host's comes first.
        lifetime = len(stdins) * (limits.seconds + _GRACE) + _SPARE_SECONDS
        self._order = Order("batch", code, {}, limits, lifetime, inputs=len(stdins))
        self._accepted: list[ExecutionResult] = []
        self._parsed = 0
        self._over = False
        self._stopped = False

    def run(self) -> tuple[list[ExecutionResult], bool]:
        """The results of the first inputs, as many as are certain, and whether the caller wants no more."""
        with Bag() as bag:
            out, err, status, report = bag.pipe(), bag.pipe(), bag.pipe(), bag.pipe()
            inputs = [bag.data(encoded(stdin)) for stdin in self._stdins]
            payload, nothing = bag.data(self._order.payload()), bag.data(b"")
            given = Descriptors(payload, nothing, out.write, err.write, status.write, (report.write, *inputs))
            try:
                running = self._launcher.launch(self._order, given)
            except SandboxLost:
                return [], False  # the single run that follows says why
            bag.close_now(*given.all())
            # Nothing that is written around the captured streams can be told apart by input: see `_look`.
            self._around = (Capture(out.read, 1), Capture(err.read, 1))
            self._report = Capture(report.read, self._most())
            self._due = time.monotonic() + self._patience()
            captures = (*self._around, self._report)
            self._collector = Collector(running, status.read, captures, lambda: self._due, self._look)
            try:
                self._collector.wait()
            except BaseException:  # Ctrl-C, or what `stop` raised
                running.kill()
                raise
            finally:
                running.finished()
        return self._accepted, self._stopped

    def _patience(self) -> float:
        return self._limits.seconds + _GRACE

    def _most(self) -> int:
        """An upper bound for all reports: base64 makes four bytes of three."""
        return len(self._stdins) * (2 * (self._limits.output_bytes * 4 // 3 + 4) + 1024)

    def _look(self) -> None:
        """Accept the reports that have come. Output that went around the streams came before the report does."""
        for capture in self._around:
            capture.drain()
        lines = bytes(self._report.data[self._parsed :]).split(b"\n")
        for line in lines[:-1]:
            self._parsed += len(line) + 1
            if not self._over:
                self._take(line)

    def _take(self, line: bytes) -> None:
        result = None if any(capture.data for capture in self._around) else self._result(line)
        if result is None or (self._accepted and not result.ok) or len(self._accepted) == len(self._stdins):
            self._end()
            return
        self._accepted.append(result)
        self._due = time.monotonic() + self._patience()
        if self._stop is not None and self._stop(self._first + len(self._accepted) - 1, result):
            self._stopped = True
        if self._stopped or not result.ok:
            self._end()

    def _end(self) -> None:
        self._over = True
        self._collector.kill()

    def _result(self, line: bytes) -> ExecutionResult | None:
        """A report as a result; None where the program has had its hands in it."""
        try:
            return _parsed(json.loads(line), self._limits, self._launcher.isolation)
        except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
            return None


def _parsed(report: dict[str, Any], limits: Limits, isolation: str) -> ExecutionResult | None:
    texts = [base64.b64decode(report[name], validate=True) for name in ("stdout", "stderr")]
    code, seconds, cpu, rss = int(report["code"]), float(report["seconds"]), float(report["cpu"]), float(report["rss"])
    if any(len(text) > limits.output_bytes for text in texts) or not all(
        0 <= number < 1e9 for number in (seconds, cpu, rss)
    ):
        return None
    timed_out = bool(report["timed_out"]) or (limits.cpu_seconds is not None and cpu >= limits.cpu_seconds)
    return ExecutionResult(
        stdout=texts[0].decode("utf-8", "replace"),
        stderr=texts[1].decode("utf-8", "replace"),
        exit_code=None if timed_out else code,
        timed_out=timed_out,
        seconds=seconds,
        cpu_seconds=cpu,
        max_rss_mb=rss,
        isolation=isolation,
    )
