"""What a store did not take, in a folder of its own for each process: a line an operation, and the files beside it."""

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from coda_dspy.errors import UserError
from coda_dspy.evaluation import new_session
from coda_dspy.evaluation.lines import JsonLines

from .delivery import Delivery, Refused

logger = logging.getLogger(__name__)


class Spool:
    """A spool that this process writes.

    Args:
        spools: Where the folder of this spool goes.
        uri: The store that failed, without its password.
        store: The store's fingerprint.

    Raises:
        UserError: The disk is full, or the folder cannot be written.
    """

    def __init__(self, spools: Path, uri: str, store: str) -> None:
        self.folder = spools / new_session()
        self.folder.mkdir(parents=True)
        self._lock = FileLock(self.folder / ".lock", timeout=0)
        self._lock.acquire()
        self._lines = _lines(self.folder)
        self._numbers = count()
        self._lines.append({"do": "store", "uri": uri, "store": store})

    def append(self, operation: Mapping[str, Any]) -> None:
        """Keep one operation, and the file that it names as it is now."""
        kept = dict(operation)
        if "path" in kept:
            try:
                kept["path"] = self._copied(Path(kept["path"]))
            except FileNotFoundError as error:
                logger.warning("%s is not there any more, so it is not tracked", error.filename)
                return
        self._lines.append(kept)

    def close(self) -> None:
        """Leave the spool to whoever delivers it."""
        self._lock.release()

    def _copied(self, path: Path) -> str:
        place = Path("files") / str(next(self._numbers)) / path.name
        (self.folder / place).parent.mkdir(parents=True)
        shutil.copyfile(path, self.folder / place)
        return str(place)


def pending(spools: Path, store: str | None = None) -> list[Path]:
    """The spools that are there, oldest first; with `store`, those of that store only."""
    folders = sorted(path.parent for path in spools.glob("*/operations.jsonl"))
    return [folder for folder in folders if store is None or _header(folder).get("store") == store]


def deliver(folder: Path, delivery: Delivery) -> int:
    """Carry out what a spool holds, and remove it; how many operations that were.

    It goes only when everything is there. Whatever breaks in between, the next time begins anew, and an operation that
    is carried out again changes nothing.

    Raises:
        UserError: The spool is damaged.
        Exception: The store does not answer.
    """
    try:
        with FileLock(folder / ".lock", timeout=0):
            operations = list(_operations(folder))
            for operation in operations:
                try:
                    delivery.carry_out(operation)
                except Refused as refusal:
                    logger.warning("%s", refusal)
            shutil.rmtree(folder)
            return len(operations)
    except Timeout:
        return 0  # the run that writes it is still going on


def sync(spools: Path, uri: str | None, told: Callable[[Path, int], None] = lambda folder, number: None) -> int:
    """Deliver every spool of a folder; how many operations that were.

    Args:
        spools: The folder.
        uri: The store; by default the one that each spool was meant for.
        told: Called for each spool that is delivered, with its number of operations.

    Raises:
        UserError: A store does not answer, or its password is needed; what is not delivered stays.
    """
    total = 0
    for folder in pending(spools):
        number = _sent(folder, uri or _meant_for(folder))
        told(folder, number)
        total += number
    return total


def _sent(folder: Path, uri: str) -> int:
    from coda_dspy.engines.secrets import redact

    try:
        return deliver(folder, Delivery(uri))
    except UserError:
        raise
    except Exception as error:  # MLflow's stores raise their drivers' errors
        reason = redact(str(error)).strip().partition("\n")[0][:300]
        raise UserError(
            f"MLflow at {redact(uri)} failed: {reason}. {folder} stays; try again when the store is there, "
            "or name another one with --mlflow-uri"
        ) from error


def _meant_for(folder: Path) -> str:
    uri = str(_header(folder).get("uri", ""))
    if not uri or "***" in uri:
        raise UserError(f"the password of {uri or folder} is not kept; give the whole address with --mlflow-uri")
    return uri


def _header(folder: Path) -> dict[str, Any]:
    return next(iter(_lines(folder).read()), {})


def _operations(folder: Path) -> Iterator[dict[str, Any]]:
    for operation in _lines(folder).read():
        if operation["do"] == "store":
            continue
        yield operation | ({"path": str(folder / operation["path"])} if "path" in operation else {})


def _lines(folder: Path) -> JsonLines:
    return JsonLines(folder / "operations.jsonl")
