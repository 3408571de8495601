"""Starts runs as forks of a worker: a light one with nothing loaded, or a warm one that knows numpy and sympy."""

import itertools
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from coda_dspy.sandbox import places
from coda_dspy.sandbox.errors import SandboxLost
from coda_dspy.sandbox.jail.protocol import Descriptors, Setup
from coda_dspy.sandbox.launching import Files, Order, encoded
from coda_dspy.sandbox.worker_process import WorkerProcess

LEVELS = ("namespaces", "landlock")
PRELOADED = ("numpy", "sympy")
# A look, no parse: the compiler can be made to exhaust the stack of whoever calls it, and here that would be the host.
# A wrong guess costs time only; each worker can run every program.
_IMPORT_LINE = re.compile(r"^[^\n#]*\bimport\b[^\n]*$", re.MULTILINE)


class ForkServer:
    """A launcher over at most two workers, each started when the first program needs it.

    Args:
        level: `namespaces` or `landlock`.
        packages: What programs may import besides the standard library.
        preload: Which of them the warm worker loads before its first fork.
    """

    def __init__(
        self, level: str, packages: Iterable[str] = places.PACKAGES, preload: Iterable[str] = PRELOADED
    ) -> None:
        self.isolation = level
        self._packages = places.package_places(packages)
        self._preload = list(preload)
        self._read_only = places.read_only_places(self._packages.values())
        self._workers: dict[bool, WorkerProcess] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._closed = False

    def start(self) -> None:
        """Start the light worker now.

        Raises:
            SandboxLost: This level does not work here; the message holds the kernel's reason.
        """
        self._worker(warm=False)

    def launch(self, order: Order, given: Descriptors) -> "Fork":
        """Start one run; see `Launcher`."""
        warm = self._wants_warm(order)
        try:
            return self._sent(self._worker(warm), order, given)
        except SandboxLost:  # it had died without our notice: the job has not reached it, so it can go to another
            return self._sent(self._worker(warm), order, given)

    def _sent(self, worker: WorkerProcess, order: Order, given: Descriptors) -> "Fork":
        folder = _folder_with(order.files) if order.files and self.isolation == "landlock" else ""
        running = Fork(worker, next(self._numbers), folder)
        try:
            worker.send({"job": asdict(order.job(running.number, folder))}, given.all())
        except SandboxLost:
            running.abandon()
            running.finished()
            raise
        return running

    def _wants_warm(self, order: Order) -> bool:
        if order.mode == "session":  # nobody knows yet what will run in it
            return bool(self._packages)
        return any(
            re.search(rf"\b{name}\b", line) for line in _IMPORT_LINE.findall(order.code) for name in self._packages
        )

    def _worker(self, warm: bool) -> WorkerProcess:
        with self._lock:
            if self._closed:
                raise SandboxLost("the sandbox is closed")
            worker = self._workers.get(warm)
            if worker is not None and worker.owner != os.getpid():
                self._workers.clear()  # we are a fork of the process whose workers these are
                worker = None
            if worker is None or not worker.alive():
                if worker is not None:
                    worker.close()
                worker = self._workers[warm] = WorkerProcess(self._setup(warm))
            return worker

    def _setup(self, warm: bool) -> Setup:
        preload = [name for name in self._preload if warm and name in self._packages]
        return Setup(self.isolation, self._read_only, places.listed_places(), self._packages, preload)

    def pids(self) -> list[int]:
        """The workers that run now."""
        with self._lock:
            return [worker.pid for worker in self._workers.values() if worker.alive()]

    def close(self) -> None:
        """End both workers, and every run in them."""
        with self._lock:
            self._closed = True
            for worker in self._workers.values():
                if worker.owner == os.getpid():
                    worker.close()
            self._workers.clear()


@dataclass
class Fork:
    """A run in a worker."""

    worker: WorkerProcess
    number: int
    folder: str = field(default="")

    def kill(self) -> None:
        """Have the worker kill it."""
        try:
            self.worker.send({"kill": self.number})
        except SandboxLost:  # then it is dead already, or `abandon` follows
            return

    def abandon(self) -> None:
        """End the worker, and with it every run that it still has."""
        self.worker.close()

    def finished(self) -> None:
        """Remove the folder of its files."""
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def _folder_with(files: Files) -> str:
    """A folder on the disk, for the level at which a run cannot mount one of its own. Programs can only read it."""
    folder = tempfile.mkdtemp(prefix="coda-sandbox-")
    for name, content in files.items():
        Path(folder, name).write_bytes(encoded(content))
    return folder
