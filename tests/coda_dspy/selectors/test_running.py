"""Selectors that run programs: tests of an answer, inputs that tell programs apart, generated tests."""

from dataclasses import replace

import pytest
from ballots import Chosen, cast, chosen

from coda_dspy.candidate import Candidate
from coda_dspy.programs import Case
from coda_dspy.task import Task
from coda_dspy.testing import ScriptedCall

WIDGETS = Task("A box holds some pens. Three boxes and 2 pens are 20 pens. How many pens does a box hold?")
PUTS_BACK = "def check(answer):\n    return 3 * answer + 2 == 20"


def block(program: str) -> str:
    return f"So:\n```python\n{program}\n```"


def checked(*programs: str, answers: str = "776") -> Chosen:
    """What is chosen of answers, of which 6 is right, when the two calls write these tests."""
    return chosen(
        "check", cast(answers), lambda call: block(programs[call.sample.attempt % len(programs)]), task=WIDGETS
    )


def test_the_answer_that_holds_when_it_is_put_back_beats_the_vote() -> None:
    result = checked(PUTS_BACK)
    assert (result.answer, len(result.calls)) == ("6", 2)


@pytest.mark.parametrize(
    "program",
    [
        "def check(answer):\n    return True",
        "def check(answer):\n    return False",
        "def check(answer):\n    return None",
        "def check(answer):\n    raise ValueError(answer)",
        "def check(answer):\n    print('True')\n    return None",
        "print('True')",
        "def check(answer):\n    return",
    ],
    ids=["accepts all", "rejects all", "cannot tell", "fails", "prints a verdict", "no test", "empty"],
)
def test_a_test_that_tells_nothing_leaves_the_choice_to_the_votes(program: str) -> None:
    assert checked(program).answer == "7"


def test_tests_that_contradict_each_other_leave_the_choice_to_the_votes() -> None:
    assert checked(PUTS_BACK, "def check(answer):\n    return answer == 7").answer == "7"


def test_an_answer_that_fails_is_not_replaced_by_one_that_was_not_tested() -> None:
    """The three leading answers of four are tested, and each of them fails in one of the tests."""
    but = "def check(answer):\n    return None if answer == {} else False"
    assert checked(but.format(2), but.format(7), answers="778821").answer == "7"


def test_answers_are_tested_as_numbers_and_others_left_to_the_vote() -> None:
    half = chosen("check", [Candidate(a, a, "direct", i, 1) for i, a in enumerate(["1/3", "\\frac{1}{2}"])],
                  lambda call: block("def check(answer):\n    return answer == 0.5"))  # fmt: skip
    assert half.answer == "\\frac{1}{2}"
    words = [Candidate(a, a, "direct", i, 1) for i, a in enumerate(["x+1", "x+2"])]
    assert chosen("check", words, lambda call: block("def check(answer):\n    return True")).calls == []


def test_other_kinds_are_left_to_the_vote() -> None:
    text = Task("Which?", "text")
    assert chosen("check", cast("122"), lambda call: block(PUTS_BACK), task=text) == ("2", [])


# -- code ------------------------------------------------------------------------------------------------------------

# Both programs pass the public test and differ on the proposed input, so they are two classes.
TASK = replace(
    Task.of("Write double(x), which doubles x.", "code", tests=["assert double(0) == 0"], entry_point="double"),
    probes=(Case("assert double(7) == None", form="snippet"),),
)
RIGHT = "def double(x):\n    return 2 * x"
WRONG = "def double(x):\n    return x * x"
PROGRAMS = [Candidate(p, block(p), "coda", i, 1) for i, p in enumerate([WRONG, RIGHT])]


def told_apart(verdict: object, inputs: str = "```\ndouble(2)\n```\n```\ndouble(3)\n```") -> Chosen:
    def script(call: ScriptedCall) -> str:
        if "Output 1" not in call.prompt:
            return inputs
        return verdict(call) if callable(verdict) else str(verdict)

    return chosen("distinguish", PROGRAMS, script, task=TASK)


def sees_six(call: ScriptedCall) -> str:
    assert "double(3)" in call.prompt and "return" not in call.prompt  # on 2 both put out 4; no program is shown
    return f"It has to be 6.\nRight: {1 if call.prompt.index('6') < call.prompt.index('9') else 2}"


def test_programs_are_told_apart_by_what_they_put_out() -> None:
    result = told_apart(sees_six)
    assert (result.answer, len(result.calls)) == (RIGHT, 3)


@pytest.mark.parametrize("verdict", ["Right: 1", "Right: 2", "no idea"])
def test_a_judge_of_outputs_that_goes_by_the_place_decides_nothing(verdict: str) -> None:
    assert told_apart(verdict).answer == WRONG


@pytest.mark.parametrize(
    "inputs", ["```\ndouble(2)\n```", "no blocks", "```\nother(3)\n```", "```\ndouble('a', 1)\n```"]
)
def test_without_an_input_that_tells_them_apart_nothing_is_judged(inputs: str) -> None:
    result = told_apart("Right: 2", inputs)
    assert (result.answer, len(result.calls)) == (WRONG, 1)


def by_tests(*tests: str) -> Chosen:
    return chosen("codet", PROGRAMS, lambda call: block("\n".join(tests)), task=TASK)


def test_the_program_that_passes_more_generated_tests_is_chosen() -> None:
    result = by_tests("assert double(3) == 6", "assert double(2) == 4", "assert double(5) == 10")
    assert (result.answer, len(result.calls)) == (RIGHT, 2)


def test_votes_count_among_programs_that_agree_with_tests() -> None:
    """One program passes one test, the two others pass the other."""
    others = [RIGHT, "def double(x):\n    return 2 * x if x < 7 else 0"]
    programs = [Candidate(p, block(p), "coda", i, 1) for i, p in enumerate([WRONG, *others])]
    script = lambda call: block("assert double(3) == 9\nassert double(4) == 8")  # noqa: E731
    assert chosen("codet", programs, script, task=TASK).answer == RIGHT


@pytest.mark.parametrize("test", ["assert other(3) == 6", "print(double(3))", "assert double(3)", "double(3) == 6"])
def test_what_is_no_test_of_the_function_is_left_out(test: str) -> None:
    assert by_tests(test).answer == WRONG


def test_tests_of_whole_programs_are_inputs_and_outputs() -> None:
    programs = [
        Candidate(p, block(p), "coda", i, 1)
        for i, p in enumerate(["print(int(input()) ** 2)", "print(2 * int(input()))"])
    ]
    task = Task.of("Double the number.", "code")
    result = chosen("codet", programs, lambda call: "```\n3\n```\n```\n6\n```\n```\n2\n```\n```\n4\n```", task=task)
    assert result.answer == "print(2 * int(input()))"
