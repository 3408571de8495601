"""Algorithm 2's coding pass, and code tasks: programs that run, on a scripted engine."""

from itertools import product

import pytest
from scripts import answering, engine

from coda_dspy import AdaptiveCoda, Budget, Coda
from coda_dspy.errors import UserError
from coda_dspy.testing import Reply, ScriptedCall


def block(program: str) -> str:
    return f"Here it is:\n```python\n{program}\n```"


def with_programs(programs: list[str], direct: list[str], coda: tuple[str, ...] = ("9",)) -> object:
    """Direct attempts and Algorithm 1 answer in words, the coding agent by the programs in turn."""

    def script(call: ScriptedCall) -> str | Reply:
        if call.stage == "code":
            return block(programs[call.sample.attempt % len(programs)])
        return answering(direct, coda)(call)

    return script


CODING = Budget(num_attempts_baseline=3, num_attempts_coding=3, num_attempts_coda=1, best_of_n=1, n_plans=1)


def paper(direct: tuple[str, ...], code: tuple[str, ...], coda: str) -> tuple[str, str]:
    """Algorithm 2 of the paper, written down once more: the answer and the step that gave it."""
    for votes, step in ((direct, "direct"), (direct + code, "code")):
        top = max(votes, key=votes.count)
        if votes.count(top) > len(votes) / 2:
            return top, step
    votes = (*direct, *code, coda)
    most = max(votes.count(vote) for vote in votes)
    return next(vote for vote in votes if votes.count(vote) == most), "coda"


@pytest.mark.parametrize("direct", [*product("12", repeat=2), ("1", "2", "3")])
@pytest.mark.parametrize("code", [*product("13", repeat=2), ("2", "2", "2")])
def test_algorithm_2_is_the_papers(direct: tuple[str, ...], code: tuple[str, ...]) -> None:
    made, lm = engine(with_programs([f"print({c})" for c in code], list(direct), ("3",)))
    budget = CODING.replace(num_attempts_baseline=len(direct), num_attempts_coding=len(code), early_exit="off")
    prediction = AdaptiveCoda(budget, lm=lm)(question="Q?")
    answer, step = paper(direct, code, "3")
    assert prediction.answer == answer
    assert made.count("code") == (0 if step == "direct" else len(code))
    assert made.count("reflect") == (1 if step == "coda" else 0)


@pytest.mark.parametrize("direct", [*product("12", repeat=2), ("1", "2", "3")])
@pytest.mark.parametrize("code", [*product("13", repeat=2), ("2", "2", "2")])
@pytest.mark.parametrize("early_exit", ["off", "lossless"])
def test_with_the_path_code_first_only_the_order_of_the_steps_changes(
    direct: tuple[str, ...], code: tuple[str, ...], early_exit: str
) -> None:
    made, lm = engine(with_programs([f"print({c})" for c in code], list(direct), ("3",)))
    budget = CODING.replace(num_attempts_baseline=len(direct), num_attempts_coding=len(code), early_exit=early_exit)
    prediction = AdaptiveCoda(budget.replace(first_path="code"), lm=lm)(question="Q?")
    answer, step = paper(code, direct, "3")
    assert prediction.answer == answer
    if early_exit == "off":
        assert made.count("direct") == (0 if step == "direct" else len(direct))  # `paper` calls its first step so


def test_an_answer_that_programs_agree_on_has_the_path_code() -> None:
    _, lm = engine(with_programs(["print(7)"], ["1", "2", "7"]))
    prediction = AdaptiveCoda(CODING, lm=lm)(question="Q?")
    assert (prediction.answer, prediction.path) == ("7", "code")
    assert prediction.ledger.calls("reflect") == 0


def test_a_program_is_reformulated_with_problem_program_and_feedback_until_it_works() -> None:
    def script(call: ScriptedCall) -> str:
        if call.stage == "code":
            return block("print(1 / 0)")
        return block("print(5)") if call.sample.step == "refine-1" else block("print(undefined)")

    made, lm = engine(script)
    budget = Budget(num_attempts_baseline=0, num_attempts_coding=1, num_attempts_coda=0, refine_rounds=4)
    prediction = AdaptiveCoda(budget, lm=lm)(question="How many?")
    assert prediction.answer == "5"
    assert made.count("refine") == 2
    first, second = (call.prompt for call in made.calls if call.stage == "refine")
    assert "How many?" in first and "print(1 / 0)" in first and "ZeroDivisionError" in first
    assert "How many?" in second and "print(undefined)" in second and "NameError" in second


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_refinement_never_exceeds_its_rounds(rounds: int) -> None:
    made, lm = engine(lambda call: block("raise ValueError"))
    budget = Budget(num_attempts_baseline=0, num_attempts_coding=1, num_attempts_coda=0, refine_rounds=rounds)
    AdaptiveCoda(budget, lm=lm)(question="Q?")
    assert sum(call.stage == "refine" and call.sample.path == "code" for call in made.calls) == rounds


