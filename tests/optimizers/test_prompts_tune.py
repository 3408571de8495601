"""`tune` with each optimizer: what it keeps, what it records, what it refuses, and how it goes on."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from dspy.lm15 import AuthError
from prompt_scripts import (
    QUESTIONS,
    WORD,
    is_sometimes_right,
    knows_the_word,
    needs_a_demonstration,
    needs_the_word,
    number_in,
    seeded,
)
from scripts import engine

from coda_dspy import Budget, Profile
from coda_dspy.cli.tune import tune as command
from coda_dspy.errors import UserError
from coda_dspy.evaluation import Result
from coda_dspy.optimizers import OPTIMIZERS, Space, TunePlan, tune
from coda_dspy.testing import FakeOpenAIServer, Reply, ScriptedCall, ServerCall

pytest.importorskip("optuna")

PLAN = TunePlan(
    train=8,
    validation=8,
    test=12,
    space=Space({"num_attempts_baseline": (1,)}),
    budget=Budget.preset("quick"),
    roles=("direct",),
)
SKILLS = {
    "bootstrap": needs_a_demonstration,
    "bootstrap-random-search": needs_a_demonstration,
    "mipro": needs_the_word,
    "simba": is_sometimes_right,
    "gepa": needs_the_word,
}


class Noting:
    """A watcher that writes down what it is told."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, int]] = []
        self.results: dict[str, list[Result]] = {}

    def phase(self, name: str, questions: int) -> None:
        self.phases.append((name, questions))

    def result(self, result: Result) -> None:
        self.results.setdefault(self.phases[-1][0], []).append(result)

    def best(self, text: str) -> None: ...


def tuned(name: str, folder: Path, script: Any = None, plan: TunePlan = PLAN, every: int = 1, **more: Any) -> Any:
    _, lm = seeded(script or SKILLS[name])
    teacher = engine(knows_the_word(every))[1] if OPTIMIZERS[name].reflects else None
    return tune(lm, QUESTIONS, replace(plan, optimizer=name), folder, teacher=teacher, **more)


@pytest.mark.parametrize("name", SKILLS)
def test_what_helps_is_kept_and_the_optimizer_that_ran_is_recorded(name: str, tmp_path: Path) -> None:
    report = tuned(name, tmp_path / "run")
    scores = report.profile.scores
    assert scores["optimizer"] == name
    record = scores["prompts"]["direct"]
    assert record["optimizer"] == name and record["kept"] and record["gain"]["value"] > 0
    assert (record["teacher"] is not None) == OPTIMIZERS[name].reflects
    assert all(record["asked"][part] <= record["planned"][part] for part in ("questions", "calls", "tokens"))
    assert scores["test"]["tuned"]["value"] == 1.0 > scores["test"]["plain"]["value"]
    prompt = report.profile.prompts["coda.executor.direct"]
    assert prompt.demos or WORD in prompt.instructions
    report.profile.save(tmp_path / "p.json")
    assert Profile.read(tmp_path / "p.json") == report.profile


def test_none_leaves_the_prompts_as_they_are_written(tmp_path: Path) -> None:
    watcher = Noting()
    report = tuned("none", tmp_path / "run", needs_a_demonstration, watcher=watcher)
    assert report.profile.scores["optimizer"] == "none"
    assert report.profile.scores["prompts"] == {}
    assert not any("training" in name or "none" in name for name, _ in watcher.phases)


def test_prompts_that_do_not_help_on_the_validation_questions_are_left_out(tmp_path: Path) -> None:
    report = tuned("simba", tmp_path / "run", lambda call: f"Answer: {number_in(call) + 1}")
    assert report.profile.scores["prompts"]["direct"]["kept"] is False
    assert report.profile.prompts["coda.executor.direct"].demos == []


