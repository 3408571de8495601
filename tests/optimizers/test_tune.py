"""The whole of tune, on an engine whose skills are known."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from dspy.lm15 import AuthError, TransportError
from filelock import FileLock
from scripts import engine

from coda_dspy import AdaptiveCoda, Budget, Profile, connect, load
from coda_dspy.data import Question
from coda_dspy.errors import EngineError, UserError
from coda_dspy.evaluation import JsonLines, Result
from coda_dspy.optimizers import Space, TunePlan, tune
from coda_dspy.optimizers.budgets import point_name
from coda_dspy.sandbox import SandboxUnavailable
from coda_dspy.testing import ScriptedCall, ScriptedEngine

QUESTIONS = [Question(f"q{i}", f"What is {i} + 1?", str(i + 1)) for i in range(60)]
PLAN = TunePlan(
    train=6,
    validation=10,
    test=16,
    space=Space({"num_attempts_baseline": (1, 3), "num_attempts_coda": (0, 1), "n_plans": (1, 2)}),
    budget=Budget.preset("quick"),
    roles=("direct",),
)


def needs_plans(call: ScriptedCall) -> str:
    """Of three direct attempts the second is right and no two agree; with a plan the engine is right."""
    number = int(call.prompt.split()[2])
    if call.stage == "direct" and call.sample.attempt != 1:
        return f"Answer: {1000 + number + call.sample.attempt}"
    if call.stage == "plan":
        return "1. Add one. (high)"
    return f"Answer: {number + 1}"


def ids_in(folder: Path, phase: str) -> set[str]:
    """The questions that a phase answered."""
    return {row["id"] for path in (folder / "results").glob(f"{phase}*.jsonl") for row in JsonLines(path).read()}


def always_right(call: ScriptedCall) -> str:
    return f"So.\nAnswer: {int(call.prompt.split()[2]) + 1}"


def test_an_engine_that_needs_plans_is_given_them(tmp_path: Path) -> None:
    _, lm = engine(needs_plans)
    report = tune(lm, QUESTIONS, PLAN, tmp_path / "run")
    plain, tuned = (row.results for row in report.rows)
    assert not any(r.correct for r in plain)
    assert all(r.correct for r in tuned)
    # One plan does as well as two, and costs less.
    assert report.profile.scores["chosen"] == "baseline3-coda1-plans1"
    assert not report.difference.within_noise


def test_an_engine_that_is_right_alone_is_asked_once(tmp_path: Path) -> None:
    _, lm = engine(always_right)
    report = tune(lm, QUESTIONS, PLAN, tmp_path / "run")
    assert report.profile.scores["chosen"] == "baseline1"
    assert report.profile.budget["num_attempts_baseline"] == 1
    assert report.difference.within_noise
    assert all(r.calls == 1 for row in report.rows for r in row.results)
    assert report.rows[0].results == report.rows[1].results
    assert any("one and the same measurement" in note for note in report.notes)


def test_the_three_parts_have_no_question_in_common_and_the_test_is_asked_once(tmp_path: Path) -> None:
    made, lm = engine(always_right)
    tune(lm, QUESTIONS, PLAN, tmp_path / "run")
    train, validation, test = (
        ids_in(tmp_path / "run", phase) for phase in ("direct-training", "direct-prompts-as-written", "test-")
    )
    assert (len(train), len(validation), len(test)) == (6, 10, 16)
    assert not (train & validation or train & test or validation & test)
    tested = [call for call in made.calls if call.request.config.temperature == 0.0 and call.stage == "direct"]
    asked = Counter(call.prompt for call in tested)
    for question in QUESTIONS:
        if question.id in test:  # the plain engine is what was chosen: one measurement, not two
            assert sum(n for prompt, n in asked.items() if question.question in prompt) == 1


def test_a_search_that_goes_on_to_another_choice_measures_that_choice(tmp_path: Path) -> None:
    _, lm = engine(needs_plans)
    first = tune(lm, QUESTIONS, replace(PLAN, max_trials=1), tmp_path / "run")
    assert first.profile.scores["chosen"] == "baseline1"
    begun = tmp_path / "run" / "run.json"
    begun.write_text(begun.read_text().replace('"max_trials": 1', '"max_trials": 24'))
    second = tune(lm, QUESTIONS, PLAN, tmp_path / "run")
    assert second.profile.scores["chosen"] == "baseline3-coda1-plans1"
    assert second.profile.scores["test"]["tuned"]["value"] == 1.0
    assert second.profile.scores["test"]["plain"]["value"] == 0.0


def test_the_papers_settings_are_among_the_trials_or_the_report_says_why_not(tmp_path: Path) -> None:
    _, lm = engine(always_right)
    paper = "baseline3-coda1-plans2-best3-coding3-refine2"
    report = tune(lm, QUESTIONS, replace(PLAN, max_trials=3), tmp_path / "three")
    assert [point_name(trial.point) for trial in report.trials] == ["baseline1", "baseline3-coda0", paper]
    assert not any("paper" in note for note in report.notes)
    report = tune(lm, QUESTIONS, replace(PLAN, max_trials=2), tmp_path / "two")
    assert "the paper's settings were not measured: 2 trials left no room for them" in report.notes


def test_settings_that_a_time_limit_does_not_allow_are_left_out_and_the_rest_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coda_dspy.optimizers.workbench.Workbench.affordable", lambda *_: 9.0)  # of 10 questions
    monkeypatch.setattr("coda_dspy.optimizers.workbench.Workbench.fitting", lambda bench, part, most, *_: most)
    _, lm = engine(always_right)
    report = tune(lm, QUESTIONS, replace(PLAN, minutes=60), tmp_path / "run")
    assert len(report.trials) == 4
    assert "the paper's settings were not measured: the time limit left no room for them" in report.notes


def test_a_lost_connection_does_not_end_a_tune(tmp_path: Path) -> None:
    made = ScriptedEngine(lambda call: TransportError("reset") if call.index == 5 else always_right(call))
    report = tune(connect(made, num_retries=1), QUESTIONS, PLAN, tmp_path / "run")
    assert report.profile.scores["test"]["plain"]["value"] == 1.0


def test_the_profile_answers_like_the_tuned_program(tmp_path: Path) -> None:
    _, lm = engine(always_right)
    report = tune(lm, QUESTIONS, PLAN, tmp_path / "run")
    report.profile.save(tmp_path / "p.json")
    assert load(tmp_path / "p.json", lm)(question="What is 40 + 1?").answer == "41"
    assert Profile.read(tmp_path / "p.json").data["hash"] == report.profile.data["hash"]


def test_the_same_command_again_generates_nothing_and_gives_the_same_profile(tmp_path: Path) -> None:
    made, lm = engine(needs_plans)
    first = tune(lm, QUESTIONS, PLAN, tmp_path / "run")
    calls = len(made.calls)
    second = tune(lm, QUESTIONS, PLAN, tmp_path / "run")
    assert len(made.calls) == calls
    assert first.profile == second.profile


def test_after_the_time_limit_the_same_command_reports_everything_that_was_paid_for(tmp_path: Path) -> None:
    made, lm = engine(always_right)
    plan = replace(PLAN, minutes=60)
    first = tune(lm, QUESTIONS, plan, tmp_path / "run", workers=4)
    clock = tmp_path / "run" / "clock.json"
    clock.write_text('{"seconds": 999999}')
    calls = len(made.calls)
    second = tune(lm, QUESTIONS, plan, tmp_path / "run", workers=4)
    assert len(made.calls) == calls
    assert len(second.rows[1].results) == len(first.rows[1].results) == 16
    assert first.profile == second.profile


def test_a_run_that_broke_goes_on_and_pays_for_no_finished_question_twice(tmp_path: Path) -> None:
    whole, lm = engine(needs_plans)
    expected = tune(lm, QUESTIONS, PLAN, tmp_path / "whole")

    def breaks_once(call: ScriptedCall) -> object:
        return AuthError("expired") if call.index == 45 else needs_plans(call)

    made, broken = engine(breaks_once)
    with pytest.raises(EngineError, match="expired"):
        tune(broken, QUESTIONS, PLAN, tmp_path / "run", workers=2)
    report = tune(broken, QUESTIONS, PLAN, tmp_path / "run", workers=2)
    assert report.profile.scores == expected.profile.scores
    assert len(made.calls) <= len(whole.calls) + 8  # at most the calls in flight when it broke are made again
    for path in (tmp_path / "run" / "results").iterdir():
        ids = [row["id"] for row in JsonLines(path).read()]
        assert len(ids) == len(set(ids))


def test_trials_pay_only_for_samples_that_no_earlier_trial_drew(tmp_path: Path) -> None:
    _, lm = engine(needs_plans)
    tune(lm, QUESTIONS, PLAN, tmp_path / "run")
    (path,) = (tmp_path / "run" / "results").glob("budget-1-baseline3-coda1-plans2-????????.jsonl")
    rows = [Result(**row) for row in JsonLines(path).read()]
    assert all(r.stages["direct"]["cached"] == 3 for r in rows)  # the trial without step 3 has drawn them


def test_another_plan_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    _, lm = engine(always_right)
    tune(lm, QUESTIONS, PLAN, tmp_path / "run")
    with pytest.raises(UserError, match="holds a run with another plan; give --output another folder"):
        tune(lm, QUESTIONS, replace(PLAN, max_demos=1), tmp_path / "run")
    with pytest.raises(UserError, match="holds a run with another data"):
        tune(lm, QUESTIONS[:50], PLAN, tmp_path / "run")


def test_two_runs_in_one_folder_at_the_same_time_are_refused(tmp_path: Path) -> None:
    _, lm = engine(always_right)
    folder = tmp_path / "run"
    folder.mkdir()
    with FileLock(folder / ".lock"), pytest.raises(UserError, match="is in use by another run"):
        tune(lm, QUESTIONS, PLAN, folder)


def test_too_few_questions_are_refused(tmp_path: Path) -> None:
    _, lm = engine(always_right)
    with pytest.raises(UserError):
        tune(lm, QUESTIONS[:20], PLAN, tmp_path / "run")


def test_a_time_limit_leaves_work_out_and_says_so(tmp_path: Path) -> None:
    _, lm = engine(always_right)
    report = tune(lm, QUESTIONS, replace(PLAN, minutes=1e-9), tmp_path / "run", workers=4)
    assert any("budgets were left unmeasured" in note for note in report.notes)
    assert any("leaves 4 of 16 test questions" in note for note in report.notes)
    assert len(report.rows[0].results) == len(report.rows[1].results) == 4


def test_demonstrations_that_do_not_help_are_left_out(tmp_path: Path) -> None:
    _, lm = engine(always_right)
    report = tune(lm, QUESTIONS, PLAN, tmp_path / "run")
    assert not report.profile.prompts["coda.executor.direct"].demos
    assert any("does not help" in note for note in report.notes)


def test_demonstrations_that_help_are_kept(tmp_path: Path) -> None:
    def needs_a_demonstration(call: ScriptedCall) -> str:
        number = int(call.prompt.split()[2])
        shown = len(call.request.messages) > 1
        return f"Answer: {number + 1}" if shown or number % 4 == 0 else "Answer: 777"

    _, lm = engine(needs_a_demonstration)
    report = tune(lm, QUESTIONS, PLAN, tmp_path / "run")
    assert len(report.profile.prompts["coda.executor.direct"].demos) > 0
    assert report.difference.value > 0.4
    program = report.profile.adaptive()
    assert isinstance(program, AdaptiveCoda)


def test_the_better_path_goes_first_and_the_profile_says_on_what_that_rests(tmp_path: Path) -> None:
    def better_by_program(call: ScriptedCall) -> str:
        number = int(call.prompt.split("What is ")[-1].split()[0])
        if call.stage == "code":
            return f"```python\nprint({number} + 1)\n```"
        return f"Answer: {number + 1 if number % 2 else 777}"

    _, lm = engine(better_by_program)
    report = tune(lm, QUESTIONS, PLAN, tmp_path / "run")
    paths = report.profile.scores["paths"]["math"]
    assert paths["code"]["value"] == 1.0 and paths["code"]["n"] == 10
    assert paths["direct"]["value"] < 1.0
    assert paths["agree"]["value"] == 1.0 and 0 < paths["agree"]["n"] < 10
    assert report.profile.budget["first_path"] == paths["first"] == "code"
    assert report.profile.budget["num_attempts_coding"] == 3
    assert report.profile.scores["test"]["tuned"]["value"] == 1.0
    plain = [
        figure for figure in report.profile.scores["validation"] if figure["point"].get("num_attempts_coding") == 0
    ]
    assert plain[0]["value"] == paths["direct"]["value"]  # the engine alone, though programs go first
    assert any(result.path == "code" for result in report.rows[1].results)


def test_a_machine_that_runs_no_programs_can_still_be_tuned_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise SandboxUnavailable({"namespaces": "not here"})

    monkeypatch.setattr("coda_dspy.programs.shared.open_sandbox", refuse)
    monkeypatch.setattr("coda_dspy.programs.shared._opened", {})
    _, lm = engine(lambda call: "```python\nprint(1)\n```" if call.stage == "code" else always_right(call))
    report = tune(lm, QUESTIONS, PLAN, tmp_path / "run")
    assert any("programs cannot run here" in note for note in report.notes)
    assert "paths" not in report.profile.scores


def test_the_papers_order_stays_where_programs_are_no_better(tmp_path: Path) -> None:
    _, lm = engine(always_right)  # its programs are no programs
    report = tune(lm, QUESTIONS, PLAN, tmp_path / "run")
    assert report.profile.scores["paths"]["math"]["code"]["value"] == 0.0
    assert report.profile.budget["first_path"] == "direct"


def test_the_plan_of_a_run_is_plain_json(tmp_path: Path) -> None:
    _, lm = engine(always_right)
    tune(lm, QUESTIONS, PLAN, tmp_path / "run")
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["plan"]["space"] == {"num_attempts_baseline": [1, 3], "num_attempts_coda": [0, 1], "n_plans": [1, 2]}
    assert run["data"]["train"] == 6


def test_the_prompts_of_an_algorithm_that_no_budget_runs_are_not_compiled(tmp_path: Path) -> None:
    _, lm = engine(always_right)
    without_coda = replace(PLAN, roles=("direct", "coda"), space=PLAN.space.but({"num_attempts_coda": (0,)}))
    report = tune(lm, QUESTIONS, without_coda, tmp_path / "run")
    assert set(report.profile.scores["prompts"]) == {"direct"}
