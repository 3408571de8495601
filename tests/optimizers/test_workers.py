"""A leader and three worker processes on a PostgreSQL of their own, and one of them is killed."""

import multiprocessing
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

from coda_dspy import connect
from coda_dspy.data import Question
from coda_dspy.optimizers import Space, TunePlan, TuneReport, tune, work
from coda_dspy.optimizers.budgets import point_name
from coda_dspy.testing import FakeOpenAIServer

pytest.importorskip("optuna")
pytest.importorskip("psycopg", reason="the extra 'workers' is not installed")

QUESTIONS = [Question(f"q{i}", f"What is {i} + 1?", str(i + 1)) for i in range(24)]
PLAN = TunePlan(
    train=4,
    validation=8,
    test=4,
    space=Space({"num_attempts_baseline": (1, 2, 3, 5), "num_attempts_coda": (0, 1), "n_plans": (1, 2)}),
    optimizer="none",
    finalists=1,
)
BEAT = 3  # seconds: nobody should wait two minutes for the dead


def adds(call: Any) -> str:
    time.sleep(0.05)
    found = re.search(r"What is (\d+) \+ 1", call.prompt)
    return f"Answer: {int(found[1]) + 1}" if found else "1. Add one. (high)"


def engine(address: str) -> dspy.LM:
    return connect("openai/fake", address, api_key="none")


def _take_part(address: str, storage: str, folder: str) -> None:
    from coda_dspy.optimizers.budgets import study

    study._BEAT = BEAT
    work(engine(address), QUESTIONS, PLAN, Path(folder), storage, workers=2)


@pytest.fixture
def storage() -> Iterator[str]:
    """The address of a new PostgreSQL, which answers on a socket in its own folder."""
    initdb, postgres = shutil.which("initdb"), shutil.which("postgres")
    if initdb is None or postgres is None:
        pytest.skip("PostgreSQL's initdb and postgres are not in PATH")
    folder = Path(tempfile.mkdtemp(prefix="coda-pg-"))
    as_user: dict[str, Any] = {"cwd": folder}
    if os.geteuid() == 0:  # it refuses to run as root
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        as_user |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    data, quiet = str(folder / "data"), {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([initdb, "-D", data, "-A", "trust", "-U", "coda", "--no-sync"], check=True, **quiet, **as_user)
    command = [postgres, "-D", data, "-k", str(folder), "-c", "listen_addresses=", "-F"]
    with subprocess.Popen(command, **quiet, **as_user) as server:
        try:
            wait_until(lambda: (folder / ".s.PGSQL.5432").exists())
            yield f"postgresql://coda@/postgres?host={folder}"
        finally:
            server.send_signal(signal.SIGINT)  # at once: connections of this process are still open
    shutil.rmtree(folder)


@pytest.mark.timeout(600)  # three processes that load DSPy, and a database
def test_three_workers_share_a_tune_and_one_is_killed(
    tmp_path: Path, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coda_dspy.optimizers.budgets.study._BEAT", BEAT)
    context = multiprocessing.get_context("spawn")
    folders = [tmp_path / f"worker-{number}" for number in range(3)]
    with FakeOpenAIServer(adds) as server:
        alone = tune(engine(server.url), QUESTIONS, PLAN, tmp_path / "alone", workers=2)
        workers = [context.Process(target=_take_part, args=(server.url, storage, str(f)), daemon=True) for f in folders]
        for worker in workers:
            worker.start()
        wait_until(lambda: all((folder / "run.json").exists() for folder in folders))
        reports: list[TuneReport] = []
        leader = threading.Thread(
            target=lambda: reports.append(
                tune(engine(server.url), QUESTIONS, PLAN, tmp_path / "run", workers=2, storage=storage)
            ),
            daemon=True,
        )
        leader.start()
        wait_until(lambda: bool(measured_in(folders[0])))
        workers[0].kill()
        leader.join(300)
        for worker in workers:
            worker.join(120)
    (report,) = reports
    assert [worker.exitcode for worker in workers] == [-9, 0, 0]
    assert sorted(point_name(t.point) for t in report.trials) == sorted(point_name(t.point) for t in alone.trials)
    assert report.profile.scores["chosen"] == alone.profile.scores["chosen"]
    assert not any("unmeasured" in note for note in report.notes)
    by_the_living = Counter(name for folder in (tmp_path / "run", *folders[1:]) for name in measured_in(folder))
    assert set(by_the_living.values()) == {1}
    assert set(by_the_living) | set(measured_in(folders[0])) == set(measured_in(tmp_path / "alone"))


def measured_in(folder: Path) -> list[str]:
    """Budgets that a process has begun to measure."""
    return [path.name for path in (folder / "results").glob("budget-*")]


def wait_until(reached: Callable[[], bool], seconds: float = 240.0) -> None:
    ends = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < ends
        time.sleep(0.02)
