"""Every optimizer on engines with known skills: it finds what helps, keeps to its plan, and ends well."""

import logging
import time
from collections.abc import Callable
from importlib import import_module
from threading import Lock
from typing import Any

import dspy
import pytest
from dspy.lm15 import AuthError, TransportError
from prompt_scripts import (
    DIRECT,
    QUESTIONS,
    TRAIN,
    VALIDATION,
    WORD,
    Compiling,
    is_sometimes_right,
    knows_the_word,
    needs_a_demonstration,
    needs_the_word,
    number_in,
)

from coda_dspy import AdaptiveCoda, Budget, Coda, connect
from coda_dspy.errors import EngineError, UserError
from coda_dspy.evaluation import Result
from coda_dspy.optimizers import OPTIMIZERS, OptimizerFailed, Planned, optimizer_named
from coda_dspy.optimizers.prompts.counting import most_calls
from coda_dspy.testing import Reply, ScriptedCall, ScriptedEngine

pytest.importorskip("optuna")

SEARCHING = [name for name in OPTIMIZERS if name not in ("none", "bootstrap")]
REFLECTING = [name for name, kind in OPTIMIZERS.items() if kind.reflects]


def compiling(name: str, script: Callable[[ScriptedCall], Any] = is_sometimes_right, every: int = 1) -> Compiling:
    teacher = knows_the_word(every) if OPTIMIZERS[name].reflects else None
    return Compiling(optimizer_named(name, tokens_each=30), script, teacher)


def instruction(program: Any) -> str:
    return str(program.coda.executor.direct.signature.instructions)


# -- finding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["gepa", "mipro"])
def test_the_instruction_that_helps_is_found(name: str, seed: int) -> None:
    run = compiling(name, needs_the_word, every=3)
    compiled = run.run(seed=seed)
    assert WORD in instruction(compiled)
    assert run.right(run.program) == 0
    assert run.right(compiled) == 10


@pytest.mark.parametrize("seed", range(4))
def test_simba_finds_the_rule_where_the_engine_is_sometimes_right(seed: int) -> None:
    run = compiling("simba")
    compiled = run.run(seed=seed)
    assert instruction(compiled).startswith(instruction(run.program))
    assert run.right(run.program) == 0
    assert run.right(compiled) == 10


@pytest.mark.parametrize("name", ["bootstrap", "bootstrap-random-search", "mipro"])
def test_demonstrations_that_help_are_found(name: str) -> None:
    run = compiling(name, needs_a_demonstration)
    compiled = run.run()
    assert 1 <= len(compiled.coda.executor.direct.demos) <= 2
    assert run.right(compiled) == 10 > run.right(run.program)


def test_a_role_of_algorithm_1_is_found_by_what_went_wrong() -> None:
    def script(call: ScriptedCall) -> str:
        if call.stage == "plan":
            return f"1. {'Add one' if WORD in call.prompt else 'Guess'}. (high)"
        right = "Add one" in call.prompt or (call.stage == "reflect" and "777" not in call.prompt)
        return f"Answer: {number_in(call) + 1 if right else 777}"

    run = compiling("gepa", script)
    run.program = Coda(Budget(best_of_n=1, n_plans=1))
    compiled = run.run()
    assert WORD in compiled.planner.plan.signature.instructions
    assert run.right(compiled) == 10


def test_what_does_not_help_changes_nothing() -> None:
    for name in SEARCHING:
        run = compiling(name, lambda call: f"Answer: {number_in(call) + 1}")
        assert instruction(run.run()) == instruction(run.program), name


# -- the plan --------------------------------------------------------------------------------------------------------


def is_within(run: Compiling) -> bool:
    return all(used <= most for used, most in zip(run.spent(), run.plan(), strict=True))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_no_plan_is_exceeded(name: str, seed: int) -> None:
    run = compiling(name, every=2)
    run.run(seed=seed)
    assert is_within(run), (run.spent(), run.plan())


