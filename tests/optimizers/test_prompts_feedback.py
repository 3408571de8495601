"""What a teacher is told of each role: what was wrong, where, and the right answer."""

from typing import Any

import dspy
import pytest
from prompt_scripts import (
    DIRECT,
    TRAIN,
    VALIDATION,
    Compiling,
    is_sometimes_right,
    knows_the_word,
    needs_the_word,
    number_in,
)
from scripts import engine

from coda_dspy import AdaptiveCoda, Budget, Coda
from coda_dspy.algorithms import CODED_ONCE
from coda_dspy.data import Question
from coda_dspy.optimizers import optimizer_named
from coda_dspy.optimizers.prompts.allowance import Allowance
from coda_dspy.optimizers.prompts.feedback import MOST_FEEDBACK, feedback_on, verdict_on
from coda_dspy.optimizers.prompts.gepa import examples_of
from coda_dspy.optimizers.prompts.interface import Planned
from coda_dspy.optimizers.prompts.search import Search
from coda_dspy.optimizers.prompts.watching import Asked
from coda_dspy.program import Conductor
from coda_dspy.programs import Case
from coda_dspy.testing import Reply, ScriptedCall

SUM = Question("a", "What is 12 + 1?", "13")
SMALL = Budget(best_of_n=1, n_plans=1, max_plan_tries=2)


def asked(program: Conductor, script: Any, question: Question = SUM) -> Asked:
    """One question as an optimizer sees it."""
    _, lm = engine(script)
    allowance = Allowance(Planned(9, None, None), 0, lambda: True, lambda result: None)
    search = Search(program, [], [], lm, lm, 0, 1, allowance, None)
    with dspy.context(lm=lm):
        return search.ask(program, question)


def told(found: Asked) -> dict[str, list[str]]:
    feedback: dict[str, list[str]] = {}
    for call in found.calls:
        feedback.setdefault(call.role.split("coda.")[-1], []).append(feedback_on(call, found))
    return feedback


def by_stage(**replies: str | Reply) -> Any:
    return lambda call: replies[call.stage]


def test_a_wrong_answer_is_told_with_the_right_one() -> None:
    found = told(asked(AdaptiveCoda(DIRECT), by_stage(direct="12 + 1 = 14\nAnswer: 14")))
    assert found == {
        "executor.direct": [
            "This reply came to 14, which is wrong.\n"
            "In the end the answer was 14, which is wrong. The right answer is 13."
        ]
    }


def test_a_right_answer_is_told_too() -> None:
    found = told(asked(AdaptiveCoda(DIRECT), by_stage(direct="Answer: 13.0")))
    assert found["executor.direct"] == [
        "This reply came to 13.0, which is right.\nIn the end the question was answered rightly."
    ]


def test_a_cut_reply_is_told_with_its_limit() -> None:
    (text,) = told(asked(AdaptiveCoda(DIRECT), by_stage(direct=Reply.cut("12 + 1 is, as"))))["executor.direct"]
    assert text.startswith("This reply was lost: cut off after")
    assert "(limit 4096). A reply has to be complete within its limit." in text
    assert text.endswith("In the end there was no answer. The right answer is 13.")


def test_a_reply_without_a_readable_answer_is_told_what_was_asked_for() -> None:
    (text,) = told(asked(AdaptiveCoda(DIRECT), by_stage(direct="That is easy.")))["executor.direct"]
    assert "No final answer can be read in this reply. What was asked for: " in text
    assert "Answer:" in text


def test_a_plan_is_told_what_its_execution_came_to() -> None:
    script = by_stage(plan="1. Subtract. (high)", execute="Answer: 11", reflect="Answer: 11")
    found = told(asked(Coda(SMALL), script))
    assert found["planner.plan"][0].startswith(
        "The execution of this plan was wrong. This reply came to 11, which is wrong."
    )
    assert set(found) == {"planner.plan", "executor.execute", "reflector.reflect"}


def test_each_plan_is_told_of_its_own_execution() -> None:
    def script(call: ScriptedCall) -> str:
        return "1. Add. (high)" if call.stage == "plan" else f"Answer: {13 - call.sample.plan}"

    found = asked(Coda(SMALL.replace(n_plans=2)), script)
    verdicts = {call.sample.plan: verdict_on(call, found).right for call in found.calls if call.gives == "plan"}
    assert verdicts == {0: True, 1: False}
    (example,) = examples_of("planner.plan", [found])
    assert "came to 12, which is wrong" in example["What came of it"]