def test_the_plan_is_told_before_the_first_question_and_every_question_is_told(tmp_path: Path) -> None:
    watcher = Noting()
    report = tuned("gepa", tmp_path / "run", watcher=watcher)
    (phase,) = [phase for phase in watcher.phases if "gepa" in phase[0]]
    planned = report.profile.scores["prompts"]["direct"]["planned"]
    words = f"at most {planned['questions']:,} questions, {planned['calls']:,} calls, {planned['tokens']:,} tokens"
    assert phase == (f"direct, gepa ({words})", planned["questions"])
    assert len(watcher.results[phase[0]]) == report.profile.scores["prompts"]["direct"]["asked"]["questions"]


def test_an_optimizer_that_breaks_is_a_note_and_the_tune_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of ideas")

    monkeypatch.setattr("coda_dspy.optimizers.prompts.gepa._Turns.__call__", fail)
    report = tuned("gepa", tmp_path / "run")
    assert any(
        "direct: gepa failed: RuntimeError: out of ideas; the prompts stay as written" in n for n in report.notes
    )
    assert report.profile.prompts["coda.executor.direct"].instructions == "Solve the problem step by step, briefly."


def test_a_teacher_that_cannot_be_used_is_a_note_too(tmp_path: Path) -> None:
    _, lm = seeded(needs_the_word)
    _, teacher = engine(lambda call: AuthError("no such key"))
    report = tune(lm, QUESTIONS, replace(PLAN, optimizer="mipro"), tmp_path / "run", teacher=teacher)
    assert any("the teacher gave no reply" in note and "no such key" in note for note in report.notes)


def test_an_engine_that_reflects_on_itself_is_noted(tmp_path: Path) -> None:
    def script(call: ScriptedCall) -> str:
        return needs_the_word(call) if call.stage in ("direct", "code") else knows_the_word(1)(call)

    _, lm = seeded(script)
    report = tune(lm, QUESTIONS, replace(PLAN, optimizer="gepa"), tmp_path / "run")
    assert any("proposes its own instructions" in note for note in report.notes)
    assert not any("proposes its own" in note for note in tuned("gepa", tmp_path / "other").notes)


def test_what_cannot_work_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    made, lm = seeded(needs_the_word)
    _, teacher = engine(knows_the_word(1))
    for plan, given, message in [
        (replace(PLAN, optimizer="gepa", prompt_questions=20), None, "gepa cannot try 3 proposals with 20 questions"),
        (replace(PLAN, optimizer="best"), None, "optimizer 'best' does not exist"),
        (PLAN, teacher, "a teacher proposes instructions, which bootstrap does not use"),
    ]:
        with pytest.raises(UserError, match=message):
            tune(lm, QUESTIONS, plan, tmp_path / "run", teacher=given)
    assert not made.calls
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize("name", SKILLS)
def test_the_same_command_again_runs_no_optimizer_and_gives_the_same_profile(name: str, tmp_path: Path) -> None:
    made, lm = seeded(SKILLS[name])
    taught, teacher = engine(knows_the_word(1))
    how = {"teacher": teacher} if OPTIMIZERS[name].reflects else {}
    plan = replace(PLAN, optimizer=name, minutes=60)
    first = tune(lm, QUESTIONS, plan, tmp_path / "run", **how)
    calls = len(made.calls), len(taught.calls)
    (tmp_path / "run" / "clock.json").write_text('{"seconds": 999999}')
    watcher = Noting()
    second = tune(lm, QUESTIONS, plan, tmp_path / "run", watcher=watcher, **how)
    assert (len(made.calls), len(taught.calls)) == calls
    assert second.profile == first.profile
    assert not any(name in phase for phase in watcher.results)


