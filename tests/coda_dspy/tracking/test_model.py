"""A profile as an MLflow model: code and JSON, no pickle and no key."""

from pathlib import Path

import pytest

from coda_dspy import AdaptiveCoda
from coda_dspy.algorithms import ASKED_ONCE
from coda_dspy.profile import Profile
from coda_dspy.testing import FakeOpenAIServer, Reply, ServerCall
from coda_dspy.tracking import Tracker

KEY = "sk-sentinel-0123456789"


def answer(call: ServerCall) -> Reply:
    return Reply(f"Answer: {int(call.prompt.split('What is ')[1].split()[0]) + 1}")


def test_mlflow_loads_the_profile_and_answers_with_it(
    tmp_path: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pandas
    from mlflow import MlflowClient, pyfunc

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    program = AdaptiveCoda()
    program.budget.load_state(program.budget.replace(**ASKED_ONCE).dump_state())
    Profile.of(program, "openai/small", decoding={"top_p": 0.9}).save(tmp_path / "qwen.json")
    tracker = Tracker(mlflow_uri, "e", "run", spool=tmp_path / "spool")
    tracker.model(tmp_path / "qwen.json")
    tracker.close()

    client = MlflowClient(tracking_uri=mlflow_uri)
    experiment = client.get_experiment_by_name("e")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    folder = Path(client.download_artifacts(run.info.run_id, "model"))
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {"served.py", "profile.json", "MLmodel"} <= {path.name for path in files}
    assert not [path for path in files if path.suffix == ".pkl"]
    with FakeOpenAIServer(answer) as server:
        monkeypatch.setenv("CODA_API_BASE", server.url)
        model = pyfunc.load_model(str(folder))
        found = model.predict(pandas.DataFrame({"question": ["What is 1 + 1?", "What is 41 + 1?"]}))
        asked = {call.body["top_p"] for call in server.calls}
    assert list(found["answer"]) == ["2", "42"]
    assert list(found["path"]) == ["direct", "direct"] and all(found["tokens"] > 0)
    assert asked == {0.9}
    assert not any(KEY.encode() in path.read_bytes() for path in files)
