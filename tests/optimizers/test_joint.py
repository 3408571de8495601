"""Prompts, path and budget together, on engines whose skills are known."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest
from prompt_scripts import WORD, knows_the_word, seeded
from scripts import engine

from coda_dspy import AdaptiveCoda, Budget
from coda_dspy.data import Question
from coda_dspy.evaluation import JsonLines, Result, evaluate
from coda_dspy.optimizers import Space, TunePlan, TuneReport, tune
from coda_dspy.optimizers.budgets import budget_at
from coda_dspy.testing import ScriptedCall

pytest.importorskip("optuna")

QUESTIONS = [Question(f"q{i}", f"What is {i} + 1?", str(i + 1)) for i in range(120)]
PLAN = TunePlan(
    train=8,
    validation=16,
    test=8,
    space=Space({"num_attempts_baseline": (1, 3, 5), "num_attempts_coda": (0, 1), "n_plans": (1,)}),
    optimizer="gepa",
    prompt_questions=100,
    roles=("direct",),
)


def number_in(call: ScriptedCall) -> int:
    return int(call.prompt.split("What is ")[-1].split()[0])


def chance(call: ScriptedCall, *place: object) -> float:
    """A number from 0 to 1 that the place of a call decides."""
    text = repr((number_in(call), call.stage, *call.sample, *place)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=4).digest(), "big") / 2**32


def skilled(seed: int) -> Any:
    """By program right in 9 of 10; in words to half of the questions with the word, and to a tenth without it, always
    with the same answer, so that votes help as little as plans.
    """

    def script(call: ScriptedCall) -> str:
        number = number_in(call)
        if call.stage == "plan":
            return "1. Add one. (high)"
        if call.stage == "code":
            luck = chance(call, seed)
            return f"```python\nprint({number + 1 if luck < 0.9 else 1000 + int(1000 * luck)})\n```"
        digest = hashlib.blake2b(f"{number} {seed}".encode(), digest_size=4).digest()
        known = int.from_bytes(digest) / 2**32 < (0.5 if WORD in call.prompt else 0.1)
        return f"Answer: {number + 1 if known else 1000 + number}"

    return script


def unsure(call: ScriptedCall) -> str:
    """Right in 4 of 10, and its wrong answers seldom agree: the more votes, the better."""
    luck = chance(call)
    if call.stage == "plan":
        return "1. Add one. (high)"
    if call.stage == "code":
        return "no program"
    return f"Answer: {number_in(call) + 1 if luck < 0.4 else 1000 + int(9 * luck)}"


def tuned(folder: Path, seed: int, **more: Any) -> TuneReport:
    _, lm = seeded(skilled(seed))
    _, teacher = engine(knows_the_word(2))
    return tune(lm, QUESTIONS, replace(PLAN, seed=seed, **more), folder, teacher=teacher)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[TuneReport]:
    """Ten seeds, of the engine and of the search."""
    return [tuned(tmp_path_factory.mktemp("seed") / "run", seed, rounds=1) for seed in range(10)]


@pytest.mark.timeout(600)  # ten tunes
def test_prompts_path_and_budget_are_found_in_nine_of_ten_seeds(reports: list[TuneReport]) -> None:
    prompts = [WORD in r.profile.prompts["coda.executor.direct"].instructions for r in reports]
    paths = [r.profile.budget["first_path"] == "code" for r in reports]
    # Programs vote first, and what follows them is worth nothing: three coded attempts and no step 3.
    budgets = [
        r.profile.budget["num_attempts_coding"] == 3 and not r.profile.budget["num_attempts_coda"] for r in reports
    ]
    assert min(sum(prompts), sum(paths), sum(budgets)) >= 9, (prompts, paths, budgets)
    assert sum(r.difference.value > 0 for r in reports) >= 9


def test_no_optimizer_asks_more_than_it_planned(reports: list[TuneReport]) -> None:
    for report in reports:
        for record in report.profile.scores["prompts"].values():
            assert all(record["asked"][part] <= record["planned"][part] for part in ("questions", "calls", "tokens"))


def test_the_profile_gives_figures_on_training_validation_and_held_out_questions(reports: list[TuneReport]) -> None:
    scores = reports[0].profile.scores
    for figure in (scores["train"], *scores["validation"], scores["test"]["plain"], scores["test"]["tuned"]):
        assert 0 <= figure["low"] <= figure["value"] <= figure["high"] <= 1
        assert figure["n"] > 0


def test_the_finalists_are_measured_again_on_fresh_samples(tmp_path: Path) -> None:
    _, lm = seeded(unsure)
    report = tune(lm, QUESTIONS, replace(PLAN, optimizer="none", prefer="accuracy"), tmp_path / "run")
    finalists = report.profile.scores["finalists"]
    assert len(finalists) > 1
    assert all(figure["n"] == PLAN.validation for figure in finalists)
    names = {"-".join(path.stem.split("-")[1:-1]) for path in (tmp_path / "run" / "results").glob("choice-*.jsonl")}
    assert report.profile.scores["chosen"] in names
    best = max(finalists, key=lambda figure: (figure["value"], -figure["cost"]))
    assert report.profile.budget["num_attempts_baseline"] == best["point"]["num_attempts_baseline"]


def test_a_round_whose_prompts_stay_as_they_are_searches_no_budget_again(tmp_path: Path) -> None:
    _, lm = seeded(skilled(0))
    tune(lm, QUESTIONS, replace(PLAN, optimizer="none", rounds=3), tmp_path / "run")
    assert not list((tmp_path / "run" / "results").glob("budget-2-*"))


def test_where_one_direct_answer_was_chosen_its_prompts_are_not_compiled_again(tmp_path: Path) -> None:
    _, lm = seeded(lambda call: f"Answer: {number_in(call) + 1}")
    _, teacher = engine(knows_the_word(2))
    report = tune(lm, QUESTIONS, replace(PLAN, rounds=2), tmp_path / "run", teacher=teacher)
    assert report.profile.scores["chosen"] == "baseline1"
    assert set(report.profile.scores["prompts"]) == {"direct"}
    assert not list((tmp_path / "run" / "results").glob("round-2*"))


def needs_the_word_in_its_reflection(call: ScriptedCall) -> str:
    number = number_in(call)
    if call.stage == "plan":
        return "1. Add one. (high)"
    right = call.stage == "reflect" and (WORD in call.prompt or chance(call) < 0.5)
    return f"Answer: {number + 1 if right else 1000 + int(1000 * chance(call))}"


def test_prompts_are_compiled_again_at_the_budget_that_was_found_also_after_the_time_limit(tmp_path: Path) -> None:
    space = Space({"num_attempts_baseline": (0, 1), "num_attempts_coda": (0, 1), "n_plans": (1,)})
    plan = replace(PLAN, prompt_questions=300, space=space, minutes=600)
    made, lm = seeded(needs_the_word_in_its_reflection)
    _, teacher = engine(lambda call: f"Solve the problem {WORD}.")
    report = tune(lm, QUESTIONS, plan, tmp_path / "run", teacher=teacher)
    assert WORD in report.profile.prompts["coda.reflector.reflect"].instructions
    assert list((tmp_path / "run" / "results").glob("budget-2-*"))
    assert report.profile.scores["test"]["tuned"]["value"] > 0.9
    # What was paid for is used, whenever the tune is told again.
    (tmp_path / "run" / "clock.json").write_text('{"seconds": 999999}')
    calls = len(made.calls)
    assert tune(lm, QUESTIONS, plan, tmp_path / "run", teacher=teacher).profile == report.profile
    assert len(made.calls) == calls


FORTY = Space(
    {
        "num_attempts_baseline": (0, 1, 2, 3, 4, 5),
        "num_attempts_coda": (0, 1),
        "best_of_n": (1, 2, 3),
        "n_plans": (1, 2, 3),
    }
)


def test_a_search_of_forty_budgets_costs_a_fifth_of_the_calls_of_forty_measurements(tmp_path: Path) -> None:
    """By nested sampling and racing; each figure is the one of the measurement on its own."""
    _, lm = seeded(unsure)
    plan = replace(PLAN, space=FORTY, max_trials=40, optimizer="none", finalists=1, test=2)
    report = tune(lm, QUESTIONS, plan, tmp_path / "run")
    stored = [row for path in (tmp_path / "run" / "results").glob("budget-*") for row in JsonLines(path).read()]
    shared = sum(row["billed_calls"] for row in stored)
    separate = 0
    base = _base_of(report)
    validation = [q for q in QUESTIONS if q.id in {row["id"] for row in stored}]
    assert len(report.trials) == 40
    for trial in report.trials:
        results = _alone(unsure, budget_at(base, trial.point), validation)
        separate += sum(r.calls for r in results.values())
        order = _order_of(tmp_path / "run", trial)
        assert [bool(results[name].correct) for name in order] == list(trial.right)
    assert separate >= 5 * shared, f"{shared} calls in one search, {separate} in forty measurements"


def _base_of(report: TuneReport) -> Budget:
    return PLAN.budget.replace(first_path=report.profile.budget["first_path"])


def _alone(script: Any, budget: Budget, questions: list[Question]) -> dict[str, Result]:
    """The same budget on an engine and a cache of its own."""
    before = dspy.cache
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=True)
    try:
        _, lm = seeded(script)
        with dspy.context(lm=lm):
            return {r.id: r for r in evaluate(AdaptiveCoda(budget), questions)}
    finally:
        dspy.cache = before


def _order_of(folder: Path, trial: Any) -> list[str]:
    from coda_dspy.optimizers.budgets import point_name

    (path,) = folder.glob(f"results/budget-1-{point_name(trial.point)}-????????.jsonl")
    rows = {row["id"] for row in JsonLines(path).read()}
    from coda_dspy.data import split

    parts = split(QUESTIONS, PLAN.seed, PLAN.train, PLAN.validation, 2)
    return [q.id for q in parts.validation if q.id in rows]
