"""What is told before a tune is never exceeded by it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prompt_scripts import is_sometimes_right, knows_the_word, seeded
from scripts import engine

from coda_dspy import Budget
from coda_dspy.data import Question
from coda_dspy.evaluation import Result
from coda_dspy.optimizers import Space, TunePlan, ceiling, tune
from coda_dspy.testing import Reply, ScriptedCall

pytest.importorskip("optuna")

QUESTIONS = [Question(f"q{i}", f"What is {i} + 1?", str(i + 1)) for i in range(40)]
PLAN = TunePlan(
    train=4,
    validation=8,
    test=4,
    space=Space({"num_attempts_baseline": (1, 2), "num_attempts_coda": (0, 1), "verifier": ("majority", "judge")}),
    max_trials=3,
    roles=("direct",),
    budget=Budget.preset("quick").replace(refine_rounds=1, early_exit="off"),
    prefer="accuracy",
)
PLANS = {
    "nothing is compiled": replace(PLAN, optimizer="none", rounds=1, finalists=1),
    "finalists": replace(PLAN, optimizer="none", finalists=4, max_trials=9),
    "two roles": replace(PLAN, roles=("direct", "coda"), finalists=2),
    "two rounds with a teacher": replace(PLAN, optimizer="gepa", prompt_questions=60, rounds=2, finalists=3),
    "a sampled search": replace(PLAN, optimizer="none", space=PLAN.space.but({"best_of_n": tuple(range(1, 20))})),
}


class Counting:
    """Counts the questions that a tune asks."""

    questions = 0

    def phase(self, name: str, questions: int) -> None: ...
    def best(self, text: str) -> None: ...

    def result(self, result: Result) -> None:
        self.questions += 1


def unsure(call: ScriptedCall) -> str | Reply:
    """Few votes agree, some replies are cut, and some answers cannot be read: as many calls as there can be."""
    if call.stage == "plan":
        return Reply.cut("1. And") if call.index % 5 == 0 else "1. Add one. (high)"
    if call.stage == "judge":
        return f"Rating: {call.index % 9 + 1}"
    if call.stage == "code":
        return f"```python\nprint({call.index})\n```"
    return is_sometimes_right(call) if call.index % 3 else f"Hm, {call.index}."


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("script", [unsure, is_sometimes_right])
def test_a_tune_asks_no_more_than_was_told(name: str, script: Callable[[ScriptedCall], Any], tmp_path: Path) -> None:
    plan, counting = PLANS[name], Counting()
    made, lm = seeded(script)
    taught, teacher = engine(knows_the_word(2)) if plan.optimizer == "gepa" else (None, None)
    phases = ceiling(plan, lm, QUESTIONS, teacher)
    tune(lm, QUESTIONS, plan, tmp_path / "run", watcher=counting, teacher=teacher)
    asked = [call for one in (made, taught) if one is not None for call in one.calls]
    assert 0 < counting.questions <= sum(phase.questions for phase in phases)
    assert 0 < len(asked) <= sum(phase.calls for phase in phases)


def test_every_phase_is_told_with_what_it_asks() -> None:
    _, lm = seeded(unsure)
    phases = {phase.name: phase for phase in ceiling(PLANS["nothing is compiled"], lm, QUESTIONS)}
    once = ["judges", "training questions", "test, held out"]
    assert list(phases) == ["prompts direct", "paths", "budgets, round 1", *once]
    assert phases["prompts direct"][1:] == (8, 8, 8 * 400)  # the engine asked once
    assert phases["paths"].questions == 16
    assert phases["budgets, round 1"].questions == 3 * 8
    choosing = {phase.name: phase for phase in ceiling(PLANS["finalists"], lm, QUESTIONS)}["choice"]
    assert choosing.questions == (4 + 3) * 8  # beside the finalists, three budgets that use what was learned


def test_where_no_program_can_answer_no_paths_are_compared() -> None:
    _, lm = seeded(unsure)
    texts = [Question(f"t{i}", "Which?", "A", "choice", ("yes", "no")) for i in range(40)]
    assert "paths" not in {phase.name for phase in ceiling(PLAN, lm, texts)}
