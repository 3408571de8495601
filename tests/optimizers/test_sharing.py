"""One tune, several processes: they meet in a database."""

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import dspy
import pytest
from scripts import engine

from coda_dspy import AdaptiveCoda, connect
from coda_dspy.data import Question
from coda_dspy.errors import UserError
from coda_dspy.learned import Learned
from coda_dspy.optimizers import Space, TunePlan, tune, work
from coda_dspy.optimizers.budgets import Trial
from coda_dspy.optimizers.sharing import Meeting
from coda_dspy.optimizers.workbench import Silent
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


def test_a_worker_measures_what_the_leader_does_not_and_both_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coda_dspy.optimizers.sharing.MOMENT", 0.02)
    url = f"sqlite:///{tmp_path}/study.db"
    alone = tune(engine(adds)[1], QUESTIONS, PLAN, tmp_path / "alone")
    done: list[int] = []
    heard = threading.Event()

    def told(call: ScriptedCall) -> str:
        heard.set()
        return adds(call)

    def waits(call: ScriptedCall) -> str:
        if call.stage == "plan":  # not before its third budget
            heard.wait(60)
        return adds(call)

    lm = connect(ScriptedEngine(told, "scripted/shared"), num_retries=0)
    worker = threading.Thread(
        target=lambda: done.append(work(lm, QUESTIONS, PLAN, tmp_path / "worker", url)), daemon=True
    )
    worker.start()
    leading = connect(ScriptedEngine(waits, "scripted/shared"), num_retries=0)
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


def test_a_worker_finds_no_work_in_a_tune_that_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    lm = shared()
    tune(lm, QUESTIONS, PLAN, tmp_path / "run", storage=url)
    monkeypatch.setattr("coda_dspy.optimizers.sharing._PATIENCE", 0.1)
    with pytest.raises(UserError, match="no round to measure"):
        work(lm, QUESTIONS, PLAN, tmp_path / "worker", url)


def test_the_same_tune_in_a_new_folder_takes_no_trials_of_the_old_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    first = tune(shared(), QUESTIONS, PLAN, tmp_path / "first", storage=url)
    second = tune(shared(), QUESTIONS, PLAN, tmp_path / "second", storage=url)
    assert second.trials == first.trials
    for folder in ("first", "second"):
        assert len(list((tmp_path / folder / "pools").iterdir())) == len(first.trials)


def test_a_tune_goes_on_in_its_folder_and_measures_nothing_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    first = tune(shared(), QUESTIONS, PLAN, tmp_path / "run", storage=url)
    shutil.rmtree(tmp_path / "run" / "pools")
    again = tune(shared(), QUESTIONS, PLAN, tmp_path / "run", storage=url)
    assert not (tmp_path / "run" / "pools").exists()
    assert again.profile.learned == first.profile.learned != Learned.parse({})  # whoever keeps the pools


class Listening(Silent):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def phase(self, name: str, questions: int) -> None:
        self.said.append(name)


def test_a_worker_that_waits_says_for_what_and_what_is_there_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coda_dspy.optimizers.sharing._PATIENCE", 0.1)
    url = f"sqlite:///{tmp_path}/study.db"
    watcher = Listening()
    with pytest.raises(UserError):
        work(shared(), QUESTIONS, PLAN, tmp_path / "worker", url, watcher=watcher)
    assert watcher.said == ["waiting for the tune of scripted/shared on math to begin"]
    (tmp_path / "worker" / "run.json").rename(tmp_path / "described.json")
    described = json.loads((tmp_path / "described.json").read_text())
    Meeting(url, {**described, "adapter": "sections", "plan": {**described["plan"], "seed": 7}}, "other").begin()
    with pytest.raises(UserError):
        work(shared(), QUESTIONS, PLAN, tmp_path / "worker", url, watcher=watcher)
    assert watcher.said[-1].endswith("the tune that has begun in this database has another adapter, plan.seed")


DESCRIBED = {"engine": "x", "data": {"name": "math"}, "plan": {"seed": 0}}


def test_the_tune_that_was_begun_last_comes_first_also_where_it_was_begun_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    program = AdaptiveCoda()
    for token in ("a", "b"):
        Meeting(url, DESCRIBED, token).open(1, program, 8, paper=True)
    assert [leader.token for leader in Meeting(url, DESCRIBED).leaders()] == ["b", "a"]
    again = Meeting(url, DESCRIBED, "a")
    again.begin()
    assert [(leader.token, leader.round) for leader in again.leaders()] == [("a", 0), ("b", 1)]
    again.close()
    assert [leader.done for leader in again.leaders()] == [True, False]


def test_a_round_with_other_prompts_has_other_trials(tmp_path: Path) -> None:
    meeting = Meeting(f"sqlite:///{tmp_path}/study.db", DESCRIBED, "a")
    program, other = AdaptiveCoda(), AdaptiveCoda()
    direct = other.coda.executor.direct
    direct.signature = direct.signature.with_instructions("Be brief.")
    asked = meeting.round(1, program).take({"num_attempts_baseline": 1}, PLAN.space)
    assert asked is not None
    asked.tell(Trial({"num_attempts_baseline": 1}, (True,), (1.0,)))
    assert len(meeting.round(1, program).ended()) == 1
    assert meeting.round(1, other).ended() == []
    assert meeting.round(2, program).ended() == []
