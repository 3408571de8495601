"""The folder of a run: everything that a question cost is in it, and a run that broke goes on from it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from coda_dspy.errors import UserError
from coda_dspy.files import write_atomically


class RunFolder:
    """What is kept of a run.

    Args:
        path: The folder: `run.json` says what the run is, `cache/` holds DSPy's cache.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, described: Mapping[str, Any]) -> None:
        """Write down what this run is, or check that it is the one that was begun here.

        Raises:
            UserError: Another run was begun in this folder; the message says in what it differs.
        """
        begun = self.described()
        if begun is None:
            write_atomically(self.path / "run.json", json.dumps(described, indent=2) + "\n")
            return
        for key, value in described.items():
            if begun.get(key) != value:
                raise UserError(
                    f"{self.path} holds a run with another {key}; give --output another folder, or remove this one"
                )

    def described_hash(self) -> str | None:
        """Fingerprint of the data that was evaluated here; `None` where it is not known."""
        data = (self.described() or {}).get("data")
        return data.get("hash") if isinstance(data, dict) else None

    def described(self) -> dict[str, Any] | None:
        """What was begun here; `None` for nothing.

        Raises:
            UserError: `run.json` is damaged.
        """
        path = self.path / "run.json"
        if not path.exists():
            return None
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise UserError(f"{path} is damaged: {error}; remove it and run the same command again") from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One run at a time in a folder.

    Raises:
        UserError: Another one is running there, or the folder cannot be written.
    """
    with _locked(folder, folder / ".lock"):
        yield


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """One run at a time that adds to a file.

    Raises:
        UserError: Another one is adding to it, or its folder cannot be written.
    """
    with _locked(path, path.with_name(f".{path.name}.lock")):
        yield


@contextmanager
def _locked(place: Path, lock_file: Path) -> Iterator[None]:
    try:
        lock_file.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(lock_file, timeout=0)
        lock.acquire()
    except Timeout as error:
        raise UserError(f"{place} is in use by another run; wait for it, or give another --output") from error
    except OSError as error:
        raise UserError(f"{place} cannot be written: {error.strerror}; give another --output") from error
    try:
        yield
    finally:
        lock.release()
