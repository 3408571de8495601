"""No test reads a cache that another one filled, reaches a network, or writes into the working folder."""

import io
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import dspy
import pytest
from hypothesis import settings
from scripts import Run

from coda_dspy.cli import main

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


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """The command line, in this process: exit code, standard output, standard error."""

    def call(*words: str, stdin: str | None = None) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["coda", *words])
        monkeypatch.setattr("os._exit", sys.exit)  # the test goes on
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin or ""))
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield call
    for number, handler in before.items():
        signal.signal(number, handler)


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