def test_a_tune_that_broke_within_its_optimizer_pays_for_no_call_twice(tmp_path: Path) -> None:
    whole, lm = seeded(needs_the_word)
    _, teacher = engine(knows_the_word(1))
    plan = replace(PLAN, optimizer="gepa")
    expected = tune(lm, QUESTIONS, plan, tmp_path / "whole", teacher=teacher, workers=2)

    class Killed(BaseException):
        pass

    class Breaking(Noting):
        def result(self, result: Result) -> None:
            super().result(result)
            if len(self.results.get(self.phases[-1][0], ())) == 20 and "gepa" in self.phases[-1][0]:
                raise Killed

    made, broken = seeded(needs_the_word)
    with pytest.raises(Killed):
        tune(broken, QUESTIONS, plan, tmp_path / "run", teacher=teacher, workers=2, watcher=Breaking())
    report = tune(broken, QUESTIONS, plan, tmp_path / "run", teacher=teacher, workers=2)
    assert report.profile.scores == expected.profile.scores
    assert report.profile.prompts == expected.profile.prompts
    assert len(made.calls) <= len(whole.calls) + 2  # calls in flight when it broke


def test_a_time_limit_ends_the_optimizer_and_the_tune_goes_on(tmp_path: Path) -> None:
    report = tuned("gepa", tmp_path / "run", plan=replace(PLAN, minutes=1e-9))
    assert any("direct: the time limit left no time to compile the prompts" in note for note in report.notes)
    assert report.profile.scores["test"]["plain"]["n"] == 4


def test_the_optimizer_is_recorded_in_mlflow(tmp_path: Path, mlflow_uri: str) -> None:
    from mlflow import MlflowClient

    from coda_dspy.tracking import Tracker

    tracker = Tracker(mlflow_uri, "coda-tune", "tune")
    tuned("gepa", tmp_path / "run", tracker=tracker)
    tracker.close()
    client = MlflowClient(tracking_uri=mlflow_uri)
    experiment = client.get_experiment_by_name("coda-tune")
    assert experiment is not None
    runs = {run.info.run_name: run.data for run in client.search_runs([experiment.experiment_id])}
    assert runs["tune"].params["plan.optimizer"] == "gepa"
    child = runs["prompts direct"]
    assert child.params["optimizer"] == "gepa" and child.params["teacher"].startswith("scripted/")
    assert child.metrics["asked_questions"] <= child.metrics["planned_questions"]


def test_the_command_knows_every_optimizer() -> None:
    (option,) = [p for p in command.params if p.name == "optimizer"]
    assert isinstance(option.type, click.Choice)
    assert list(option.type.choices) == list(OPTIMIZERS)


def test_the_command_with_a_teacher_on_another_server(tmp_path: Path, mlflow_uri: str) -> None:
    write_sums(tmp_path)

    def answer(call: ServerCall) -> Reply:
        number = int(call.prompt.split("What is ")[-1].split()[0])
        return Reply(f"Answer: {number + 1 if WORD in call.prompt else 777}")

    with FakeOpenAIServer(answer) as server, FakeOpenAIServer(lambda call: Reply(f"Work {WORD}.")) as teaching:
        words = [*COMMAND, "--engine", "openai/small", "--api-base", server.url, "--mlflow-uri", mlflow_uri, "--quick"]
        words += ["--optimizer", "gepa", "--teacher", "openai/large", "--teacher-api-base", teaching.url]
        done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "direct, gepa (at most " in done.stderr
    assert not re.search(r"INFO|WARNING|%\|", done.stderr)  # no log and no bar of DSPy's
    assert teaching.count >= 1
    assert WORD in Profile.read("profiles/small-sums.jsonl.json").prompts["coda.executor.direct"].instructions


def test_the_command_refuses_a_small_budget_before_it_fetches_an_engine(tmp_path: Path) -> None:
    write_sums(tmp_path)
    words = [*COMMAND, "--engine", "local/nothing", "--optimizer", "simba", "--prompt-questions", "5"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2
    assert "simba cannot try 3 proposals with 5 questions; give it at least" in done.stderr


SIZES = ["--train", "8", "--validation", "8", "--test", "8"]
COMMAND = [sys.executable, "-m", "coda_dspy", "tune", "--data", "sums.jsonl", *SIZES]


def write_sums(folder: Path) -> None:
    rows = [{"id": q.id, "question": q.question, "answer": q.answer, "kind": "math"} for q in QUESTIONS]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
