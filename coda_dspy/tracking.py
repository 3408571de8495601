"""Follow a run in MLflow: one parent run a tune, one child run a trial.

Everything goes through one background thread, in order: creating MLflow's database takes many seconds and must not
hold up the work. A tracking store that fails costs a warning, never the run.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from coda_dspy.engines.secrets import redact, remember_password_of

logger = logging.getLogger(__name__)


class Tracker:
    """One MLflow run and its children.

    Example:
        >>> tracker = Tracker("sqlite:///mlflow.db", "coda-tune", "qwen")  # doctest: +SKIP
        >>> tracker.params({"seed": 0}); tracker.metrics({"accuracy": 0.5}); tracker.close()  # doctest: +SKIP

    Args:
        uri: MLflow tracking URI.
        experiment: Name of the experiment; created where it does not exist.
        name: Name of the run.
        memory: File that remembers the run, so that another process goes on with it after a crash.
    """

    def __init__(self, uri: str, experiment: str, name: str, memory: Path | None = None) -> None:
        remember_password_of(uri)
        self._shared = _Worker(uri, experiment)
        self._run = _Run(self._shared, name, memory=memory)

    def params(self, params: Mapping[str, Any]) -> None:
        self._run.params(params)

    def metrics(self, metrics: Mapping[str, float | None], step: int | None = None) -> None:
        self._run.metrics(metrics, step)

    def artifact(self, path: Path) -> None:
        """Store a file as it is at the moment when the call is carried out."""
        self._run.artifact(path)

    def table(self, columns: Mapping[str, list[Any]], name: str) -> None:
        """Store a table (columns by name) that MLflow's UI shows."""
        self._run.table(columns, name)

    def child(self, name: str, memory: Path | None = None) -> "_Run":
        """A nested run: a trial. `memory` is a file that remembers it, as for the run itself."""
        return _Run(self._shared, name, parent=self._run, memory=memory)

    def close(self, status: str = "FINISHED") -> None:
        """End the run (`FINISHED`, `FAILED` or `KILLED`) and wait until everything is stored."""
        self._run.end(status)
        self._shared.close()


class _Worker:
    """The thread that talks to MLflow, its client, and whether the store has failed."""

    def __init__(self, uri: str, experiment: str) -> None:
        self._uri = uri
        self._experiment = experiment
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="coda-tracking")
        self._failed = False
        self.store = hashlib.blake2b(uri.encode(), digest_size=8).hexdigest()  # a URI may hold a password
        self.client: Any = None
        self.experiment_id = ""
        self.submit(self._open)

    def submit(self, step: Callable[[], None]) -> None:
        self._pool.submit(self._guarded, step)

    def _guarded(self, step: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            step()
        except Exception as error:  # noqa: BLE001 - MLflow's stores raise their drivers' errors; none may end a run
            self._failed = True
            logger.warning("MLflow at %s failed; going on without it: %s", redact(self._uri), redact(str(error))[:300])

    def _open(self) -> None:
        # A store that is not there should cost seconds, not the minutes of MLflow's default retries.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        logging.getLogger("alembic").setLevel(logging.ERROR)
        from mlflow import MlflowClient

        self.client = MlflowClient(tracking_uri=self._uri)
        found = self.client.get_experiment_by_name(self._experiment)
        self.experiment_id = found.experiment_id if found else self.client.create_experiment(self._experiment)

    def close(self) -> None:
        self._pool.shutdown(wait=True)


class _Run:
    """One run; every method returns at once."""

    def __init__(self, worker: _Worker, name: str, parent: "_Run | None" = None, memory: Path | None = None) -> None:
        self._worker = worker
        self.run_id = ""
        worker.submit(lambda: self._start(redact(name), parent, memory))

    def _start(self, name: str, parent: "_Run | None", memory: Path | None) -> None:
        if memory is not None and memory.exists():
            known = json.loads(memory.read_text(encoding="utf-8"))
            if known["experiment"] == self._worker.experiment_id and known["store"] == self._worker.store:
                self.run_id = known["run"]
                self._worker.client.set_terminated(self.run_id, "RUNNING")
                return
        tags = {"mlflow.parentRunId": parent.run_id} if parent is not None else {}
        run = self._worker.client.create_run(self._worker.experiment_id, run_name=name, tags=tags)
        self.run_id = run.info.run_id
        if memory is not None:
            known = {"run": self.run_id, "experiment": self._worker.experiment_id, "store": self._worker.store}
            memory.parent.mkdir(parents=True, exist_ok=True)
            memory.write_text(json.dumps(known) + "\n", encoding="utf-8")

    def params(self, params: Mapping[str, Any]) -> None:
        for name, value in params.items():
            self._call("log_param", name, redact(str(value))[:500])

    def metrics(self, metrics: Mapping[str, float | None], step: int | None = None) -> None:
        for name, value in metrics.items():
            if value is not None:  # unknown stays unknown
                self._call("log_metric", name, float(value), None, step)

    def artifact(self, path: Path) -> None:
        self._call("log_artifact", str(path))

    def table(self, columns: Mapping[str, list[Any]], name: str) -> None:
        self._call("log_table", dict(columns), name)

    def end(self, status: str = "FINISHED") -> None:
        self._call("set_terminated", status)

    def _call(self, method: str, *args: Any) -> None:
        """Have the client carry out one of its methods on this run, in its turn."""
        self._worker.submit(lambda: getattr(self._worker.client, method)(self.run_id, *args))
