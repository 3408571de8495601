"""What a tune is worth, on an engine whose skills are known."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from scripts import engine

from coda_dspy import Budget, connect
from coda_dspy.data import Question
from coda_dspy.data import load as read_data
from coda_dspy.errors import UserError
from coda_dspy.evaluation import Stop
from coda_dspy.experiments.running import Setup
from coda_dspy.experiments.tuned import FinishedTune, run
from coda_dspy.optimizers import Space, TunePlan, tune
from coda_dspy.testing import FakeOpenAIServer, Reply, ScriptedCall, ScriptedEngine, ServerCall

QUESTIONS = [Question(f"q{i}", f"What is {i} + 1?", str(i + 1)) for i in range(60)]
PLAN = TunePlan(
    train=4,
    validation=8,
    test=16,
    space=Space({"num_attempts_baseline": (1, 3), "num_attempts_coda": (0, 1), "n_plans": (1,)}),
    budget=Budget.preset("quick"),
    optimizer="none",
)


def needs_plans(call: ScriptedCall) -> str:
    """Direct answers differ each time, and only the second is right; with a plan the engine is right."""
    number = int(call.prompt.split()[2])
    if call.stage == "direct" and call.sample.attempt != 1:
        return f"Answer: {1000 * (call.sample.attempt + 1) + number}"
    return "1. Add one. (high)" if call.stage == "plan" else f"Answer: {number + 1}"


def always_right(call: ScriptedCall) -> str:
    return f"Answer: {int(call.prompt.split()[2]) + 1}"


def adds(call: ServerCall) -> Reply:
    return Reply(f"Answer: {int(call.prompt.rpartition('What is ')[2].split()[0]) + 1}")


def tuned(script: object, folder: Path) -> tuple[ScriptedEngine, Setup]:
    made, lm = engine(script)  # type: ignore[arg-type]
    tune(lm, QUESTIONS, PLAN, folder / "tune")
    return made, Setup(lm, folder / "compared")


def test_the_tuned_program_stands_beside_a_vote_that_costs_at_least_as_much(tmp_path: Path) -> None:
    made, setup = tuned(needs_plans, tmp_path)
    calls = len(made.calls)
    finished = FinishedTune.read(tmp_path / "tune", QUESTIONS, setup.lm)
    alone, found, paper, vote = run(finished, setup)
    assert [row.name for row in (alone, found, paper)] == ["engine alone", "tuned", "paper settings"]
    assert vote.name.startswith("self-consistency of ") and int(vote.name.split()[-1]) % 2 == 1
    for row in (alone, found, paper, vote):
        assert {result.id for result in row.results} == {question.id for question in finished.test}
    assert all(result.correct for result in found.results)
    assert not any(result.correct for result in (*alone.results, *vote.results))
    # What the tune has measured on these questions costs nothing again.
    assert sum(result.billed_calls for row in (alone, found) for result in row.results) == 0
    assert sum(r.known_tokens for r in vote.results) >= sum(r.known_tokens for r in found.results)
    assert len(made.calls) > calls

    calls = len(made.calls)
    assert run(finished, setup) == [alone, found, paper, vote]
    assert run(finished, setup, paper=False) == [alone, found, vote]
    assert len(made.calls) == calls


def test_the_command_writes_the_table(tmp_path: Path, mlflow_uri: str) -> None:
    pytest.importorskip("matplotlib")
    rows = [{"id": q.id, "question": q.question, "answer": q.answer, "kind": "math"} for q in QUESTIONS]
    data = tmp_path / "sums.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with FakeOpenAIServer(adds) as server:
        tune(connect("openai/fake", server.url), read_data(str(data)), PLAN, tmp_path / "tune")
        words = ["tuned", "tune", "--engine", "openai/fake", "--api-base", server.url, "--data", "sums.jsonl"]
        words += ["--limit", "4"]
        command = [sys.executable, "-m", "coda_dspy.experiments", *words, "--mlflow-uri", mlflow_uri]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "self-consistency of 1" in done.stdout and "(n = 4)" in done.stdout
    assert "paper settings" in (tmp_path / "tune" / "compared" / "tuned.md").read_text()


def test_where_the_engine_alone_was_chosen_no_vote_is_as_cheap(tmp_path: Path) -> None:
    _, setup = tuned(always_right, tmp_path)
    alone, found, _, vote = run(FinishedTune.read(tmp_path / "tune", QUESTIONS, setup.lm), setup)
    assert all(result.calls == 1 for result in found.results)
    assert (vote.name, vote.results) == ("self-consistency of 1", alone.results)


def test_a_stop_before_the_first_question_leaves_empty_rows(tmp_path: Path) -> None:
    _, setup = tuned(always_right, tmp_path)
    rows = run(FinishedTune.read(tmp_path / "tune", QUESTIONS, setup.lm), replace(setup, stop=Stop(minutes=0.0)))
    assert all(not row.results for row in rows)


def test_only_a_tune_of_these_questions_and_this_engine_that_ended_is_compared(tmp_path: Path) -> None:
    _, setup = tuned(always_right, tmp_path)
    with pytest.raises(UserError, match="no tune has ended"):
        FinishedTune.read(tmp_path, QUESTIONS, setup.lm)
    with pytest.raises(UserError, match="was about other questions"):
        FinishedTune.read(tmp_path / "tune", QUESTIONS[1:], setup.lm)
    other = setup.lm.copy(model="scripted/another")
    with pytest.raises(UserError, match="not of"):
        FinishedTune.read(tmp_path / "tune", QUESTIONS, other)
