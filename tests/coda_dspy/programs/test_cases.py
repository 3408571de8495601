import pytest

from coda_dspy.errors import UserError
from coda_dspy.programs import Case, cases_in


def test_doctest_lines_of_a_statement_become_cases() -> None:
    statement = "Add.\n\n>>> add(2, [1, 'x'])\n(3, None)\n>>> other(1)\n2\n>>> add(y=1)\n1\n>>> add(1)\nnot a value\n"
    wanted = ["assert add(2, [1, 'x']) == (3, None)", "assert add(y=1) == 1"]
    assert [case.input for case in cases_in(statement, "add")] == wanted


def test_input_and_output_blocks_become_cases() -> None:
    statement = "Sum.\n\nInput:\n1 2\n3\n\nOutput:\n6\n\nInput:\n```\n5\n```\nOutput:\n```\n5\n```\n"
    assert cases_in(statement) == [Case("1 2\n3\n", "6\n"), Case("5\n", "5\n")]


def test_headings_that_describe_the_form_in_words_are_no_examples() -> None:
    statement = (
        "Sum.\n\n-----Input-----\n\nThe first line has n.\n\n-----Output-----\n\nPrint the sum.\n\n"
        "-----Examples-----\n\nInput\n1 2\n\nOutput\n3\n"
    )
    assert cases_in(statement) == [Case("1 2\n", "3\n")]
    assert cases_in("Input\nThe first line has n.\n\nOutput\nPrint the sum.\n") == []


def test_a_statement_without_examples_has_no_cases() -> None:
    assert cases_in("Write a function that adds.", "add") == []
    assert cases_in("Input is read, output is written.") == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (5, "is no case"),
        ({"input": "1"}, "write an object with the texts input and output"),
        ({"input": "1", "output": "1", "testtype": "magic"}, "testtype 'magic'; it has to be one of"),
        ({"input": "1,", "output": "1", "testtype": "functional"}, "is no JSON"),
    ],
)
def test_what_is_no_case_is_refused(row: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Case.of(row)


def test_a_text_is_a_snippet() -> None:
    assert Case.of("assert f(1) == 2") == Case("assert f(1) == 2", form="snippet")


@pytest.mark.parametrize("text", ["x = 1", "", "def check(candidate):\n    assert candidate(1) == 2", "assert ("])
def test_a_text_that_asserts_nothing_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"asserts nothing when it runs|no Python code"):
        Case.of(text, "tests, number 1")


def test_inputs_that_are_named_become_arguments_in_their_order() -> None:
    statement = (
        "Two sum.\n\nExample 1:\n\nInput: nums = [2,7], target = 9\nOutput: [0,1]\nExplanation: it is.\n\n"
        "**Input:** nums = [], target = 0\n**Output:** null\n"
    )
    assert [case.input for case in cases_in(statement, "two")] == [
        "assert two([2,7], 9) == [0,1]",
        "assert two([], 0) == None",
    ]
    of_class = cases_in(f"{statement}\n\nclass Solution:\n    def two(self, nums, target):", "two")
    assert of_class[0].input == "assert Solution().two([2,7], 9) == [0,1]"


def test_values_of_doctests_keep_their_types() -> None:
    (case,) = cases_in(">>> f({1: (2, 3)})\n(4, {5})\n", "f")
    assert case.input == "assert f({1: (2, 3)}) == (4, {5})"


@pytest.mark.parametrize(
    "statement",
    [
        "Input\nn: an integer\n\nOutput\nits double\n",
        "Input\nTwo integers in one line\n\nOutput\nTheir sum\n",
    ],
)
def test_a_form_is_no_example(statement: str) -> None:
    assert cases_in(statement) == []


def test_explanations_are_no_part_of_an_output() -> None:
    assert cases_in("Input\n3\nOutput\n6\nExplanation: twice 3\n") == [Case("3\n", "6\n")]
