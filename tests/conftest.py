"""No test reads a cache that another one filled, reaches a network, or writes into the working folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import dspy
import pytest
from hypothesis import settings

# Before any console is made: lines of output are not broken where a test looks for them.
os.environ["COLUMNS"] = "160"

# A loaded machine must not fail a property: what has to be fast is measured in benchmarks.
settings.register_profile("coda", deadline=None)
settings.load_profile("coda")


@pytest.fixture(autouse=True)
def own_cache_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = dspy.cache
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=True)
    monkeypatch.chdir(tmp_path)
    yield
    dspy.cache = before


@pytest.fixture(scope="session")
def mlflow_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty MLflow database; making one takes long, so all processes of a test run copy the same."""
    from filelock import FileLock

    pytest.importorskip("mlflow")
    shared = tmp_path_factory.getbasetemp().parent / "mlflow-template.db"
    with FileLock(f"{shared}.lock"):
        if not shared.exists():
            from mlflow import MlflowClient

            fresh = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
            MlflowClient(tracking_uri=f"sqlite:///{fresh}").search_experiments()
            fresh.rename(shared)
    return shared


@pytest.fixture
def mlflow_uri(mlflow_template: Path, tmp_path: Path) -> str:
    """The address of an MLflow store of the test's own."""
    import shutil

    # Not mlflow.db: that is MLflow's own default, which nothing may use unasked.
    shutil.copy(mlflow_template, tmp_path / "tracking.db")
    return f"sqlite:///{tmp_path / 'tracking.db'}"