@pytest.mark.parametrize("name", SEARCHING)
def test_no_plan_is_exceeded_by_an_engine_that_fails_and_by_replies_that_are_cut(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(call: ScriptedCall) -> object:
        if call.index % 7 == 3:
            return Reply.cut("1. And")
        return TransportError("reset") if call.index % 7 == 5 else is_sometimes_right(call)

    run = compiling(name, script)
    run.program = Coda(Budget(best_of_n=2, n_plans=2, refine_rounds=1, verifier="judge"))
    run.lm = run.lm.copy(num_retries=2)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between tries
    run.run()
    assert is_within(run), (run.spent(), run.plan())


@pytest.mark.parametrize("name", SEARCHING)
def test_many_replies_at_a_time_that_are_far_larger_than_was_measured_stay_within_the_tokens(name: str) -> None:
    def script(call: ScriptedCall) -> str:
        time.sleep(0.01)  # so that all workers are asking when the first reply comes
        return "so " * 4000 + is_sometimes_right(call)

    run = compiling(name, script)
    run.optimizer = optimizer_named(name, tokens_each=1)
    run.run()
    assert run.engine.calls
    assert is_within(run), (run.spent(), run.plan())


@pytest.mark.parametrize("name", SEARCHING)
def test_replies_that_grow_beyond_what_was_measured_end_the_search_at_its_tokens(name: str) -> None:
    run = compiling(name, lambda call: "so " * min(200 * call.index, 4000) + is_sometimes_right(call))
    run.run()
    assert run.spent().questions < run.plan().questions
    assert is_within(run), (run.spent(), run.plan())


@pytest.mark.parametrize("name", SEARCHING)
def test_a_budget_for_less_than_three_proposals_is_refused_with_the_smallest_that_works(name: str) -> None:
    with pytest.raises(
        UserError, match=f"{name} cannot try 3 proposals with 10 questions; give it at least"
    ) as refused:
        optimizer_named(name, max_questions=10).plan(AdaptiveCoda(DIRECT), TRAIN, VALIDATION, None)
    smallest = int(str(refused.value).split("at least ")[1].split()[0])
    with pytest.raises(UserError):
        optimizer_named(name, max_questions=smallest - 1).most_questions(12, 12)
    assert optimizer_named(name, max_questions=smallest).most_questions(12, 12) == smallest


def test_with_the_smallest_budget_three_proposals_are_tried() -> None:
    optimizer = optimizer_named("gepa", max_questions=optimizer_named("gepa")._questions(3, 12, 12))
    run = Compiling(optimizer, needs_the_word, knows_the_word(3))
    assert WORD in instruction(run.run())
    assert run.taught is not None and len(run.taught.calls) >= 3


def test_a_larger_budget_asks_more_and_never_more_than_that() -> None:
    for name in SEARCHING:
        smallest = optimizer_named(name)._questions(3, 12, 12)
        planned = [optimizer_named(name, max_questions=smallest + n).most_questions(12, 12) for n in range(0, 400, 20)]
        assert planned == sorted(planned), name
        assert all(most <= smallest + n for most, n in zip(planned, range(0, 400, 20), strict=True)), name
        assert planned[-1] > planned[0], name


def test_the_plan_tells_calls_by_the_programs_budget_and_tokens_where_they_were_measured() -> None:
    gepa = optimizer_named("gepa", max_questions=66, tokens_each=100)
    planned = gepa.plan(AdaptiveCoda(DIRECT), TRAIN, VALIDATION, None)
    assert planned == Planned(66, 66 + 9, 66 * 100 * 4 + 9 * 8192 + 4096 + 8192)
    assert str(planned) == "at most 66 questions, 75 calls, 112,416 tokens"
    assert optimizer_named("gepa").plan(AdaptiveCoda(DIRECT), TRAIN, VALIDATION, None).tokens is None
    assert optimizer_named("none").plan(AdaptiveCoda(DIRECT), TRAIN, VALIDATION, None) == Planned(0, 0, 0)


BUDGETS = [
    Budget(),
    Budget(best_of_n=2, n_plans=3, verifier="judge", plan_diversity=True, refine_rounds=2),
    Budget(best_of_n=3, verifier="pairwise", use_reflection=False, max_plan_tries=3),
    Budget(num_attempts_baseline=2, num_attempts_coding=2, num_attempts_coda=2, best_of_n=2, refine_rounds=1),
    Budget(use_planner=False, reasoning_effort="high", best_of_n=2),
    Budget(best_of_n=2, verifier="weighted"),
    Budget(num_attempts_coding=1, best_of_n=2, verifier="genselect"),
    Budget(num_attempts_coding=1, best_of_n=2, verifier="check"),
]


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize("kind", [AdaptiveCoda, Coda])
@pytest.mark.parametrize("cut", [0, 3, 100])
def test_no_question_takes_more_calls_than_its_budget_tells(budget: Budget, kind: Any, cut: int) -> None:
    def script(call: ScriptedCall) -> str | Reply:
        if cut and call.index % 4 < cut:
            return Reply.cut("and so")
        return f"1. Think. (high)\nAnswer: {call.index}\nRating: 5\nBetter: 1"

    made = ScriptedEngine(script)
    program = kind(budget, lm=connect(made, num_retries=0))
    program(question="What is 1 + 1?")
    most = most_calls(program)
    assert most is not None and 0 < len(made.calls) <= most


# -- who is asked what -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFLECTING)
def test_the_teacher_proposes_and_does_nothing_else(name: str) -> None:
    run = compiling(name)
    run.run()
    assert run.taught is not None and run.taught.calls
    assert {call.stage for call in run.taught.calls} == {"teacher"}
    assert {call.stage for call in run.engine.calls} == {"direct"}
    assert run.teacher is not None and run.teacher.kwargs == connect(run.taught).kwargs  # a copy of it was used


@pytest.mark.parametrize("name", REFLECTING)
def test_an_engine_that_is_its_own_teacher_is_warned_of(name: str, caplog: pytest.LogCaptureFixture) -> None:
    def script(call: ScriptedCall) -> str:
        return is_sometimes_right(call) if call.stage == "direct" else knows_the_word(1)(call)

    for teacher in (False, True):
        caplog.clear()
        run = Compiling(optimizer_named(name), script)
        run.teacher = run.lm if teacher else None
        assert WORD in instruction(run.run())
        assert "proposes its own instructions, which small models do badly" in caplog.text
    caplog.clear()
    compiling(name).run()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("name", sorted(set(OPTIMIZERS) - set(REFLECTING)))
def test_a_teacher_that_would_have_nothing_to_do_is_refused(name: str) -> None:
    run = Compiling(optimizer_named(name), needs_the_word, knows_the_word(1))
    with pytest.raises(UserError, match=f"which {name} does not use"):
        run.run()


@pytest.mark.parametrize("name", REFLECTING)
def test_a_teacher_that_gives_no_reply_is_told_and_not_passed_over(name: str) -> None:
    run = compiling(name)
    assert run.taught is not None
    run.taught.script = lambda call: AuthError("no such key")
    with pytest.raises(OptimizerFailed, match=r"the teacher gave no reply: .*no such key"):
        run.run()


@pytest.mark.parametrize(
    "reply", [Reply.cut(f"Work {WORD}"), Reply.empty(), Reply(WORD * 500), Reply("<think>Hm.</think>")]
)
def test_a_proposal_that_is_cut_empty_or_too_long_is_none(reply: Reply) -> None:
    run = compiling("gepa", needs_the_word)
    assert run.taught is not None
    run.taught.script = lambda call: reply
    assert instruction(run.run()) == instruction(run.program)
    assert is_within(run)


def test_a_fenced_proposal_is_taken_out_of_its_fence() -> None:
    run = compiling("gepa", needs_the_word)
    assert run.taught is not None
    run.taught.script = lambda call: f"<think>Hm.</think>Here it is:\n```text\nWork {WORD}.\n```\nGood luck."
    assert instruction(run.run()) == f"Work {WORD}."


# -- ending ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_question_is_told_and_never_by_two_threads_at_once(name: str) -> None:
    lock, results = Lock(), []

    def tell(result: Result) -> None:
        assert lock.acquire(blocking=False)
        results.append(result)
        time.sleep(0.001)
        lock.release()

    run = compiling(name)
    run.run(on_question=tell)
    answered = [call for call in run.engine.calls if call.stage == "direct"]
    assert len(results) >= len(answered)
    assert {result.id for result in results} <= {question.id for question in QUESTIONS[:24]}


@pytest.mark.parametrize("name", ["gepa", "mipro"])
def test_a_search_that_runs_out_of_time_keeps_the_best_so_far(name: str) -> None:
    run = compiling(name, needs_the_word)
    run.optimizer = optimizer_named(name, workers=1)
    good: list[str] = []

    def tell(result: Result) -> None:
        run.results.append(result)
        if result.correct and result.id in {question.id for question in VALIDATION}:
            good.append(result.id)

    compiled = run.run(on_question=tell, keep_going=lambda: len(set(good)) < len(VALIDATION))
    assert len(run.results) < run.plan().questions
    assert run.right(compiled) == 10


def test_simba_keeps_the_best_so_far_too() -> None:
    run = compiling("simba")
    one_step = 12 + 8 * 3 + 8 * 4  # which roles take part, the samples, the candidates
    compiled = run.run(seed=1, keep_going=lambda: len(run.results) < one_step)
    assert len(run.results) < run.plan().questions
    assert run.right(compiled) == 10


def test_without_validation_questions_there_is_nothing_to_choose_on() -> None:
    with pytest.raises(UserError, match="gepa compares prompts on validation questions; give it some"):
        optimizer_named("gepa").plan(AdaptiveCoda(DIRECT), TRAIN, [], None)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_without_any_time_nothing_is_asked_and_nothing_changes(name: str) -> None:
    run = compiling(name)
    assert instruction(run.run(keep_going=lambda: False)) == instruction(run.program)
    assert not run.engine.calls


@pytest.mark.parametrize("name", sorted(set(OPTIMIZERS) - {"none"}))
def test_an_engine_that_cannot_be_used_ends_the_search_at_once(name: str) -> None:
    run = compiling(name, lambda call: AuthError("expired") if call.index >= 5 else needs_the_word(call))
    with pytest.raises(EngineError, match="expired"):
        run.run()
    assert len(run.engine.calls) <= 5 + run.optimizer.workers


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("bootstrap", "dspy.teleprompt.BootstrapFewShot._train"),
        ("bootstrap-random-search", "dspy.teleprompt.random_search.BootstrapFewShot.compile"),
        ("mipro", "dspy.teleprompt.MIPROv2._optimize_prompt_parameters"),
        ("simba", "dspy.teleprompt.simba.wrap_program"),
        ("gepa", "coda_dspy.optimizers.prompts.gepa._Turns.__call__"),
    ],
)
def test_an_optimizer_that_breaks_says_why_and_leaves_everything_as_it_was(
    name: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of ideas")

    import_module(method.rsplit(".", 1)[0] if name == "simba" else "dspy.teleprompt.random_search")
    monkeypatch.setattr(method, fail)
    run = compiling(name)
    level = logging.getLogger("dspy").level
    with pytest.raises(OptimizerFailed, match=f"{name} failed: RuntimeError: out of ideas"):
        run.run()
    assert logging.getLogger("dspy").level == level


@pytest.mark.parametrize("name", ["bootstrap-random-search", "mipro", "simba"])
def test_a_slow_question_is_not_started_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from dspy.utils.parallelizer import ParallelExecutor

    for owner in (ParallelExecutor, dspy.Parallel):
        impatient = tuple(0.2 if value == 120 else value for value in owner.__init__.__defaults__ or ())
        monkeypatch.setattr(owner.__init__, "__defaults__", impatient)
    skill = needs_a_demonstration if name == "bootstrap-random-search" else is_sometimes_right
    asked = []
    for pause in (0.0, 2.5):

        def script(call: ScriptedCall, pause: float = pause) -> str:
            time.sleep(pause * is_slow(call))
            return skill(call)

        run = compiling(name, script)
        run.optimizer = optimizer_named(name, max_questions=optimizer_named(name)._questions(3, 12, 12))
        run.run()
        asked.append(len(run.results))
    assert asked[0] == asked[1]
    assert 0.2 in (ParallelExecutor.__init__.__defaults__ or ())  # as it was before


def is_slow(call: ScriptedCall) -> bool:
    """One question of each part, with a prompt of an optimizer."""
    return number_in(call) in (8, 20) and (WORD in call.prompt or len(call.request.messages) > 1)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_nothing_is_printed(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    compiling(name).run()
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


@pytest.mark.parametrize("name", SEARCHING)
def test_the_same_seed_finds_the_same(name: str) -> None:
    found = []
    for _ in range(2):
        run = compiling(name, needs_a_demonstration if name == "bootstrap-random-search" else is_sometimes_right)
        compiled = run.run(seed=3)
        found.append([(p.signature.instructions, list(map(dict, p.demos))) for p in compiled.predictors()])
    assert found[0] == found[1]


def test_an_optimizer_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UserError, match="optimizer 'best' does not exist; choose one of: none, bootstrap"):
        optimizer_named("best")