def test_the_coding_agent_alone_is_refused_where_it_could_not_answer() -> None:
    _, lm = engine(lambda call: block("print(1)"))
    budget = Budget(num_attempts_baseline=0, num_attempts_coding=1, num_attempts_coda=0)
    with pytest.raises(UserError, match="answers questions of kind math only; raise one of the two"):
        AdaptiveCoda(budget, lm=lm)(question="Which?", kind="choice", choices=["x", "y"])


def test_a_candidate_by_program_shows_what_the_program_computes() -> None:
    _, lm = engine(lambda call: block("print(6 * 7)"))
    budget = Budget(num_attempts_baseline=0, num_attempts_coding=1, num_attempts_coda=0)
    prediction = AdaptiveCoda(budget, lm=lm)(question="Q?")
    assert "print(6 * 7)" in prediction.solution
    assert prediction.solution.endswith("The program computes:\nAnswer: 42")


def test_a_program_may_print_its_answer_in_a_sentence() -> None:
    _, lm = engine(lambda call: block("print('After', 3, 'days, Tom has', 4 * 3, 'apples.')"))
    budget = Budget(num_attempts_baseline=0, num_attempts_coding=1, num_attempts_coda=0)
    assert AdaptiveCoda(budget, lm=lm)(question="Q?").answer == "12"


def planned(path_line: str, made_by: str = "print(8)") -> object:
    """Plans that end with the line given; executions in words answer 5, programs compute 8."""

    def script(call: ScriptedCall) -> str:
        if call.stage == "plan":
            return f"1. Multiply. (high)\n{path_line}"
        if call.stage == "execute" and "```python" in call.prompt:
            return block(made_by)
        return "Answer: 5"

    return script


ONE_PLAN = Budget(best_of_n=1, n_plans=1, use_reflection=False, plan_paths=True)


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("Path: compute", "8"),
        ("**Path:** Compute.", "8"),
        ("Path: reason", "5"),
        ("Path: reason or compute", "5"),
        ("I would compute it.", "5"),
        ("", "5"),
    ],
)
def test_a_plan_says_whether_to_reason_or_to_compute(line: str, answer: str) -> None:
    made, lm = engine(planned(line))
    assert Coda(ONE_PLAN, lm=lm)(question="Q?").answer == answer
    execution = next(call.prompt for call in made.calls if call.stage == "execute")
    assert "1. Multiply. (high)" in execution and "path:" not in execution.lower()


def test_a_planned_program_is_reformulated_too() -> None:
    def script(call: ScriptedCall) -> str:
        return block("print(9)") if call.stage == "refine" else planned("Path: compute", "print(x)")(call)  # type: ignore[operator]

    made, lm = engine(script)
    assert Coda(ONE_PLAN.replace(refine_rounds=1), lm=lm)(question="Q?").answer == "9"
    assert "NameError" in next(call.prompt for call in made.calls if call.stage == "refine")


def test_the_reflector_sees_what_a_planned_program_computes() -> None:
    made, lm = engine(planned("Path: compute"))
    Coda(ONE_PLAN.replace(n_plans=2, use_reflection=True), lm=lm)(question="Q?")
    assert "The program computes:\nAnswer: 8" in next(call.prompt for call in made.calls if call.stage == "reflect")


def test_plans_say_no_path_unless_the_budget_asks_for_it() -> None:
    made, lm = engine(planned("Path: compute"))
    assert Coda(ONE_PLAN.replace(plan_paths=False), lm=lm)(question="Q?").answer == "5"
    assert "Path:" not in made.calls[0].prompt


def test_programs_are_for_maths_only() -> None:
    made, lm = engine(lambda call: "Answer: A" if call.sample.attempt else "Answer: B")
    budget = CODING.replace(num_attempts_baseline=2, num_attempts_coda=0)
    AdaptiveCoda(budget, lm=lm)(question="Which?", kind="choice", choices=["x", "y"])
    assert made.count("code") == 0


def test_one_direct_and_one_coded_answer_that_agree_end_the_question() -> None:
    made, lm = engine(with_programs(["print(4)"], ["4", "5", "6"]))
    prediction = AdaptiveCoda(CODING.replace(stop_on_agreement=True), lm=lm)(question="Q?")
    assert (prediction.answer, prediction.path, len(made.calls)) == ("4", "code", 2)


def test_without_agreement_the_first_answers_are_not_asked_for_again() -> None:
    made, lm = engine(with_programs(["print(8)"], ["4", "4", "6"]))
    prediction = AdaptiveCoda(CODING.replace(stop_on_agreement=True), lm=lm)(question="Q?")
    assert prediction.answer == "4"
    assert (made.count("direct"), made.count("code")) == (2, 1)


