"""One worker process, seen from the host: start it, send it jobs, end it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coda_dspy.sandbox.errors import SandboxLost
from coda_dspy.sandbox.jail import protocol

_WORKER = Path(__file__).with_name("worker.py")
_START_SECONDS = 60.0
_SEND_SECONDS = 5.0
_MOST_SHOWN = 2000
# All that programs find in their environment. One thread for linear algebra: a run has a budget of CPU time.
ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    "HOME": "/rw/run/work",
    "TMPDIR": "/tmp",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


class WorkerProcess:
    """A fork server that has told that it is ready.

    Args:
        setup: Where it locks itself in, and what it loads.

    Raises:
        SandboxLost: It did not start; the message holds the kernel's reason.
    """

    def __init__(self, setup: protocol.Setup) -> None:
        self._lock = threading.Lock()
        self.owner = os.getpid()
        self._control, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other_end, tempfile.TemporaryFile() as errors:
            self._process = subprocess.Popen(
                [os.path.realpath(sys.executable), "-I", "-S", "-X", "utf8", str(_WORKER), str(other_end.fileno())],
                pass_fds=[other_end.fileno()],
                env=ENVIRONMENT,
                cwd="/",
                start_new_session=True,  # Ctrl-C in a terminal is for the caller
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
            other_end.close()  # or the worker's end would never be seen
            try:
                self._greet(setup)
            except (OSError, EOFError) as error:
                self.close()
                errors.seek(0)
                shown = errors.read().decode("utf-8", "replace")[-_MOST_SHOWN:].strip()
                raise SandboxLost(f"the worker did not start: {shown or error}") from error
            except BaseException:  # refused, or Ctrl-C
                self.close()
                raise

    def _greet(self, setup: protocol.Setup) -> None:
        self._control.settimeout(_START_SECONDS)
        protocol.send(self._control, {"setup": asdict(setup)})
        reply, _ = protocol.receive(self._control)
        self._control.settimeout(_SEND_SECONDS)
        if "ready" not in reply:
            raise SandboxLost(str(reply.get("error", reply)))

    @property
    def pid(self) -> int:
        """The process that the host started, the leader of the worker's group."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether it still runs, as far as can be known without asking it."""
        return self._process.poll() is None

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send a job or a kill.

        Raises:
            SandboxLost: The worker died, or has not listened for seconds.
        """
        try:
            with self._lock:
                protocol.send(self._control, message, descriptors)
        except OSError as error:
            raise SandboxLost(f"the sandbox's process is gone: {error}") from error

    def close(self) -> None:
        """End the worker and all runs in it. A second call does nothing."""
        self._control.close()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
