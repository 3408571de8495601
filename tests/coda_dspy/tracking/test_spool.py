"""A store that is dead, dies, or comes back: everything arrives, once."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from coda_dspy.errors import UserError
from coda_dspy.tracking import Tracker, sync
from coda_dspy.tracking.delivery import Delivery, Refused
from coda_dspy.tracking.spool import Spool, pending

DEAD = "http://127.0.0.1:9"  # nothing listens there
OPERATIONS = 11  # of `track_something`


def track_something(uri: str, tmp_path: Path, experiment: str = "e") -> None:
    report = tmp_path / "report.md"
    report.write_text("as it was")
    tracker = Tracker(uri, experiment, "parent", spool=tmp_path / "spool")
    tracker.params({"seed": 0, "engine": "small"})
    child = tracker.child("trial")
    child.metrics({"accuracy": 0.25, "tokens": None}, step=4)
    child.metrics({"accuracy": 0.5}, step=8)
    child.table({"id": ["q1", "q2"], "right": [True, False]}, "questions.json")
    child.end()
    tracker.content("<p>front</p>", "front/front.html")
    tracker.artifact(report)
    tracker.close()
    report.unlink()


def stored(uri: str, experiment: str = "e") -> dict[str, Any]:
    """Everything that a store holds of `track_something`, without what differs from run to run."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(experiment)
    assert found is not None
    runs = client.search_runs([found.experiment_id])
    ids = {run.info.run_id: run.info.run_name for run in runs}
    content = {}
    for run in runs:
        tags = run.data.tags
        history = client.get_metric_history(run.info.run_id, "accuracy")
        content[run.info.run_name] = {
            "status": run.info.status,
            "parent": ids.get(tags.get("mlflow.parentRunId", "")),
            "params": run.data.params,
            "accuracy": [(metric.step, metric.value) for metric in history],
            "metrics": set(run.data.metrics),
            "files": files_of(client, run.info.run_id),
            "tables": tags.get("mlflow.loggedArtifacts"),
        }
    assert len(content) == len(runs)
    return content


