"""`coda track` and `--trace-sample`: an evaluation whose store is dead, and what arrives later."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import Run, stored_table

from coda_dspy.testing import FakeOpenAIServer, Reply, ServerCall

pytest.importorskip("mlflow")

DEAD = "http://127.0.0.1:9"  # nothing listens there


def answer(call: ServerCall) -> Reply:
    return Reply(f"Answer: {int(call.prompt.split()[2]) + 1}")


@pytest.fixture
def command(tmp_path: Path) -> Iterator[list[str]]:
    rows = [{"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1), "kind": "math"} for i in range(3)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with FakeOpenAIServer(answer) as server:
        where = ["--engine", "openai/fake", "--api-base", server.url, "--algorithm", "direct"]
        yield ["evaluate", "--data", "sums.jsonl", "--output", "run", *where]


def test_an_evaluation_whose_store_is_dead_ends_well_and_arrives_later(
    run: Run, command: list[str], mlflow_uri: str
) -> None:
    from mlflow import MlflowClient

    code, out, _ = run(*command, "--mlflow-uri", DEAD, "--trace-sample", "1")
    assert code == 0 and "accuracy" in out
    code, out, _ = run("track")
    assert code == 0 and "mlflow-spool" in out
    code, _, err = run("track", "--sync")
    assert code == 2 and "stays; try again" in err
    code, out, _ = run("track", "--sync", "--mlflow-uri", mlflow_uri)
    assert code == 0 and "operations" in out
    code, out, _ = run("track", "--sync", "--mlflow-uri", mlflow_uri)
    assert code == 0 and "nothing to deliver" in out

    client = MlflowClient(tracking_uri=mlflow_uri)
    experiment = client.get_experiment_by_name("coda-evaluate")
    assert experiment is not None
    (found,) = client.search_runs([experiment.experiment_id])
    assert (found.info.status, found.data.metrics["accuracy"]) == ("FINISHED", 1.0)
    assert len(stored_table(client, found.info.run_id, "questions.json")) == 3
    traces = client.search_traces(locations=[experiment.experiment_id])
    assert sorted(trace.info.tags["mlflow.traceName"] for trace in traces) == ["q0", "q1", "q2"]


def test_nothing_is_traced_unless_it_is_asked_for(run: Run, command: list[str], mlflow_uri: str) -> None:
    from mlflow import MlflowClient

    assert run(*command, "--mlflow-uri", mlflow_uri)[0] == 0
    client = MlflowClient(tracking_uri=mlflow_uri)
    experiment = client.get_experiment_by_name("coda-evaluate")
    assert experiment is not None
    assert client.search_traces(locations=[experiment.experiment_id]) == []


def test_a_share_above_1_and_a_spool_that_is_not_there_are_refused(run: Run, command: list[str]) -> None:
    assert run(*command, "--trace-sample", "2")[0] == 2
    code, _, err = run("track", "--sync", "--spool", "nowhere")
    assert (code, "nowhere is not there" in err) == (2, True)
