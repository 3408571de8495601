"""Judges, measured by a tune on an engine whose judgement is known."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dspy.lm15 import ServerError
from scripts import engine

from coda_dspy import Budget, Profile, load
from coda_dspy.candidate import Candidate
from coda_dspy.data import Question
from coda_dspy.evaluation import PoolRecord
from coda_dspy.optimizers import Space, TunePlan, TuneReport, ceiling, tune
from coda_dspy.optimizers.judging import pair_of
from coda_dspy.optimizers.plan import MOST_JUDGED
from coda_dspy.testing import ScriptedCall, ScriptedEngine

pytest.importorskip("optuna")

QUESTIONS = [Question(f"q{i}", f"What is {i} + 1?", str(i + 1)) for i in range(60)]
PLAN = TunePlan(
    train=4,
    validation=40,
    test=6,
    space=Space({"num_attempts_baseline": (0,), "num_attempts_coda": (1,), "best_of_n": (3,), "n_plans": (1,)}),
    budget=Budget.preset("quick").replace(early_exit="off"),
    optimizer="none",
    rounds=1,
    finalists=2,
    prefer="accuracy",
)


def number_in(text: str) -> int:
    return int(text.split("What is ")[-1].split()[0])


def asked(verdict: Callable[[ScriptedCall], object]) -> Callable[[ScriptedCall], object]:
    """Direct attempts are wrong. Algorithm 1's last candidate is right, and in half of the questions another one."""

    def script(call: ScriptedCall) -> object:
        if call.stage == "judge":
            return verdict(call)
        if call.stage == "plan":
            return "1. Add one. (high)"
        number = number_in(call.prompt)
        if call.stage == "direct":
            return f"Answer: {1000 + number + call.sample.attempt}"
        return f"Answer: {number + 1 if call.sample.attempt > number % 2 else 2000 + number}"

    return script


def knows(call: ScriptedCall) -> str:
    """Says which of two answers is right, or whether one is."""
    right = f"Answer: {number_in(call.prompt) + 1}\n"
    if "Rating" in call.prompt:
        return f"Rating: {9 if right in call.prompt + chr(10) else 1}"
    wrong = f"Answer: {2000 + number_in(call.prompt)}\n"
    better = 1 if call.prompt.find(right) < call.prompt.find(wrong) else 2
    return f"Better: {better}\nBest: {better}"


def tuned(folder: Path, verdict: Callable[[ScriptedCall], object], **more: Any) -> tuple[TuneReport, ScriptedEngine]:
    made, lm = engine(asked(verdict))
    return tune(lm, QUESTIONS, replace(PLAN, **more), folder), made


def judges_of(report: TuneReport) -> Any:
    return report.profile.adaptive().learned.of("math").judges


def test_a_good_judge_weighs_in_and_is_asked_about_a_dozen_questions_at_most(tmp_path: Path) -> None:
    report, made = tuned(tmp_path / "run", knows, finalists=1)
    judges = judges_of(report)
    assert {name for name, judging in judges.items() if judging.weight} == {"judge", "pairwise", "genselect"}
    assert judges["judge"].accuracy.n == judges["pairwise"].accuracy.n == MOST_JUDGED
    assert judges["judge"].chance.value == 0.5
    assert judges["pairwise"].contradicting.value < 0.5
    assert made.count("judge") == MOST_JUDGED * (2 + 2 + 2 + 2)  # the last two write tests of the answers, in vain


def test_a_judge_that_guesses_weighs_nothing(tmp_path: Path) -> None:
    report, _ = tuned(tmp_path / "run", lambda call: "Rating: 5\nBetter: 1")
    assert [judging.weight for judging in judges_of(report).values()] == [0] * 4


def test_a_budget_that_leaves_a_judge_no_choice_asks_none(tmp_path: Path) -> None:
    report, made = tuned(tmp_path / "run", knows, space=PLAN.space.but({"best_of_n": (1,)}))
    assert not judges_of(report)
    assert made.count("judge") == 0


