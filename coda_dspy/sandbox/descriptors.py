"""Descriptors that go into a run: pipes, and files that have no name anywhere."""

import contextlib
import os
import tempfile
from typing import NamedTuple


class Pipe(NamedTuple):
    """The two ends of a pipe."""

    read: int
    write: int


class Bag(contextlib.ExitStack):
    """Owns descriptors; all that are not given up before its end are closed there."""

    def __init__(self) -> None:
        super().__init__()
        self._held: set[int] = set()
        self.callback(self._close_all)

    def hold(self, descriptor: int) -> int:
        """Close this one at the end."""
        self._held.add(descriptor)
        return descriptor

    def pipe(self) -> Pipe:
        """A new pipe; both ends are held."""
        read, write = os.pipe()
        return Pipe(self.hold(read), self.hold(write))

    def data(self, content: bytes) -> int:
        """A file in memory with this content, open for reading only, at its beginning."""
        return self.hold(readable(content))

    def close_now(self, *descriptors: int) -> None:
        """Close these before the end."""
        for descriptor in descriptors:
            if descriptor in self._held:
                self._held.remove(descriptor)
                os.close(descriptor)

    def _close_all(self) -> None:
        self.close_now(*self._held)


def readable(content: bytes) -> int:
    """Open a nameless file with this content for reading. A pipe would not do: both sides could wait for each other."""
    if not hasattr(os, "memfd_create"):
        return _unlinked(content)
    import fcntl  # not on Windows, where there is no memfd_create either

    descriptor = os.memfd_create("input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        # Landlock does not govern files in memory: by /proc/self/fd a program could open its input again, to write,
        # and let it grow beside its memory limit.
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        # A second opening: its own position, and no right to write.
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(descriptor)


def _unlinked(content: bytes) -> int:
    descriptor, path = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.unlink(path)  # noqa: PTH108 - mkstemp gives a string
