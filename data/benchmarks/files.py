"""Official rows in a local file."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coda_dspy.errors import UserError

SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")


def rows_in(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file, one after the other.

    Raises:
        UserError: There is no such file, it cannot be read, it has another suffix, or a row is no object. The message
            quotes nothing of the file.
    """
    readers = {".jsonl": _lines, ".json": _list, ".csv": _table, ".parquet": _parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"{path}: is no file of rows; give one that ends in {', '.join(SUFFIXES)}")
    try:
        yield from reader(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; give the path of the benchmark's official rows") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}); give a readable file") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; get the official file again") from None
    except csv.Error as error:
        raise UserError(f"{path}: is no readable CSV ({error}); give the rows as .jsonl") from None


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield _object(line, f"{path}, line {number}")


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise UserError(f"{where}: is not JSON; get the official file again") from None
    if not isinstance(row, dict):
        raise UserError(f"{where}: is no object; the official file has one object a line")
    return row


def _list(path: Path) -> Iterator[dict[str, Any]]:
    try:
        rows = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise UserError(f"{path}: is not JSON; where it has one object a line, let its name end in .jsonl") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UserError(f"{path}: is no list of objects; the official rows stand in one")
    yield from rows


def _table(path: Path) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(1 << 30)  # its default is shorter than some problems
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield from csv.DictReader(file)


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError:
        raise UserError(f"{path}: pyarrow is not installed: pip install 'coda-dspy[hub]', or give .jsonl") from None
    try:
        yield from parquet.read_table(path).to_pylist()
    except ArrowInvalid:
        raise UserError(f"{path}: is not Parquet; get the official file again") from None