def test_the_same_command_again_asks_no_judge_also_after_the_time_limit(tmp_path: Path) -> None:
    made, lm = engine(asked(knows))
    first = tune(lm, QUESTIONS, replace(PLAN, minutes=60), tmp_path / "run")
    assert judges_of(first)
    (tmp_path / "run" / "clock.json").write_text('{"seconds": 999999}')
    calls = len(made.calls)
    assert tune(lm, QUESTIONS, replace(PLAN, minutes=60), tmp_path / "run").profile == first.profile
    assert len(made.calls) == calls


def test_without_time_no_judge_is_asked_and_the_report_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coda_dspy.optimizers.judging.CHOICE_ENDS", -1.0)
    report, made = tuned(tmp_path / "run", knows, minutes=60)
    assert made.count("judge") == 0
    assert any("questions to judge out" in note for note in report.notes)


def test_a_judge_that_is_not_heard_does_not_end_the_tune(tmp_path: Path) -> None:
    report, _ = tuned(tmp_path / "run", lambda call: ServerError("busy"), finalists=1)
    assert not judges_of(report)


def test_the_ceiling_counts_the_judges() -> None:
    _, lm = engine(asked(knows))
    phases = {phase.name: phase for phase in ceiling(PLAN, lm, QUESTIONS)}
    assert (phases["judges"].questions, phases["judges"].calls) == (4 * MOST_JUDGED, (2 + 2 + 4 + 2) * MOST_JUDGED)


def test_a_tuned_profile_that_uses_everything_that_was_learned_answers(tmp_path: Path) -> None:
    """The majority of the candidates is wrong; the judge that was found to be good knows better."""
    report, _ = tuned(tmp_path / "run", knows)
    assert report.profile.budget["verifier"] == "weighted"
    budget = {**report.profile.budget, "early_exit": "learned"}
    report.profile.model_copy(update={"budget": budget}).save(tmp_path / "p.json")
    made, lm = engine(asked(knows))
    program = load(tmp_path / "p.json", lm)
    prediction = program(question="What is 71 + 1?")
    assert (prediction.answer, made.count("judge") > 0) == ("72", True)
    _, lm = engine(asked(knows))
    majority = Profile.read(tmp_path / "p.json").adaptive(lm)
    majority.budget.load_state(Budget(**budget).replace(verifier="majority").dump_state())
    assert majority(question="What is 71 + 1?").answer != "72"


# -- which answers are judged ----------------------------------------------------------------------------------------


def record(*votes: tuple[str, str], private: bool = False) -> PoolRecord:
    """Votes by path; 1 is right."""
    candidates = tuple(Candidate(a, f"text {i}", path, i, 1) for i, (path, a) in enumerate(votes))  # type: ignore[arg-type]
    told = [a for _, a in votes]
    classes = tuple(tuple(i for i, b in enumerate(told) if a == b) for a in dict.fromkeys(told))
    task = None if private else {"question": "Q?", "kind": "math"}
    return PoolRecord("q", 0, "", task, "1", None, False, candidates, tuple(a == "1" for a in told), classes)


def texts_of(pair: PoolRecord | None) -> list[tuple[str, ...]]:
    assert pair is not None
    return [tuple(pair.candidates[i].text for i in members) for members in pair.classes]


def test_the_leading_right_and_wrong_answers_of_one_path_are_judged_in_the_order_of_their_votes() -> None:
    of_coda = record(("direct", "1"), ("coda", "2"), ("coda", "3"), ("coda", "1"), ("coda", "3"), ("direct", "2"))
    assert texts_of(pair_of(of_coda)) == [("text 2", "text 4"), ("text 3",)]
    assert texts_of(pair_of(record(("direct", "1"), ("direct", "2"), ("coda", "1")))) == [("text 0",), ("text 1",)]


@pytest.mark.parametrize(
    "unfit",
    [
        record(("direct", "1"), ("coda", "2")),
        record(("coda", "1"), ("coda", "1")),
        record(("coda", "2"), ("coda", "3")),
        record(("coda", "1"), ("coda", "2"), private=True),
        record(),
    ],
    ids=["of two paths", "right alone", "wrong alone", "private", "empty"],
)
def test_where_there_are_not_both_nothing_is_judged(unfit: PoolRecord) -> None:
    assert pair_of(unfit) is None
