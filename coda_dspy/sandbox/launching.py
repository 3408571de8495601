"""What starts a run, whatever contains it: the fork server, or a plain process."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from coda_dspy.errors import UserError
from coda_dspy.sandbox.jail.protocol import Descriptors, Job
from coda_dspy.sandbox.limits import Limits

Text = str | bytes
Files = Mapping[str, Text]

_GRACE = 0.25
_FAR_AWAY = 1 << 20


@dataclass(frozen=True)
class Order:
    """A run as the host thinks of it.

    Attributes:
        mode: `program`, `batch` or `session`.
        code: The program; for a session, what will run in it is not known yet.
        lifetime: Wall seconds after which it is killed.
        inputs: How many inputs one child gets.
    """

    mode: str
    code: str
    files: Files
    limits: Limits
    lifetime: float
    inputs: int = 1

    def job(self, number: int, folder: str = "") -> Job:
        """The message for the worker."""
        limits = self.limits
        return Job(
            number=number,
            mode=self.mode,
            seconds=limits.seconds,
            lifetime=self.lifetime,
            cpu_seconds=limits.cpu_seconds,
            cpu_limit=_FAR_AWAY if self.mode == "session" else limits.hard_cpu_seconds * self.inputs,
            memory_mb=limits.memory_mb,
            disk_mb=limits.disk_mb,
            disk_files=limits.disk_files,
            threads=limits.threads,
            stack_mb=limits.stack_mb,
            output_bytes=limits.output_bytes,
            folder=folder,
        )

    def payload(self) -> bytes:
        """What only the child reads. JSON keeps lone surrogates, which UTF-8 would not."""
        files = {name: base64.b64encode(encoded(content)).decode() for name, content in self.files.items()}
        return json.dumps({"code": self.code, "files": files}).encode()


class Running(Protocol):
    """A run that has begun."""

    def kill(self) -> None:
        """End it; its status follows."""

    def abandon(self) -> None:
        """Nothing came of `kill`: end whatever stands between."""

    def finished(self) -> None:
        """Its status has come, or will never come: give back what the run held outside."""


class Launcher(Protocol):
    """Starts runs, from any thread."""

    isolation: str

    def launch(self, order: Order, given: Descriptors) -> Running:
        """Start one run on these descriptors, which stay the caller's.

        Raises:
            SandboxLost: The process that runs programs does not start or does not answer.
        """

    def close(self) -> None:
        """End every run and the processes behind them."""


def program_order(code: str, files: Files, limits: Limits) -> Order:
    """One program, one input."""
    return Order("program", code, checked_files(files), limits, limits.seconds + _GRACE)


def checked_files(files: Files) -> Files:
    """Refuse names that could lead out of the run's folder.

    Raises:
        UserError: A name is empty, too long, or more than a plain name.
    """
    for name in files:
        if not name or name in (".", "..") or "/" in name or "\0" in name or len(encoded(name)) > 255:
            raise UserError(f"files: {name!r} is no plain file name; folders are not supported")
    return files


def encoded(text: Text) -> bytes:
    """Text as UTF-8, lone surrogates included: a model may write anything."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
