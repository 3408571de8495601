"""The fork server: one child for each job, ended at its deadline, reaped and reported."""

import gc
import os
import select
import signal
import socket
import time
from dataclasses import dataclass
from typing import Any, NoReturn

from . import modes, namespaces
from .lockdown import Walls, lock
from .protocol import SETUP_FAILED, Descriptors, Job, receive, write_line


@dataclass
class _Run:
    number: int
    pid: int
    begun: float
    deadline: float
    status: int
    killed: bool = False
    overdue: bool = False

    def kill(self) -> None:
        # Not reaped yet, so the number still means this process.
        if not self.killed:
            self.killed = True
            os.kill(self.pid, signal.SIGKILL)


class Server:
    """Serves jobs from the control socket until its other end is closed, then ends with everything below it."""

    def __init__(self, control: socket.socket, walls: Walls) -> None:
        self._control = control
        self._walls = walls
        self._runs: dict[int, _Run] = {}
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def serve(self) -> NoReturn:
        while True:
            for descriptor, _ in self._poll.poll(self._patience()):
                if descriptor == self._control.fileno():
                    self._hear()
                else:
                    self._reap(descriptor)
            self._kill_overdue()

    def _patience(self) -> float | None:
        """Milliseconds until the next deadline."""
        deadlines = [run.deadline for run in self._runs.values() if not run.killed]
        return max(0.0, min(deadlines) - time.monotonic()) * 1000 + 1 if deadlines else None

    def _hear(self) -> None:
        try:
            message, descriptors = receive(self._control)
        except (EOFError, OSError):
            for run in self._runs.values():
                run.kill()
            os._exit(0)
        if "kill" in message:
            for run in self._runs.values():
                if run.number == message["kill"]:
                    run.kill()
        else:
            self._start(Job(**message["job"]), Descriptors.of(descriptors))

    def _start(self, job: Job, given: Descriptors) -> None:
        begun = time.monotonic()
        try:
            pid = namespaces.fork_into_new_pids() if self._walls.level == "namespaces" else os.fork()
            if pid == 0:
                self._become_child(job, given)
            watch = os.pidfd_open(pid)
        except OSError as error:
            self._tell(given.status, {"setup": str(error)})
            for descriptor in given.all():
                os.close(descriptor)
            return
        for descriptor in given.all():
            if descriptor != given.status:
                os.close(descriptor)
        self._runs[watch] = _Run(job.number, pid, begun, begun + job.lifetime, given.status)
        self._poll.register(watch, select.POLLIN)

    def _become_child(self, job: Job, given: Descriptors) -> NoReturn:
        try:
            code = lock(self._walls, job, given)
        except BaseException as error:  # noqa: BLE001 - whatever it was, the program must not run
            self._tell(given.status, {"setup": f"{type(error).__name__}: {error}"})
            os._exit(SETUP_FAILED)
        gc.enable()
        modes.run(job, code, given.extra)

    def _reap(self, watch: int) -> None:
        run = self._runs.pop(watch)
        self._poll.unregister(watch)
        os.close(watch)
        _, status, usage = os.wait4(run.pid, 0)
        self._tell(
            run.status,
            {
                "code": os.waitstatus_to_exitcode(status),
                "seconds": time.monotonic() - run.begun,
                "overdue": run.overdue,
                "cpu": usage.ru_utime + usage.ru_stime,
                "rss": usage.ru_maxrss / 1024,
            },
        )
        os.close(run.status)

    def _kill_overdue(self) -> None:
        now = time.monotonic()
        for run in self._runs.values():
            if not run.killed and now >= run.deadline:
                run.overdue = True
                run.kill()

    def _tell(self, status: int, message: dict[str, Any]) -> None:
        try:
            write_line(status, message)
        except OSError:  # the host does not wait for this run any more
            return
