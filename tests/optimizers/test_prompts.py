"""Demonstrations: whose they are, where they come from, and what an optimizer leaves alone."""

import json

import dspy
import pytest
from prompt_scripts import DIRECT, TRAIN, VALIDATION, Compiling, knows_the_word, needs_the_word
from scripts import engine

from coda_dspy import AdaptiveCoda, Budget, Coda
from coda_dspy.data import Question
from coda_dspy.errors import UserError
from coda_dspy.evaluation import Gradable
from coda_dspy.optimizers import OPTIMIZERS, is_correct, optimizer_named, to_example
from coda_dspy.optimizers.metrics import shortened
from coda_dspy.program import Conductor
from coda_dspy.testing import Reply, ScriptedCall

QUESTIONS = [Question(str(i), f"What is {i} + 1?", str(i + 1)) for i in range(6)]


def adds(call: ScriptedCall) -> str:
    number = int(call.prompt.split()[2])
    if call.stage == "plan":
        return "1. Add one. (high)"
    return f"{number} + 1 = {number + 1}\nAnswer: {number + 1}"


def bootstrapped(program: Conductor, max_demos: int = 2, questions: list[Question] = QUESTIONS) -> Conductor:
    return optimizer_named("bootstrap", max_demos=max_demos).compile(program, questions, [])


def test_demonstrations_are_the_engines_own_right_answers() -> None:
    _, lm = engine(lambda call: "Answer: 0" if "0 +" in call.prompt else adds(call))
    with dspy.context(lm=lm):
        compiled = bootstrapped(AdaptiveCoda(DIRECT))
    demos = compiled.coda.executor.direct.demos
    assert [demo.question for demo in demos] == ["What is 1 + 1?", "What is 2 + 1?"]
    assert demos[0].solution == "1 + 1 = 2\nAnswer: 2"


def test_every_role_of_algorithm_1_gets_demonstrations() -> None:
    _, lm = engine(adds)
    with dspy.context(lm=lm):
        compiled = bootstrapped(Coda(Budget(best_of_n=1, n_plans=1)), max_demos=1)
    roles = (compiled.planner.plan, compiled.executor.execute, compiled.reflector.reflect)
    assert [len(role.demos) for role in roles] == [1, 1, 1]


def test_cut_replies_never_become_demonstrations() -> None:
    def script(call: ScriptedCall) -> str | Reply:
        return Reply.cut("CUT") if call.stage == "plan" and call.sample.retry == 0 else adds(call)

    _, lm = engine(script)
    with dspy.context(lm=lm):
        compiled = bootstrapped(Coda(Budget(best_of_n=1, n_plans=1)), max_demos=1)
    assert compiled.planner.plan.demos[0].plan == "1. Add one. (high)"


def test_a_wrong_execution_behind_a_right_synthesis_never_becomes_a_demonstration() -> None:
    def script(call: ScriptedCall) -> str:
        if call.stage == "plan":
            return f"{call.sample.plan}. Plan. (high)"
        return "Answer: 777" if call.stage == "execute" and call.sample.plan == 0 else adds(call)

    _, lm = engine(script)
    with dspy.context(lm=lm):
        compiled = bootstrapped(Coda(Budget(best_of_n=1, n_plans=2)), max_demos=4)
    assert len(compiled.executor.execute.demos) == 4
    assert not any("777" in demo.solution for demo in compiled.executor.execute.demos)
    assert not any(demo.plan.startswith("0.") for demo in compiled.planner.plan.demos)


def test_a_reply_that_had_to_be_mended_never_becomes_a_demonstration() -> None:
    def script(call: ScriptedCall) -> str:
        return "It is clear." if call.stage == "direct" else adds(call)

    _, lm = engine(script)
    with dspy.context(lm=lm):
        compiled = bootstrapped(AdaptiveCoda(DIRECT.replace(refine_rounds=1)))
    assert compiled.coda.executor.direct.demos == []
    assert len(compiled.coda.executor.refine.demos) == 2


def test_very_long_replies_never_become_demonstrations() -> None:
    def script(call: ScriptedCall) -> str:
        return "so " * (3000 if "What is 0" in call.prompt else 1) + adds(call)

    _, lm = engine(script)
    with dspy.context(lm=lm):
        compiled = bootstrapped(AdaptiveCoda(DIRECT), max_demos=9)
    assert [demo.question for demo in compiled.coda.executor.direct.demos] == [q.question for q in QUESTIONS[1:]]


