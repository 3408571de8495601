"""What the host and the worker say to each other: JSON messages, with descriptors beside them.

The control socket is a unix socket of the SEQPACKET kind: a message arrives whole or not at all, and no message at all
means that the other side is gone. Programs, their files and their inputs do not travel in messages but in descriptors
that only the forked child reads: the worker's memory, which every later child inherits, never holds any of them.
"""

import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

_LONGEST = 1 << 20
_MOST_DESCRIPTORS = 128
SETUP_FAILED = 125


@dataclass(frozen=True)
class Setup:
    """What a worker is told once, before it locks itself in.

    Attributes:
        level: `namespaces` or `landlock`.
        read_only: Absolute paths of Python and its libraries, without anybody's site-packages.
        listed: Folders whose entries may be listed, though not all of them read.
        packages: The one place of each package that programs may import besides the standard library.
        preload: Modules to import before the first fork.
    """

    level: str
    read_only: Sequence[str]
    listed: Sequence[str]
    packages: Mapping[str, str]
    preload: Sequence[str]


@dataclass(frozen=True)
class Job:
    """One run. Its descriptors come beside it: see `Descriptors`.

    Attributes:
        number: What a later `kill` names.
        mode: `program`, `batch` (one program, many inputs) or `session` (pieces of code, one after another).
        seconds: Wall seconds after which the child ends its own program, input or piece of code.
        lifetime: Wall seconds after which the worker kills the child.
        cpu_seconds: The same in CPU seconds; None: no such limit.
        cpu_limit: Whole CPU seconds after which the kernel kills the child.
        memory_mb: Address space beyond what the worker itself has mapped.
        folder: Level `landlock` only: the folder that holds the run's files; empty where there are none.
    """

    number: int
    mode: str
    seconds: float
    lifetime: float
    cpu_seconds: float | None
    cpu_limit: int
    memory_mb: int
    disk_mb: int
    disk_files: int
    threads: int
    stack_mb: int
    output_bytes: int
    folder: str = ""


class Descriptors(NamedTuple):
    """What comes with a `Job`, in this order; `extra` is for the mode."""

    payload: int
    stdin: int
    stdout: int
    stderr: int
    status: int
    extra: tuple[int, ...] = ()

    @classmethod
    def of(cls, numbers: Sequence[int]) -> "Descriptors":
        """The received numbers, in order."""
        payload, stdin, stdout, stderr, status, *extra = numbers
        return cls(payload, stdin, stdout, stderr, status, tuple(extra))

    def all(self) -> list[int]:
        """Every number, in order."""
        return [*self[:5], *self.extra]


def send(link: socket.socket, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one message.

    Raises:
        OSError: The other side is gone, or does not listen.
    """
    data = json.dumps(message).encode()
    if descriptors:
        socket.send_fds(link, [data], list(descriptors))
    else:
        link.send(data)


def receive(link: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Wait for one message.

    Raises:
        EOFError: The other side is gone.
        OSError: The socket gave nothing in time, or failed.
    """
    data, descriptors, _, _ = socket.recv_fds(link, _LONGEST, _MOST_DESCRIPTORS)
    if not data:
        raise EOFError("the other side is gone")
    return json.loads(data), descriptors


def write_line(descriptor: int, message: Mapping[str, Any]) -> None:
    """Write one JSON line, whole, whatever its length.

    Raises:
        OSError: Nobody reads it any more.
    """
    rest = memoryview(json.dumps(message).encode() + b"\n")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def read_all(descriptor: int) -> bytes:
    """All that a file holds, from its beginning."""
    parts = []
    place = 0
    while part := os.pread(descriptor, 1 << 20, place):
        parts.append(part)
        place += len(part)
    return b"".join(parts)
