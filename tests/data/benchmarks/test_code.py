"""HumanEval and MBPP: rows in the official columns, written for these tests, and run in the real sandbox."""

from typing import Any

import pytest

from coda_dspy.data import BENCHMARKS, Question
from coda_dspy.data.benchmarks.row import Row
from coda_dspy.errors import UserError

PROMPT = '''from typing import List


def shifted(text: str) -> str:
    """Every letter one further on."""
    return "".join(chr(ord(letter) + 1) for letter in text)


def unshifted(text: str) -> str:
    """
    Take back what `shifted` did.
    >>> unshifted("bc")
    "ab"
    """
'''
CHECK = """METADATA = {}

def check(candidate):
    for text in ('', 'abc'):
        assert candidate(shifted(text)) == text
"""
HUMANEVAL = {
    "task_id": "HumanEval/900",
    "prompt": PROMPT,
    "canonical_solution": '    return "".join(chr(ord(letter) - 1) for letter in text)\n',
    "test": CHECK,
    "entry_point": "unshifted",
}
MBPP = {
    "source_file": "made up",
    "task_id": 11,
    "prompt": "Write a function to find the middle of two numbers.",
    "code": "def helper(a):\n    return a / 2\n\ndef middle(a, b):\n    return helper(a + b)",
    "test_imports": ["import math"],
    "test_list": ["assert math.isclose(middle(1, 2), 1.5)", "assert middle(2, 2) == 2", "assert middle(0, 4) == 2"],
}


def convert(name: str, fields: dict[str, Any]) -> Question:
    (question,) = BENCHMARKS[name].convert(Row(name, 1, fields))
    return question


def test_humaneval_runs_its_check_on_the_whole_function() -> None:
    question = convert("humaneval", HUMANEVAL)
    assert (question.id, question.entry_point, question.public_tests) == ("HumanEval/900", "unshifted", ())
    assert PROMPT.strip() in question.question
    assert question.grade(question.answer) is True
    assert question.grade("def unshifted(text):\n    return text") is False


def test_humaneval_replies_may_leave_out_the_helpers_of_the_prompt() -> None:
    question = convert("humaneval", HUMANEVAL)
    alone = "def unshifted(text: List[str]):\n    return ''.join(chr(ord(letter) - 1) for letter in text)"
    assert question.grade(alone) is True
    assert question.grade(f"from __future__ import annotations\n{alone}") is True
    assert question.grade("x = 1") is False  # the prompt's own function returns nothing


@pytest.mark.parametrize("column", ["task_id", "prompt", "test", "entry_point"])
def test_a_damaged_humaneval_row_is_refused(column: str) -> None:
    with pytest.raises(UserError, match=column):
        convert("humaneval", HUMANEVAL | {column: None})


def test_mbpp_shows_the_assertions_and_makes_the_first_public() -> None:
    question = convert("mbpp", MBPP)
    assert question.id == "mbpp/11" and question.entry_point == "middle"
    assert all(line in question.question for line in MBPP["test_list"])
    assert [case.input for case in question.public_tests] == MBPP["test_list"][:1]
    assert [case.input for case in question.tests] == MBPP["test_list"][1:]


def test_mbpp_brings_the_imports_of_its_tests() -> None:
    question = convert("mbpp", MBPP)
    assert question.grade(question.answer) is True
    assert question.grade("def middle(a, b):\n    return (a + b) // 2") is False
    assert question.grade("def middle(a, b):\n    return 1.5 if b == 2 else 2") is False  # the hidden ones count


@pytest.mark.parametrize(("task", "count"), [(10, 0), (11, 1), (510, 1), (511, 0)])
def test_mbpp_takes_the_test_split_of_the_whole_file(task: int, count: int) -> None:
    assert len(list(BENCHMARKS["mbpp"].convert(Row("mbpp", 1, MBPP | {"task_id": task})))) == count


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test_list": []}, "no verdict"),
        ({"test_list": "assert 1"}, "no list of texts"),
        ({"test_list": ["assert other(1)"]}, "calls no function"),
        ({"code": "def ("}, "no Python"),
        ({"task_id": "x"}, "task_id is no whole number"),
    ],
)
def test_a_damaged_mbpp_row_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        convert("mbpp", MBPP | change)