def test_a_reply_that_was_thrown_away_and_the_one_after_it_are_told_apart() -> None:
    def script(call: ScriptedCall) -> str | Reply:
        if call.stage == "plan" and call.sample.retry == 0:
            return Reply.cut("1. Add, and then")
        return "1. Add. (high)" if call.stage == "plan" else "Answer: 13"

    first, second = told(asked(Coda(SMALL), script))["planner.plan"]
    assert first.startswith("This reply could not be used (it was cut off, or empty), so the step was tried again.")
    assert second.startswith("The execution of this plan was right.")


def test_an_execution_is_told_of_its_own_answer_where_the_synthesis_has_another() -> None:
    script = by_stage(plan="1. Add. (high)", execute="Answer: 11", reflect="Answer: 13")
    found = told(asked(Coda(SMALL), script))
    assert found["executor.execute"][0].startswith("This reply came to 11, which is wrong.")
    assert found["reflector.reflect"][0].startswith("This reply came to 13, which is right.")


def test_a_program_that_fails_is_told_with_what() -> None:
    program = AdaptiveCoda(DIRECT.replace(**CODED_ONCE | {"refine_rounds": 1}))
    script = by_stage(code="```python\nprint(1 / 0)\n```", refine="```python\nprint(12 + 2)\n```")
    found = told(asked(program, script))
    assert "ZeroDivisionError" in found["coder.write"][0]
    assert found["coder.reformulate"][0].startswith("This program came to 14, which is wrong.")


def test_a_code_task_is_told_the_public_tests_that_fail_and_no_hidden_one() -> None:
    public, hidden = Case("1", "2", "functional"), Case("40404", "80808", "functional")
    words = "Write a function twice(x) that gives 2 * x."
    task = Question("c", words, "", "code", public_tests=(public,), tests=(hidden,), entry_point="twice")

    def of(program: str) -> str:
        found = told(asked(AdaptiveCoda(DIRECT), by_stage(direct=f"```python\n{program}\n```"), task))
        return found["coder.task"][0]

    fails, passes_public = of("def twice(x):\n    return 3"), of("def twice(x):\n    return 2")
    assert fails.startswith("This reply came to a program that fails a test. The program fails:\n")
    assert "3" in fails and "40404" not in fails
    assert passes_public.split("\n")[0] == "This reply came to a program that fails a test."
    assert "40404" not in passes_public
    assert of("def twice(x):\n    return 2 * x").startswith("This reply came to a program that passes every test.")


def test_a_judge_is_told_what_it_rated() -> None:
    def script(call: ScriptedCall) -> str:
        if call.stage == "judge":
            return "Rating: 9"
        return "1. Add. (high)" if call.stage == "plan" else f"Answer: {13 + call.sample.attempt}"

    found = told(asked(Coda(SMALL.replace(best_of_n=2, verifier="judge")), script))
    assert sorted(text.split("\n")[0] for text in found["verifier.judge.rate"]) == [
        "The solution came to 13, which is right.",
        "The solution came to 14, which is wrong.",
    ]


def test_feedback_and_examples_are_capped() -> None:
    question = Question("long", "What is 12 + 1? " * 2000, "13")
    found = asked(AdaptiveCoda(DIRECT), by_stage(direct="So it goes. " * 5000 + f"\nAnswer: {'9' * 900}"), question)
    assert all(len(text) <= MOST_FEEDBACK for texts in told(found).values() for text in texts)
    (example,) = examples_of("coda.executor.direct", [found])
    assert len("".join(example.values())) < 4000
    assert "The right answer is 13." in example["What came of it"]


def test_what_gepas_teacher_reads() -> None:
    run = Compiling(optimizer_named("gepa"), needs_the_word, lambda call: "Try again.")
    run.run()
    assert run.taught is not None
    prompt = run.taught.calls[0].prompt
    assert prompt.count("Example ") == 3
    assert "Solve the problem step by step, briefly." in prompt
    assert "Answer: 777" in prompt
    assert "This reply came to 777, which is wrong." in prompt
    shown = [q for q in TRAIN if f"question: {q.question}" in prompt]
    assert len(shown) == 3 and all(f"The right answer is {q.answer}." in prompt for q in shown)
    assert not [q for q in VALIDATION if q.question in prompt]


@pytest.mark.parametrize("name", ["gepa", "mipro", "simba"])
def test_no_teacher_is_sent_long_replies(name: str) -> None:
    def script(call: ScriptedCall) -> str:
        return "so " * (5_000 if number_in(call) % 2 else 20) + is_sometimes_right(call)

    run = Compiling(optimizer_named(name), script, knows_the_word(1))
    run.run()
    assert run.taught is not None and run.taught.calls
    assert all(len(message.text or "") < 20_000 for call in run.taught.calls for message in call.request.messages)
