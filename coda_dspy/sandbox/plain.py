"""`unsafe-subprocess`: a process for each run, with limits but without walls.

It can read and write the user's files and use the network. It exists for machines on which nothing better starts, and
for those who contain the whole of this program by other means.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from coda_dspy.sandbox.errors import SandboxLost
from coda_dspy.sandbox.jail.protocol import Descriptors, write_line
from coda_dspy.sandbox.launching import Order, encoded
from coda_dspy.sandbox.worker_process import ENVIRONMENT

_CHILD = Path(__file__).with_name("plain_child.py")
# The start of Python counts as the run's, so the child's own alarm comes this much later than a fork's.
_START_SECONDS = 0.5


class PlainLauncher:
    """A launcher that contains nothing."""

    isolation = "none"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[PlainRun] = set()

    def launch(self, order: Order, given: Descriptors) -> "PlainRun":
        """Start one run; see `Launcher`."""
        try:
            run = PlainRun(order, given, self._forget)
        except OSError as error:
            raise SandboxLost(f"no process can be started: {error}") from error
        with self._lock:
            self._running.add(run)
        run.watch()
        return run

    def _forget(self, run: "PlainRun") -> None:
        with self._lock:
            self._running.discard(run)

    def close(self) -> None:
        """End every run."""
        with self._lock:
            running = list(self._running)
        for run in running:
            run.kill()
            run.finished()  # a session may be left that nobody closed


class PlainRun:
    """A process and the thread that waits for it."""

    def __init__(self, order: Order, given: Descriptors, forget: "Callable[[PlainRun], None]") -> None:
        self._forget = forget
        self._begun = time.monotonic()
        self._lifetime = order.lifetime + _START_SECONDS
        self._overdue = False
        self._reaped = False
        self._lock = threading.Lock()
        self._folder = tempfile.mkdtemp(prefix="coda-unsafe-")
        self._status = os.dup(given.status)
        try:
            for name, content in order.files.items():
                Path(self._folder, name).write_bytes(encoded(content))
            self._process = self._started(order, given)
        except OSError:
            self.finished()
            os.close(self._status)
            raise

    def _started(self, order: Order, given: Descriptors) -> subprocess.Popen[bytes]:
        job = asdict(order.job(0, self._folder))
        passed = [given.payload, *given.extra]
        return subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", str(_CHILD), json.dumps(job), *map(str, passed)],
            pass_fds=passed,
            stdin=given.stdin,
            stdout=given.stdout,
            stderr=given.stderr,
            env=ENVIRONMENT | {"HOME": self._folder, "TMPDIR": self._folder},
            cwd=self._folder,
            start_new_session=True,
        )

    def watch(self) -> None:
        """Report its end, and bring that about at its deadline."""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        timer = threading.Timer(self._lifetime, self._overrun)
        timer.daemon = True
        timer.start()
        # Waits without reaping, so that the number stays this process's until the group has been killed.
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        timer.cancel()
        self.kill()
        with self._lock:
            _, status, usage = os.wait4(self._process.pid, 0)
            self._reaped = True
        self._process.returncode = os.waitstatus_to_exitcode(status)
        report = {
            "code": self._process.returncode,
            "seconds": time.monotonic() - self._begun,
            "overdue": self._overdue,
            "cpu": usage.ru_utime + usage.ru_stime,
            "rss": usage.ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20),
        }
        with contextlib.suppress(OSError):  # the host may not wait for it any more
            write_line(self._status, report)
        os.close(self._status)
        self._forget(self)

    def _overrun(self) -> None:
        self._overdue = True
        self.kill()

    def kill(self) -> None:
        """End the process and what it left in its group."""
        with self._lock:
            if not self._reaped:
                try:
                    os.killpg(self._process.pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):  # macOS says the latter of a group of zombies
                    return

    def abandon(self) -> None:
        """Nothing stands between."""

    def finished(self) -> None:
        """Remove its folder."""
        shutil.rmtree(self._folder, ignore_errors=True)
