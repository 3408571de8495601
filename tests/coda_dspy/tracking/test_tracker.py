from pathlib import Path

import pytest
from scripts import engine

from coda_dspy.data import Question
from coda_dspy.optimizers import Space, TunePlan, tune
from coda_dspy.tracking import Tracker

KEY = "sk-sentinel-0123456789"


def test_a_tune_is_one_parent_run_with_one_child_a_trial(
    tmp_path: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("FAKE_API_KEY", KEY)
    questions = [Question(f"q{i}", f"What is {i} + 1?", str(i + 1)) for i in range(20)]
    _, lm = engine(lambda call: f"Answer: {int(call.prompt.split()[2]) + 1}")
    tracker = Tracker(mlflow_uri, "coda-tune", f"tune with {KEY}")
    tracker.params({"careless": f"the key is {KEY}"})
    plan = TunePlan(
        train=3,
        validation=5,
        test=6,
        space=Space({"num_attempts_baseline": (1, 3), "num_attempts_coda": (0, 1), "n_plans": (1,)}),
        roles=("direct",),
    )
    tune(lm, questions, plan, tmp_path / "run", tracker=tracker)
    tracker.close()

    client = MlflowClient(tracking_uri=mlflow_uri)
    experiment = client.get_experiment_by_name("coda-tune")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert len(parents) == 1
    names = {run.info.run_name for run in children}
    assert {
        "budget 1 baseline1",
        "budget 1 baseline3-coda0",
        "budget 1 baseline3-coda1-plans1",
        "budget 1 baseline3-coda1-plans2-best3-coding3-refine2",
        "at once",
        "prompts direct",
        "paths",
    } == names
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parents[0].info.run_id}
    assert all(run.info.status == "FINISHED" for run in runs)
    trial = next(run for run in children if run.info.run_name == "budget 1 baseline1")
    assert trial.data.metrics["accuracy"] == 1.0
    assert trial.data.metrics["tokens"] > 0
    assert trial.data.metrics["cut_rate.direct"] == 0.0
    assert parents[0].data.metrics["test.plain.accuracy"] == 1.0
    artifacts = {item.path for item in client.list_artifacts(parents[0].info.run_id)}
    assert {"profile.json", "test-plain.json", "test-tuned.json", "model"} <= artifacts
    registered = {prompt.name for prompt in client.search_prompts()}
    assert any(name.endswith(".coda.executor.direct") for name in registered)
    assert parents[0].data.params["careless"] == "the key is ***"
    stored = (tmp_path / "tracking.db").read_bytes()
    assert b"the key is ***" in stored
    assert KEY.encode() not in stored


def test_a_prompt_gets_a_new_version_only_where_its_text_is_new(tmp_path: Path, mlflow_uri: str) -> None:
    from mlflow import MlflowClient

    tracker = Tracker(mlflow_uri, "e", "r", spool=tmp_path / "spool")
    for text in ("Plan {{ it }}.", "Plan {{ it }}.", "Plan $\\frac{1}{2}$."):
        tracker.prompt("small.plan", text)
    tracker.close()
    client = MlflowClient(tracking_uri=mlflow_uri)
    versions = client.search_prompt_versions("small.plan")
    assert sorted(version.version for version in versions) == [1, 2]
    assert client.load_prompt("prompts:/small.plan@latest").template == "Plan $\\frac{1}{2}$."


def test_a_run_that_is_gone_on_with_is_the_same_run_with_the_same_children(tmp_path: Path, mlflow_uri: str) -> None:
    from mlflow import MlflowClient

    for step in range(2):
        tracker = Tracker(mlflow_uri, "e", "r", tmp_path / "run" / "mlflow.json", spool=tmp_path / "spool")
        tracker.child("trial").metrics({"accuracy": 0.5}, step)
        tracker.close("FINISHED" if step else "KILLED")
    client = MlflowClient(tracking_uri=mlflow_uri)
    experiment = client.get_experiment_by_name("e")
    assert experiment is not None
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == {"r", "trial"} and runs["r"].info.status == "FINISHED"
    assert len(client.get_metric_history(runs["trial"].info.run_id, "accuracy")) == 2


def test_a_store_that_is_not_there_costs_a_warning_and_not_the_run(caplog: pytest.LogCaptureFixture) -> None:
    tracker = Tracker("sqlite:////proc/no-folder/mlflow.db", "e", "r")
    child = tracker.child("c")
    tracker.metrics({"a": 1.0})
    child.end()
    tracker.close()
    assert caplog.text.count("the run goes on") == 1
