"""Files that grow by one JSON object at a time, and lose nothing that was finished."""

import gzip
import json
import os
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from coda_dspy.errors import UserError
from coda_dspy.files import write_atomically

_PIECE = 1 << 16


class JsonLines:
    """An append-only file with one JSON object a line, each on the disk before `append` returns.

    A line that a crash has torn is passed over, and dropped before the first new one; every other line is kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._whole = False

    def read(self) -> list[dict[str, Any]]:
        """All whole lines.

        Raises:
            UserError: A line other than the last one is no JSON object; the message names it.
        """
        return [self._parse(number, line) for number, line in self._lines()]

    def sorted_out(self) -> tuple[list[dict[str, Any]], list[bytes]]:
        """All whole lines as rows, and those that are damaged as they are."""
        rows, damaged = [], []
        for number, line in self._lines():
            try:
                rows.append(self._parse(number, line))
            except UserError:
                damaged.append(line)
        return rows, damaged

    def set_aside(self, damaged: Sequence[bytes]) -> Path:
        """Move damaged lines into a file beside this one, and give its name.

        Raises:
            UserError: A file cannot be written; no line is lost.
        """
        aside = self.path.with_name(f"{self.path.name}.damaged")
        try:
            with aside.open("ab") as file:
                file.writelines(line + b"\n" for line in damaged)
        except OSError as error:
            raise UserError(f"{aside} cannot be written: {error.strerror}") from error
        kept = [line.decode() + "\n" for _, line in self._lines() if line not in damaged]
        write_atomically(self.path, "".join(kept))
        return aside

    def _lines(self) -> list[tuple[int, bytes]]:
        """The whole lines with their numbers."""
        if not self.path.exists():
            return []
        whole, _, _ = self.path.read_bytes().rpartition(b"\n")
        return [(number, line) for number, line in enumerate(whole.split(b"\n"), 1) if line.strip()]

    def append(self, row: dict[str, Any]) -> None:
        """Add one line.

        Raises:
            UserError: The disk is full, or the file cannot be written.
        """
        line = self._encoded(row)
        with self._lock:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a+b") as file:
                    self._drop_torn_line(file)
                    self._whole = False  # until all of the line is there; Ctrl-C too may tear it
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
                    self._whole = True
            except OSError as error:
                raise UserError(
                    f"{self.path} cannot be written: {error.strerror}; what was saved before is kept, "
                    "make room and run the same command again"
                ) from error

    def _drop_torn_line(self, file: BinaryIO) -> None:
        """Before the first line, and after one that failed: what stands behind the last whole one goes."""
        if not self._whole:
            file.seek(0)
            file.truncate(self._whole_bytes(file.read()))
            file.seek(0, os.SEEK_END)

    def _encoded(self, row: dict[str, Any]) -> bytes:
        return json.dumps(row).encode() + b"\n"

    def _whole_bytes(self, content: bytes) -> int:
        """How much of the file was written whole."""
        return content.rfind(b"\n") + 1

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(
                f"{self.path}, line {number} is damaged: {error}; remove that line and run the same command again"
            ) from error
        if not isinstance(row, dict):
            raise UserError(f"{self.path}, line {number} is no JSON object; remove that line")
        return row


class CompressedLines(JsonLines):
    """The same, compressed: each line is a gzip member of its own, so any gzip tool reads the file.

    A member that a crash has torn is passed over, and dropped before the first new one.
    """

    def read(self) -> list[dict[str, Any]]:
        """All whole lines.

        Raises:
            UserError: A line is no JSON object.
        """
        if not self.path.exists():
            return []
        members = _members(self.path.read_bytes())
        return [self._parse(number, text) for number, (_, text) in enumerate(members, 1)]

    def _encoded(self, row: dict[str, Any]) -> bytes:
        return gzip.compress(super()._encoded(row), mtime=0)

    def _whole_bytes(self, content: bytes) -> int:
        return max((end for end, _ in _members(content)), default=0)


def _members(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Where each whole gzip member ends, and what it holds.

    Raises:
        UserError: A member in the middle is damaged.
    """
    end, place, view = 0, 0, memoryview(content)
    while place < len(content):
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        parts = []
        while not member.eof and place < len(content):
            piece = view[place : place + _PIECE]
            try:
                parts.append(member.decompress(piece))
            except zlib.error as error:
                raise UserError(
                    f"the compressed file is damaged at byte {end} ({error}); what stands before is whole: cut it there"
                ) from error
            place += len(piece) - len(member.unused_data)
        if not member.eof:
            return
        end = place
        yield end, b"".join(parts)