def files_of(client: Any, run: str) -> dict[str, str]:
    folder = Path(client.download_artifacts(run, ""))
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_what_a_dead_server_did_not_take_arrives_later(
    tmp_path: Path, mlflow_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    track_something(DEAD, tmp_path)
    assert caplog.text.count("failed; the run goes on") == 1
    track_something(mlflow_uri, tmp_path, "expected")
    told: list[tuple[Path, int]] = []
    assert sync(tmp_path / "spool", mlflow_uri, lambda folder, number: told.append((folder, number))) == OPERATIONS
    content = stored(mlflow_uri)
    assert content == stored(mlflow_uri, "expected")
    assert content["trial"]["parent"] == "parent" and content["trial"]["accuracy"] == [(4, 0.25), (8, 0.5)]
    assert content["parent"]["files"]["report.md"] == "as it was"
    assert not told[0][0].exists()
    assert sync(tmp_path / "spool", mlflow_uri) == 0


def test_a_spool_that_is_delivered_again_changes_nothing(tmp_path: Path, mlflow_uri: str) -> None:
    track_something(DEAD, tmp_path)
    shutil.copytree(tmp_path / "spool", tmp_path / "again")
    sync(tmp_path / "spool", mlflow_uri)
    once = stored(mlflow_uri)
    assert sync(tmp_path / "again", mlflow_uri) == OPERATIONS
    assert stored(mlflow_uri) == once


@pytest.mark.parametrize("carried_out", [True, False])
def test_wherever_a_store_dies_everything_is_there_in_the_end(
    tmp_path: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch, carried_out: bool
) -> None:
    track_something(mlflow_uri, tmp_path, "expected")
    whole = Delivery.carry_out
    left = 0

    def dying(self: Delivery, operation: Mapping[str, Any]) -> None:
        nonlocal left
        left -= 1
        if left >= 0 or carried_out:
            whole(self, operation)  # with `carried_out`, only the answer to this one is lost
        if left < 0:
            raise ConnectionError("gone")

    for left in range(0, OPERATIONS, 3):
        experiment = f"dies after {left}"
        monkeypatch.setattr(Delivery, "carry_out", dying)
        track_something(mlflow_uri, tmp_path, experiment)
        monkeypatch.setattr(Delivery, "carry_out", whole)
        assert len(pending(tmp_path / "spool")) == 1
        sync(tmp_path / "spool", None)
        assert stored(mlflow_uri, experiment) == stored(mlflow_uri, "expected")


def test_a_store_that_was_away_for_a_moment_has_everything_when_the_run_ends(
    tmp_path: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    track_something(mlflow_uri, tmp_path, "expected")
    whole, failed = Delivery.carry_out, []

    def failing_once(self: Delivery, operation: Mapping[str, Any]) -> None:
        if operation["do"] == "metrics" and not failed:
            failed.append(operation)
            raise ConnectionError("gone")
        whole(self, operation)

    monkeypatch.setattr(Delivery, "carry_out", failing_once)
    track_something(mlflow_uri, tmp_path)
    assert failed and not pending(tmp_path / "spool")
    assert stored(mlflow_uri) == stored(mlflow_uri, "expected")


def test_the_next_run_delivers_what_an_earlier_one_left(tmp_path: Path, mlflow_uri: str) -> None:
    from mlflow import MlflowClient

    tracker = Tracker(mlflow_uri, "e", "later", memory=tmp_path / "run" / "mlflow.json", spool=tmp_path / "spool")
    tracker.close()
    left = Spool(tmp_path / "spool", mlflow_uri, tracker._worker.store)
    left.append({"do": "start", "run": tracker.key, "experiment": "e", "name": "later", "parent": None, "time": 1})
    left.append({"do": "metrics", "run": tracker.key, "values": {"kept": 1.0}, "step": 0, "time": 1})
    left.append({"do": "end", "run": tracker.key, "status": "KILLED", "time": 2})
    assert sync(tmp_path / "spool", mlflow_uri) == 0  # its writer is still there
    left.close()
    again = Tracker(mlflow_uri, "e", "later", memory=tmp_path / "run" / "mlflow.json", spool=tmp_path / "spool")
    again.close()
    assert not pending(tmp_path / "spool")
    client = MlflowClient(tracking_uri=mlflow_uri)
    experiment = client.get_experiment_by_name("e")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.data.metrics, run.info.status) == ({"kept": 1.0}, "FINISHED")


def test_a_damaged_spool_is_told_and_does_not_stop_the_next_run(
    tmp_path: Path, mlflow_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = tmp_path / "spool" / "20260101T000000-1-abcd" / "operations.jsonl"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("not JSON\n{}\n")
    track_something(mlflow_uri, tmp_path)
    assert "line 1 is damaged" in caplog.text
    assert stored(mlflow_uri)["trial"]["status"] == "FINISHED" and damaged.exists()


def test_a_store_that_is_still_dead_leaves_the_spool_as_it_was(tmp_path: Path) -> None:
    track_something(DEAD, tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "spool").rglob("*") if path.is_file()}
    with pytest.raises(UserError, match="stays; try again"):
        sync(tmp_path / "spool", None)
    assert {path: path.read_bytes() for path in (tmp_path / "spool").rglob("*") if path.is_file()} == before


def test_a_database_server_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.store.db import utils
    from sqlalchemy import create_engine
    from sqlalchemy.exc import OperationalError

    asked = []

    def unreachable(uri: str) -> object:
        asked.append(uri)
        return create_engine("sqlite:////nowhere/at/all.db")  # no driver of a server is needed here

    monkeypatch.setattr(utils, "create_sqlalchemy_engine", unreachable)
    monkeypatch.setattr(utils, "MAX_RETRY_COUNT", 2)  # MLflow's own tries
    with pytest.raises(OperationalError):
        Delivery("postgresql://me@127.0.0.1:9/mlflow")
    assert len(asked) == 1


def test_a_password_is_in_no_spool_and_asked_for(tmp_path: Path) -> None:
    track_something("postgresql://me:correct-horse@127.0.0.1:9/mlflow", tmp_path)
    files = [path for path in (tmp_path / "spool").rglob("*") if path.is_file()]
    assert files and not any(b"correct-horse" in path.read_bytes() for path in files)
    with pytest.raises(UserError, match="whole address with --mlflow-uri"):
        sync(tmp_path / "spool", None)


def test_without_room_for_a_spool_the_run_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tracker = Tracker(DEAD, "e", "r", spool=Path("/proc/no-folder"))
    tracker.metrics({"a": 1.0})
    tracker.close()
    assert caplog.text.count("tracking ends here") == 1


def test_what_the_store_refuses_costs_a_warning_and_nothing_else(
    tmp_path: Path, mlflow_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = Tracker(mlflow_uri, "e", "r", spool=tmp_path / "spool")
    tracker.params({"seed": 0})
    tracker.params({"seed": 1})  # a parameter keeps its value
    tracker.artifact(tmp_path / "nothing")
    tracker.metrics({"accuracy": 0.5})
    tracker.close()
    assert "MLflow refuses params" in caplog.text and "nothing is not there" in caplog.text
    assert stored(mlflow_uri)["r"]["accuracy"] == [(0, 0.5)]
    assert not pending(tmp_path / "spool")


def test_what_belongs_to_a_run_that_was_refused_holds_nothing_up(
    tmp_path: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    track_something(DEAD, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Delivery, "_start", _refusing)
        assert sync(tmp_path / "spool", mlflow_uri) == OPERATIONS
    assert not pending(tmp_path / "spool")
    assert "belongs to a run that MLflow refused" in caplog.text


def _refusing(delivery: Delivery, key: str, **values: Any) -> None:
    raise Refused("the experiment is deleted")
