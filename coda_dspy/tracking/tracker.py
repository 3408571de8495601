"""The face of the tracking: a run and its children, whose methods return at once."""

import base64
import hashlib
import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from coda_dspy.engines.secrets import redact, remember_password_of

from .origin import origin
from .worker import Worker

logger = logging.getLogger(__name__)

SPOOL = Path("mlflow-spool")
_LONGEST = 500  # characters of a parameter's value


class Run:
    """One MLflow run, which a tag names by a key of ours: the same one again after a crash or a dead store.

    Args:
        worker: What carries the operations out.
        experiment: Name of the experiment.
        name: Name of the run.
        key: Names the run in the tag.
        parent: The run that it is a part of.
    """

    def __init__(self, worker: Worker, experiment: str, name: str, key: str, parent: "Run | None" = None) -> None:
        self._worker, self._experiment, self.key = worker, experiment, key
        above = parent.key if parent is not None else None
        self._do("start", experiment=experiment, name=redact(name), parent=above, time=_now())

    def params(self, params: Mapping[str, Any]) -> None:
        """What the run was given; once set, a parameter keeps its value."""
        self._do("params", values={name: redact(str(value))[:_LONGEST] for name, value in params.items()})

    def tags(self, tags: Mapping[str, Any]) -> None:
        """What may change when the run goes on: versions, commits."""
        self._do("tags", values={name: redact(str(value)) for name, value in tags.items()})

    def metrics(self, metrics: Mapping[str, float | None], step: int | None = None) -> None:
        """Figures; unknown ones (`None`) stay unknown."""
        known = {name: float(value) for name, value in metrics.items() if value is not None}
        self._do("metrics", values=known, step=step or 0, time=_now())

    def artifact(self, path: Path) -> None:
        """Store a file as it is at the moment when the call is carried out."""
        self._do("artifact", path=str(path.absolute()))

    def content(self, content: str | bytes, name: str) -> None:
        """Store a file of this content; a text is redacted."""
        raw = redact(content).encode() if isinstance(content, str) else content
        self._do("content", name=name, base64=base64.b64encode(raw).decode())

    def table(self, columns: Mapping[str, list[Any]], name: str) -> None:
        """Store a table (columns by name) that MLflow's UI shows, in place of one of that name."""
        self._do("table", columns=redacted(dict(columns)), name=name)

    def prompt(self, name: str, text: str) -> None:
        """Put a prompt into MLflow's registry; a version is added only where the text is new."""
        self._do("prompt", name=name, text=redact(text))

    def model(self, profile: Path) -> None:
        """Store a profile as a model that `mlflow models serve` answers with."""
        self._do("model", path=str(profile.absolute()))

    def trace(self, trace: Mapping[str, Any]) -> None:
        """Store one question's trace, as `traces.py` records it."""
        self._do("trace", trace=redacted(dict(trace)))

    def child(self, name: str) -> "Run":
        """A nested run: a trial. The same name is the same run, also when its parent is gone on with."""
        key = hashlib.blake2b(f"{self.key} {name}".encode(), digest_size=16).hexdigest()
        return Run(self._worker, self._experiment, name, key, parent=self)

    def end(self, status: str = "FINISHED") -> None:
        self._do("end", status=status, time=_now())

    def _do(self, what: str, /, **values: Any) -> None:
        self._worker.submit({"do": what, "run": self.key, **values})


class Tracker(Run):
    """The run that everything of one command belongs to.

    A store that fails costs a warning, never the run: what it did not take is kept in `spool`, and delivered by
    `python -m coda_dspy track --sync`, or by the next run.

    Example:
        >>> tracker = Tracker("sqlite:///mlflow.db", "coda-tune", "qwen")  # doctest: +SKIP
        >>> tracker.params({"seed": 0}); tracker.metrics({"accuracy": 0.5}); tracker.close()  # doctest: +SKIP

    Args:
        uri: MLflow tracking URI.
        experiment: Name of the experiment; created where it does not exist.
        name: Name of the run.
        memory: File that remembers the run, so that another process goes on with it after a crash.
        spool: Folder for what a store did not take.
    """

    def __init__(self, uri: str, experiment: str, name: str, memory: Path | None = None, spool: Path = SPOOL) -> None:
        remember_password_of(uri)
        worker = Worker(uri, spool.absolute())
        place = {"store": worker.store, "experiment": experiment}
        known = _recalled(memory, place)
        super().__init__(worker, experiment, name, known or _new_key(memory, place))
        if known is not None:
            self._do("reopen")
        self.tags(origin())

    def close(self, status: str = "FINISHED") -> None:
        """End the run (`FINISHED`, `FAILED` or `KILLED`) and wait until everything is stored."""
        self.end(status)
        self._worker.close()


def redacted(value: Any) -> Any:
    """A plain value without known keys; what JSON has no word for becomes a text."""
    if isinstance(value, Mapping):
        return {str(name): redacted(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return redact(str(value))


def _recalled(memory: Path | None, place: Mapping[str, str]) -> str | None:
    """The key of the run that `memory` names, if it is at this place."""
    if memory is None or not memory.exists():
        return None
    try:
        known = json.loads(memory.read_text(encoding="utf-8"))
        return str(known["key"]) if {name: known[name] for name in place} == place else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("%s is damaged (%s); MLflow gets a new run", memory, error)
        return None


def _new_key(memory: Path | None, place: Mapping[str, str]) -> str:
    """A new key, which `memory` names from now on."""
    key = uuid4().hex
    if memory is not None:
        try:
            memory.parent.mkdir(parents=True, exist_ok=True)
            memory.write_text(json.dumps({"key": key, **place}) + "\n", encoding="utf-8")
        except OSError as error:
            logger.warning("%s cannot be written (%s); the run cannot be gone on with in MLflow", memory, error)
    return key


def _now() -> int:
    """Milliseconds, as MLflow counts them."""
    return time.time_ns() // 1_000_000