# -- code tasks ---------------------------------------------------------------------------------------------------

TASK = {
    "question": "Write double(x), which returns twice x.",
    "kind": "code",
    "entry_point": "double",
    "tests": [{"input": "3", "output": "6", "testtype": "functional"}],
}
RIGHT = "def double(x):\n    return 2 * x"
WRONG = "def double(x):\n    return x + 1"
DIRECT = Budget(num_attempts_baseline=1, num_attempts_coda=0, refine_rounds=2)


def test_a_program_that_fails_a_public_test_is_fixed_on_rich_feedback() -> None:
    made, lm = engine(lambda call: block(RIGHT if call.stage == "refine" else WRONG))
    prediction = AdaptiveCoda(DIRECT, lm=lm)(**TASK)
    assert prediction.answer == RIGHT
    assert made.count("refine") == 1
    prompt = made.calls[1].prompt
    assert TASK["question"] in prompt and WRONG in prompt
    assert "Input:\n3\nExpected:\n6\nGot:\n4" in prompt


def test_a_right_program_is_not_touched() -> None:
    made, lm = engine(lambda call: block(RIGHT))
    assert AdaptiveCoda(DIRECT, lm=lm)(**TASK).answer == RIGHT
    assert len(made.calls) == 1


def test_examples_in_the_statement_serve_where_no_tests_are_given() -> None:
    made, lm = engine(lambda call: block(RIGHT if call.stage == "refine" else WRONG))
    question = f"{TASK['question']}\n\n>>> double(3)\n6\n"
    prediction = AdaptiveCoda(DIRECT, lm=lm)(question=question, kind="code", entry_point="double")
    assert prediction.answer == RIGHT
    assert made.count("refine") == 1


def test_programs_vote_by_behaviour_and_one_that_fails_public_tests_has_no_vote() -> None:
    same = "def double(number):\n    return number + number"
    programs = [WRONG, RIGHT, WRONG, same]
    _, lm = engine(lambda call: block(programs[call.sample.attempt]))
    budget = Budget(num_attempts_baseline=4, num_attempts_coda=0, early_exit="off")
    prediction = AdaptiveCoda(budget, lm=lm)(**TASK)
    assert prediction.answer == RIGHT
    assert prediction.votes == {RIGHT: 2}


def test_programs_that_differ_on_a_proposed_input_are_no_longer_one_class() -> None:
    lucky = "def double(x):\n    return 6"
    programs = [lucky, RIGHT, "def double(n):\n    return n * 2"]

    def script(call: ScriptedCall) -> str:
        if call.stage == "judge":
            return "Edge:\n```\n0\n```\nNonsense:\n```\nzero, one\n```\nLarge:\n```json\n100000\n```"
        return block(programs[call.sample.attempt])

    made, lm = engine(script)
    budget = Budget(num_attempts_baseline=3, num_attempts_coda=0, early_exit="off")
    prediction = AdaptiveCoda(budget, lm=lm)(**TASK)
    assert prediction.votes == {lucky: 1, RIGHT: 2}
    assert prediction.answer == RIGHT
    assert made.count("judge") == 1


def test_where_there_is_no_vote_no_inputs_are_asked_for() -> None:
    made, lm = engine(lambda call: block(RIGHT))
    AdaptiveCoda(DIRECT, lm=lm)(**TASK)
    assert made.count("judge") == 0


def test_where_every_program_fails_the_most_frequent_behaviour_is_given() -> None:
    other = "def double(x):\n    return 0"
    programs = [other, WRONG, "def double(y):\n    return y + 1"]
    _, lm = engine(lambda call: block(programs[call.sample.attempt]))
    budget = Budget(num_attempts_baseline=3, num_attempts_coda=0, early_exit="off")
    assert AdaptiveCoda(budget, lm=lm)(**TASK).answer == WRONG


def test_algorithm_1_writes_compares_and_tests_programs() -> None:
    def script(call: ScriptedCall) -> str:
        if call.stage == "plan":
            return "1. Multiply. (high)"
        if call.stage == "execute":
            return block(WRONG if call.sample.plan == 0 else RIGHT)
        return block(RIGHT)

    made, lm = engine(script)
    prediction = Coda(Budget(best_of_n=1, n_plans=2), lm=lm)(**TASK)
    assert (prediction.answer, prediction.path) == (RIGHT, "coda")
    (reflection,) = (call.prompt for call in made.calls if call.stage == "reflect")
    assert "It fails:\nInput:\n3" in reflection
    assert "It passes the tests that are known." in reflection


def test_a_failing_program_of_algorithm_1_is_better_than_none() -> None:
    made, lm = engine(lambda call: "1. Do. (high)" if call.stage == "plan" else block(WRONG))
    prediction = AdaptiveCoda(Budget(num_attempts_baseline=0, best_of_n=1, n_plans=1), lm=lm)(**TASK)
    assert prediction.answer == WRONG
    assert made.count("direct") == 0


