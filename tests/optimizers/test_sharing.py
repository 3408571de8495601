"""One tune, several processes: they meet in a database."""

import threading
import time
from dataclasses import replace
from pathlib import Path

import dspy
import pytest
from scripts import engine

from coda_dspy import connect
from coda_dspy.data import Question
from coda_dspy.errors import UserError
from coda_dspy.optimizers import Space, TunePlan, tune, work
from coda_dspy.testing import ScriptedCall, ScriptedEngine

pytest.importorskip("optuna")

QUESTIONS = [Question(f"q{i}", f"What is {i} + 1?", str(i + 1)) for i in range(40)]
PLAN = TunePlan(
    train=4,
    validation=8,
    test=8,
    space=Space({"num_attempts_baseline": (1, 3), "num_attempts_coda": (0, 1), "n_plans": (1, 2)}),
    optimizer="none",
    finalists=1,
)


def adds(call: ScriptedCall) -> str:
    return f"Answer: {int(call.prompt.split('What is ')[-1].split()[0]) + 1}"


def shared() -> dspy.LM:
    """An engine of one name: leader and workers have to mean the same one."""
    return connect(ScriptedEngine(adds, "scripted/shared"), num_retries=0)


def slowly_adds(call: ScriptedCall) -> str:
    time.sleep(0.1)
    return adds(call)


def test_a_worker_measures_what_the_leader_does_not_and_both_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coda_dspy.optimizers.sharing.MOMENT", 0.02)
    url = f"sqlite:///{tmp_path}/study.db"
    alone = tune(engine(adds)[1], QUESTIONS, PLAN, tmp_path / "alone")
    done: list[int] = []
    lm = shared()
    worker = threading.Thread(
        target=lambda: done.append(work(lm, QUESTIONS, PLAN, tmp_path / "worker", url)), daemon=True
    )
    worker.start()
    leading = connect(ScriptedEngine(slowly_adds, "scripted/shared"), num_retries=0)
    report = tune(leading, QUESTIONS, PLAN, tmp_path / "run", storage=url)
    worker.join(60)
    assert not worker.is_alive()
    assert sorted(map(str, (t.point for t in report.trials))) == sorted(map(str, (t.point for t in alone.trials)))
    assert report.profile.scores["chosen"] == alone.profile.scores["chosen"]
    assert done[0] >= 1
    assert done[0] + len(list((tmp_path / "run" / "pools").iterdir())) == len(report.trials)


def test_a_worker_of_another_tune_waits_for_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coda_dspy.optimizers.sharing._PATIENCE", 0.1)
    url = f"sqlite:///{tmp_path}/study.db"
    lm = shared()
    tune(lm, QUESTIONS, PLAN, tmp_path / "run", storage=url)
    with pytest.raises(UserError, match="the same command without --worker"):
        work(lm, QUESTIONS, replace(PLAN, seed=1), tmp_path / "worker", url)


def test_a_worker_that_comes_too_late_has_nothing_to_do(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    lm = shared()
    tune(lm, QUESTIONS, PLAN, tmp_path / "run", storage=url)
    assert work(lm, QUESTIONS, PLAN, tmp_path / "worker", url) == 0
