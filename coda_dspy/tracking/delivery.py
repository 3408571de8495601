"""Carries operations out at one store. Each may be carried out twice: the second time changes nothing."""

import base64
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

RUN_TAG = "coda.run"  # the key by which a run is found again
_TABLES_TAG = "mlflow.loggedArtifacts"  # where MLflow's UI looks for tables
_REFUSALS = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")

_SETTINGS = {
    # A store that is not there should cost seconds, not the minutes of MLflow's default retries.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "PGCONNECT_TIMEOUT": "10",
    # A command's output is its own.
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


class Refused(Exception):
    """The store is well, but it will never take this operation."""


class Delivery:
    """One store, ready to take operations.

    Args:
        uri: MLflow tracking URI.

    Raises:
        Exception: Whatever MLflow or its drivers raise, where the store does not answer.
    """

    def __init__(self, uri: str) -> None:
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        logging.getLogger("alembic").setLevel(logging.ERROR)
        logging.getLogger("mlflow.store.model_registry").setLevel(logging.WARNING)
        from mlflow import MlflowClient

        _knock(uri)
        self.uri = uri
        self.client = MlflowClient(tracking_uri=uri)
        self._experiments: dict[str, str] = {}  # ids, by name
        self._runs: dict[str, tuple[str, str]] = {}  # ids of the run and its experiment, by our key
        self.client.get_experiment_by_name("Default")

    def carry_out(self, operation: Mapping[str, Any]) -> None:
        """Carry one operation out.

        Raises:
            Refused: The store takes other operations, but not this one.
            Exception: The store does not answer.
        """
        from mlflow.exceptions import MlflowException

        needed = operation["parent"] if operation["do"] == "start" else operation["run"]
        if needed is not None and needed not in self._runs:
            raise Refused(f"{operation['do']} belongs to a run that MLflow refused")
        values = {name: value for name, value in operation.items() if name not in ("do", "run")}
        try:
            getattr(self, f"_{operation['do']}")(operation["run"], **values)
        except FileNotFoundError as error:
            raise Refused(f"{error.filename} is not there any more, so it is not in MLflow") from error
        except MlflowException as error:
            if error.error_code in _REFUSALS:
                raise Refused(f"MLflow refuses {operation['do']}: {str(error)[:300]}") from error
            raise

    def _start(self, key: str, experiment: str, name: str, parent: str | None, time: int) -> None:
        within = self._experiment(experiment)
        found = self.client.search_runs([within], f"tags.`{RUN_TAG}` = '{key}'", max_results=1)
        if found:
            self._runs[key] = found[0].info.run_id, within
            return
        tags = {RUN_TAG: key} | ({"mlflow.parentRunId": self._runs[parent][0]} if parent is not None else {})
        made = self.client.create_run(within, start_time=time, tags=tags, run_name=name)
        self._runs[key] = made.info.run_id, within

    def _experiment(self, name: str) -> str:
        if name not in self._experiments:
            found = self.client.get_experiment_by_name(name)
            self._experiments[name] = found.experiment_id if found else self.client.create_experiment(name)
        return self._experiments[name]

    def _reopen(self, key: str) -> None:
        self.client.update_run(self._runs[key][0], status="RUNNING")

    def _params(self, key: str, values: Mapping[str, str]) -> None:
        from mlflow.entities import Param

        self.client.log_batch(self._runs[key][0], params=[Param(name, value) for name, value in values.items()])

    def _tags(self, key: str, values: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        self.client.log_batch(self._runs[key][0], tags=[RunTag(name, value) for name, value in values.items()])

    def _metrics(self, key: str, values: Mapping[str, float], step: int, time: int) -> None:
        from mlflow.entities import Metric

        # The same figure at the same time and step is one figure to MLflow, however often it is sent.
        metrics = [Metric(name, value, time, step) for name, value in values.items()]
        self.client.log_batch(self._runs[key][0], metrics=metrics)

    def _artifact(self, key: str, path: str, folder: str | None = None) -> None:
        self.client.log_artifact(self._runs[key][0], path, folder)

    def _content(self, key: str, name: str, **content: str) -> None:
        place = PurePosixPath(name)
        folder = None if place.parent == PurePosixPath() else str(place.parent)
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / place.name
            path.write_bytes(base64.b64decode(content["base64"]))
            self._artifact(key, str(path), folder)

    def _table(self, key: str, columns: Mapping[str, list[Any]], name: str) -> None:
        """Not by `log_table`, which adds rows to those that are there."""
        import pandas

        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / name
            pandas.DataFrame(dict(columns)).to_json(path, orient="split", index=False)
            self._artifact(key, str(path))
        run = self._runs[key][0]
        tables = json.loads(self.client.get_run(run).data.tags.get(_TABLES_TAG, "[]"))
        entry = {"path": name, "type": "table"}
        if entry not in tables:
            self.client.set_tag(run, _TABLES_TAG, json.dumps([*tables, entry]))

    def _prompt(self, key: str, name: str, text: str) -> None:
        from .registry import register

        register(self.client, self._runs[key][0], name, text)

    def _model(self, key: str, path: str) -> None:
        from .model import save

        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "model"
            save(Path(path), folder)
            self.client.log_artifacts(self._runs[key][0], str(folder), "model")

    def _trace(self, key: str, trace: Mapping[str, Any]) -> None:
        from .spans import store_trace

        run, experiment = self._runs[key]
        store_trace(self.uri, experiment, run, trace)

    def _end(self, key: str, status: str, time: int) -> None:
        self.client.set_terminated(self._runs[key][0], status, time)


def _knock(uri: str) -> None:
    """Connect to a database server once, for MLflow tries ten times where none answers, which takes minutes.

    Raises:
        Exception: What the driver raises where the database does not answer.
    """
    from mlflow.store.db.db_types import DATABASE_ENGINES, SQLITE
    from mlflow.store.db.utils import create_sqlalchemy_engine
    from sqlalchemy import inspect

    kind = uri.partition(":")[0].partition("+")[0]
    if kind == SQLITE or kind not in DATABASE_ENGINES:
        return
    engine = create_sqlalchemy_engine(uri)
    try:
        inspect(engine)
    finally:
        engine.dispose()