def test_a_passing_program_is_not_lost_to_a_synthesis_that_breaks_it() -> None:
    def script(call: ScriptedCall) -> str:
        return "1. Do. (high)" if call.stage == "plan" else block(WRONG if call.stage == "reflect" else RIGHT)

    _, lm = engine(script)
    assert Coda(Budget(best_of_n=1, n_plans=2), lm=lm)(**TASK).answer == RIGHT


def test_a_reply_is_begun_for_an_engine_that_continues_one() -> None:
    def script(call: ScriptedCall) -> str:
        begun = call.request.messages[-1]
        return "\n    return 3\n```" if begun.role == "assistant" else "no"

    made, lm = engine(script)
    lm.engine.continues_replies = True
    budget = Budget(num_attempts_baseline=0, num_attempts_coding=1, num_attempts_coda=0)
    assert AdaptiveCoda(budget, lm=lm)(question="Q?").answer == "3"
    assert made.calls[0].request.messages[-1].text == "```python\ndef solution():"


def test_the_coder_shows_a_worked_example() -> None:
    made, lm = engine(lambda call: block("print(3)"))
    budget = Budget(num_attempts_baseline=0, num_attempts_coding=1, num_attempts_coda=0)
    AdaptiveCoda(budget, lm=lm)(question="Q?")
    assert "    left = bought - 17\n    return left" in (made.calls[0].request.messages[1].text or "")


TWO_TESTS = {
    **TASK,
    "tests": [*TASK["tests"], {"input": "1", "output": "2", "testtype": "functional"}],
}


@pytest.mark.parametrize("fix", ["No program here.", Reply.cut("def"), block("def double(x):\n    return None")])
def test_a_correction_that_is_worse_loses_to_the_program_that_it_should_correct(fix: object) -> None:
    half_right = "def double(x):\n    return 2"
    _, lm = engine(lambda call: fix if call.stage == "refine" else block(half_right))
    prediction = AdaptiveCoda(DIRECT, lm=lm)(**TWO_TESTS)
    assert (prediction.answer, prediction.trusted) == (half_right, False)


@pytest.mark.parametrize("best_of_n", [1, 2])
def test_a_program_that_passes_is_not_lost_to_a_reflection_that_fails(best_of_n: int) -> None:
    def script(call: ScriptedCall) -> object:
        if call.stage == "plan":
            return "1. Do. (high)"
        if call.stage == "reflect":
            return Reply.cut("hm")
        return block(RIGHT if call.sample.plan == 2 else WRONG)

    _, lm = engine(script)
    prediction = Coda(Budget(best_of_n=best_of_n, n_plans=3), lm=lm)(**TASK)
    assert (prediction.answer, prediction.trusted) == (RIGHT, True)


def test_inputs_are_proposed_from_assertions_too() -> None:
    lucky = "def double(x):\n    return 6"
    programs = [lucky, RIGHT, "def double(n):\n    return n * 2"]

    def script(call: ScriptedCall) -> str:
        if call.stage == "judge":
            assert "double(3)" in call.prompt
            return "```\ndouble(0)\n```\n```\nother(1)\n```"
        return block(programs[call.sample.attempt])

    _, lm = engine(script)
    budget = Budget(num_attempts_baseline=3, num_attempts_coda=0, early_exit="off")
    prediction = AdaptiveCoda(budget, lm=lm)(**{**TASK, "tests": ["assert double(3) == 6"]})
    assert prediction.votes == {lucky: 1, RIGHT: 2}


def test_the_reflector_is_not_told_of_tests_that_there_are_not() -> None:
    made, lm = engine(lambda call: "1. Do. (high)" if call.stage == "plan" else block(RIGHT))
    Coda(Budget(best_of_n=1, n_plans=2), lm=lm)(**{**TASK, "tests": []})
    (prompt,) = (call.prompt for call in made.calls if call.stage == "reflect")
    assert "No tests are known." in prompt and "It passes" not in prompt


def test_what_a_failing_synthesis_came_to_is_in_the_transcript() -> None:
    def script(call: ScriptedCall) -> str:
        return "1. Do. (high)" if call.stage == "plan" else block(WRONG)

    _, lm = engine(script)
    prediction = Coda(Budget(best_of_n=1, n_plans=2), lm=lm)(**TASK)
    assert any(step.stage == "reflect" and "Got:\n4" in step.text for step in prediction.transcript)
    assert not prediction.trusted


def test_a_plan_that_is_only_a_path_is_no_plan() -> None:
    made, lm = engine(lambda call: "Path: compute" if call.stage == "plan" else "Answer: 5")
    Coda(ONE_PLAN, lm=lm)(question="Q?")
    assert made.count("execute") == 0
