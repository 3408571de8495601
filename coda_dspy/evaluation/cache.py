"""DSPy's cache of replies in the folder of a run. It saves money; nothing that happens to it may cost an answer."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dspy
from dspy.clients import DISK_CACHE_LIMIT, Cache

from coda_dspy.errors import UserError
from coda_dspy.files import set_aside

logger = logging.getLogger(__name__)

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class _RunCache(Cache):
    """A cache in which an entry that cannot be read is one that is not there."""

    _complained = False

    def get(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().get(*arguments, **options)
        except Exception as error:  # noqa: BLE001 - whatever SQLite and pickle raise over damaged bytes or a full disk
            if not self._complained:
                self._complained = True
                logger.warning(
                    "the cache %s cannot be read everywhere (%s); what is missing is generated anew",
                    self.disk_cache_dir,
                    error,
                )
            return None


@contextmanager
def own_cache(folder: Path) -> Iterator[None]:
    """DSPy's cache in the run's folder: it outlives a crash, and no other run's replies make this one look cheap.

    A damaged one is set aside, and begun anew.

    Raises:
        UserError: It cannot be made: the disk is full, or the folder cannot be written.
    """
    before, opened = dspy.cache, _opened(folder)
    dspy.cache = opened
    try:
        yield
    finally:
        dspy.cache = before
        opened.disk_cache.close()


def _opened(folder: Path) -> _RunCache:
    try:
        return _RunCache(True, True, str(folder), DISK_CACHE_LIMIT)
    except OSError as error:
        raise UserError(f"the cache {folder} cannot be written: {error.strerror}") from error
    except sqlite3.Error as error:
        if error.sqlite_errorcode & 0xFF not in _DAMAGED:  # the lowest byte is the kind of the error
            raise UserError(
                f"the cache {folder} cannot be opened: {error}; make room, or mend that, and run the same command again"
            ) from error
        aside = set_aside(folder)
        logger.warning("the cache %s is damaged (%s); it is kept as %s and begun anew", folder, error, aside.name)
        return _opened(folder)
