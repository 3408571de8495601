"""Files that are never seen half written, and what is done with damaged ones."""

import os
import tempfile
from itertools import count
from pathlib import Path

from coda_dspy.errors import UserError


def write_atomically(path: Path, text: str) -> None:
    """Replace a file in one step: readers see the old content or the new one, and a failure leaves the old one.

    Raises:
        UserError: The file cannot be written.
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(_mode_of(path))
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise UserError(f"{path} cannot be written: {error.strerror}; what was there before is unchanged") from error


def set_aside(path: Path) -> Path:
    """Rename a damaged file or folder, so that another one can take its place; gives its new name."""
    names = (f"{path.name}.damaged{'' if number == 1 else f'-{number}'}" for number in count(1))
    aside = next(path.with_name(name) for name in names if not path.with_name(name).exists())
    return path.rename(aside)


def _mode_of(path: Path) -> int:
    """The permissions of the file that is replaced, or those that a new file gets (temporary files are private)."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