def test_parts_stay_open_to_further_compiling() -> None:
    _, lm = engine(adds)
    program = AdaptiveCoda(DIRECT)
    with dspy.context(lm=lm):
        compiled = bootstrapped(program)
        again = bootstrapped(compiled)
    assert program.coda.executor.direct.demos == []
    assert len(compiled.coda.executor.direct.demos) == len(again.coda.executor.direct.demos) == 2
    assert set(compiled.dump_state()) == set(program.dump_state())


def test_roles_that_took_no_part_keep_what_they_have() -> None:
    _, lm = engine(adds)
    with dspy.context(lm=lm):
        compiled = bootstrapped(AdaptiveCoda(DIRECT))
    assert compiled.coda.coder.write.demos == AdaptiveCoda(DIRECT).coda.coder.write.demos != []


def test_questions_that_were_answered_before_cost_nothing() -> None:
    made, lm = engine(adds)
    with dspy.context(lm=lm):
        for question in QUESTIONS:
            AdaptiveCoda(DIRECT)(question=question.question)
        before = len(made.calls)
        bootstrapped(AdaptiveCoda(DIRECT))
    assert len(made.calls) == before


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_program_that_is_compiled_stays_as_it_is(name: str) -> None:
    teacher = knows_the_word(1) if OPTIMIZERS[name].reflects else None
    run = Compiling(optimizer_named(name), needs_the_word, teacher)
    program = AdaptiveCoda(DIRECT, lm=run.lm)
    before = json.dumps(program.dump_state(), default=str)
    compiled = run.optimizer.compile(program, TRAIN, VALIDATION, teacher=run.teacher)
    assert json.dumps(program.dump_state(), default=str) == before
    assert program.lm is compiled.lm is compiled.coda.lm is run.lm
    assert compiled.budget == program.budget == DIRECT
    assert not any(predict.lm for predict in compiled.predictors())
    assert set(compiled.dump_state()) == set(program.dump_state())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_no_demonstrations_asked_for_is_none_in_the_result(name: str) -> None:
    teacher = knows_the_word(1) if OPTIMIZERS[name].reflects else None
    run = Compiling(optimizer_named(name, max_demos=0), adds_with_any_prompt, teacher)
    compiled = run.run()
    written = {role: len(predict.demos) for role, predict in run.program.named_predictors()}
    assert {role: len(predict.demos) for role, predict in compiled.named_predictors()} == written


def adds_with_any_prompt(call: ScriptedCall) -> str:
    number = int(call.prompt.split("What is ")[-1].split()[0])
    return f"Answer: {number + 1 if number % 3 else 777}"


def test_private_questions_go_into_no_prompt() -> None:
    secret: list[Gradable] = [Question(f"s{i}", f"What is {i} + 1?", str(i + 1), private=True) for i in range(3)]
    _, lm = engine(adds)
    with dspy.context(lm=lm):
        compiled = optimizer_named("bootstrap", max_demos=9).compile(
            AdaptiveCoda(DIRECT), [*secret, *QUESTIONS[3:]], []
        )
        with pytest.raises(UserError, match="no training question whose text may be kept"):
            optimizer_named("bootstrap").compile(AdaptiveCoda(DIRECT), secret, [])
        optimizer_named("none").compile(AdaptiveCoda(DIRECT), secret, [])
    assert [demo.question[8] for demo in compiled.coda.executor.direct.demos] == ["3", "4", "5"]


def test_the_metric_compares_by_meaning() -> None:
    example = to_example(Question("a", "Half?", "1/2"))
    assert is_correct(example, dspy.Prediction(answer="0.5"))
    assert not is_correct(example, dspy.Prediction(answer=None))


def test_an_example_stays_short_in_a_prompt_and_holds_no_tests() -> None:
    example = to_example(Question("a", "Why? " * 5000, "42", meta={"hidden": "x"}))
    assert len(repr(example)) <= 1500
    assert "hidden" not in repr(example)


def test_long_texts_keep_their_ends() -> None:
    assert shortened("a" * 50 + "b" * 50, 30) == "a" * 17 + " […] " + "b" * 8
    assert shortened("short", 30) == "short"
