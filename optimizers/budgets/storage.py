"""Where an Optuna study is kept: a journal file of one process, or a database that many share."""

import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coda_dspy.engines.secrets import redact, remember_password_of
from coda_dspy.errors import UserError
from coda_dspy.files import set_aside

logger = logging.getLogger(__name__)

_PAUSE = 1.0  # seconds before a database is tried again


def opened(storage: Path | str) -> Any:
    """Optuna's storage.

    Args:
        storage: A journal file in a folder that this process has locked, or a database's address (`postgresql://…`).

    Raises:
        Exception: What the database's driver raises; `database_errors` translates it.
    """
    return _journal(storage) if isinstance(storage, Path) else _database(storage)


def _journal(path: Path) -> Any:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    path.parent.mkdir(parents=True, exist_ok=True)
    # The folder is this process's own: what lies there was left by one that was killed, and Optuna would wait for it.
    Path(f"{path}.lock").unlink(missing_ok=True)
    if path.exists():
        _mend(path)
    return JournalStorage(JournalFileBackend(str(path), JournalFileOpenLock(str(path))))


def _mend(path: Path) -> None:
    """Drop what a process that was killed in the middle of a line has written of it; set a damaged file aside.

    What it held is found again: what was answered is in the results, and the same seed suggests the same budgets.
    """
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    for number, line in enumerate(content[:whole].splitlines(), 1):
        try:
            json.loads(line)
        except ValueError as error:
            aside = set_aside(path)
            logger.warning(
                "%s, line %d is damaged (%s); it is kept as %s and begun anew", path, number, error, aside.name
            )
            return
    if whole < len(content):
        os.truncate(path, whole)


def _database(url: str) -> Any:
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import SQLAlchemyError

    remember_password_of(url)
    for tries_left in (2, 1, 0):
        try:
            # A connection that the server has closed meanwhile, as when it was started again, is replaced.
            return RDBStorage(url, engine_kwargs={"pool_pre_ping": True})
        except SQLAlchemyError:  # also where another process is just making the same tables
            if not tries_left:
                raise
            time.sleep(_PAUSE)
    raise AssertionError("the last try returns or raises")


@contextmanager
def database_errors(storage: Path | str) -> Iterator[None]:
    """A database that cannot be used is the user's to mend.

    Raises:
        UserError: Whatever a database raised; without its password.
    """
    try:
        yield
    except Exception as error:
        if isinstance(storage, Path):
            raise
        raise UserError(
            f"the database {redact(storage)} cannot be used: {redact(str(error)).splitlines()[0][:300]}; check the "
            "address, the user's rights, and that its driver is installed (for PostgreSQL: the extra 'workers')"
        ) from None
