"""Direct answers with working or at once: whichever the engine does better."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from scripts import engine

from coda_dspy import Budget
from coda_dspy.data import Question
from coda_dspy.optimizers import Space, TunePlan, tune
from coda_dspy.signatures import Solve, SolveAtOnce
from coda_dspy.testing import Reply, ScriptedCall

pytest.importorskip("optuna")

QUESTIONS = [Question(f"q{i}", f"What is {i} + 1?", str(i + 1)) for i in range(40)]
PLAN = TunePlan(
    train=4,
    validation=8,
    test=8,
    space=Space({"num_attempts_baseline": (1, 3), "num_attempts_coda": (0,)}),
    budget=Budget.preset("quick"),
    rounds=1,
    finalists=1,
)


def is_at_once(call: ScriptedCall) -> bool:
    return SolveAtOnce.instructions in call.prompt


def answer(call: ScriptedCall, right: bool) -> str:
    number = int(call.prompt.rpartition("What is ")[2].split()[0])
    return f"Answer: {number + 1 if right else number}"


def talks_itself_out_of_it(call: ScriptedCall) -> str:
    return answer(call, is_at_once(call))


def needs_working(call: ScriptedCall) -> str:
    return answer(call, not is_at_once(call))


def only_talks(call: ScriptedCall) -> Reply:
    """As right with working as without, which takes many tokens."""
    said = answer(call, True)
    return Reply(said if is_at_once(call) else f"{'So and so. ' * 100}\n{said}")


@pytest.mark.parametrize(
    ("script", "wording"), [(talks_itself_out_of_it, SolveAtOnce), (needs_working, Solve), (only_talks, SolveAtOnce)]
)
def test_the_engine_is_asked_the_way_in_which_it_does_better(
    script: Callable[[ScriptedCall], str | Reply], wording: type, tmp_path: Path
) -> None:
    _, lm = engine(script)
    report = tune(lm, QUESTIONS, PLAN, tmp_path / "run")
    profile = report.profile
    assert profile.prompts["coda.executor.direct"].instructions == wording.instructions  # type: ignore[attr-defined]
    assert profile.scores["at_once"]["kept"] is (wording is SolveAtOnce)
    assert profile.scores["at_once"]["n"] == PLAN.validation
    assert profile.scores["test"]["tuned"]["value"] == 1.0


def test_prompts_that_are_to_stay_as_written_are_compared_with_no_other_wording(tmp_path: Path) -> None:
    made, lm = engine(talks_itself_out_of_it)
    tune(lm, QUESTIONS, replace(PLAN, optimizer="none"), tmp_path / "run")
    assert not any(is_at_once(call) for call in made.calls)
