import dspy
from scripts import engine

from coda_dspy import AdaptiveCoda, Budget, Coda
from coda_dspy.data import Question
from coda_dspy.optimizers import compile_prompts, is_correct, to_example
from coda_dspy.testing import Reply, ScriptedCall

QUESTIONS = [Question(str(i), f"What is {i} + 1?", str(i + 1)) for i in range(6)]
DIRECT = Budget(num_attempts_baseline=1, num_attempts_coda=0, temperature={"direct": 0.0})


def adds(call: ScriptedCall) -> str:
    number = int(call.prompt.split()[2])
    if call.stage == "plan":
        return "1. Add one. (high)"
    return f"{number} + 1 = {number + 1}\nAnswer: {number + 1}"


def test_demonstrations_are_the_engines_own_right_answers() -> None:
    _, lm = engine(lambda call: "Answer: 0" if "0 +" in call.prompt else adds(call))
    with dspy.context(lm=lm):
        compiled = compile_prompts(AdaptiveCoda(DIRECT), QUESTIONS, max_demos=2)
    demos = compiled.coda.executor.direct.demos
    assert [demo.question for demo in demos] == ["What is 1 + 1?", "What is 2 + 1?"]
    assert demos[0].solution == "1 + 1 = 2\nAnswer: 2"


def test_every_role_of_algorithm_1_gets_demonstrations() -> None:
    _, lm = engine(adds)
    with dspy.context(lm=lm):
        compiled = compile_prompts(Coda(Budget(best_of_n=1, n_plans=1)), QUESTIONS, max_demos=1)
    roles = (compiled.planner.plan, compiled.executor.execute, compiled.reflector.reflect)
    assert [len(role.demos) for role in roles] == [1, 1, 1]


def test_cut_replies_never_become_demonstrations() -> None:
    def script(call: ScriptedCall) -> str | Reply:
        return Reply.cut("CUT") if call.stage == "plan" and call.sample.retry == 0 else adds(call)

    _, lm = engine(script)
    with dspy.context(lm=lm):
        compiled = compile_prompts(Coda(Budget(best_of_n=1, n_plans=1)), QUESTIONS, max_demos=1)
    assert compiled.planner.plan.demos[0].plan == "1. Add one. (high)"


def test_the_original_program_is_left_alone_and_parts_stay_open_to_further_compiling() -> None:
    _, lm = engine(adds)
    program = AdaptiveCoda(DIRECT)
    with dspy.context(lm=lm):
        compiled = compile_prompts(program, QUESTIONS)
        again = compile_prompts(compiled, QUESTIONS)
    assert program.coda.executor.direct.demos == []
    assert len(compiled.coda.executor.direct.demos) == len(again.coda.executor.direct.demos) == 2
    assert set(compiled.dump_state()) == set(program.dump_state())


def test_questions_that_were_answered_before_cost_nothing() -> None:
    made, lm = engine(adds)
    with dspy.context(lm=lm):
        for question in QUESTIONS:
            AdaptiveCoda(DIRECT)(question=question.question)
        before = len(made.calls)
        compile_prompts(AdaptiveCoda(DIRECT), QUESTIONS, max_demos=2)
    assert len(made.calls) == before


def test_the_metric_compares_by_meaning() -> None:
    example = to_example(Question("a", "Half?", "1/2"))
    assert is_correct(example, dspy.Prediction(answer="0.5"))
    assert not is_correct(example, dspy.Prediction(answer=None))
