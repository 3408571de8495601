"""Answers are scored as the official graders score them, through the questions that the loaders make."""

import json
from typing import Any

import pytest

from coda_dspy import answers
from coda_dspy.data import BENCHMARKS, Question
from coda_dspy.data.benchmarks.row import Row


def question(benchmark: str, **fields: Any) -> Question:
    (made,) = BENCHMARKS[benchmark].convert(Row(benchmark, 1, fields))
    return made


def grade(asked: Question, reply: str) -> bool | None:
    """The way of a reply: its answer is found, then graded."""
    return asked.grade(answers.extract(asked.task, reply))


# AIME


@pytest.mark.parametrize("gold", ["025", "25", 25])
@pytest.mark.parametrize(
    ("given", "right"),
    [
        ("25", True),
        ("025", True),
        ("25.5", False),
        ("2.5", False),
        ("125", False),
        ("-25", False),
        ("", False),
        ("50/2", False),
        ("\\sqrt{625}", False),
    ],
)
def test_aime_compares_integers_exactly(gold: object, given: str, right: bool) -> None:
    assert question("aime2024", problem="Find it.", answer=gold).grade(given) is right


def test_no_answer_to_a_known_question_is_wrong() -> None:
    assert question("aime2024", problem="Find it.", answer=0).grade(None) is False


# MATH


MATH = [
    ("\\frac{3}{56}", "3/56", "\\frac{3}{65}"),
    ("\\dfrac{17}{50}", "0.34", "0.35"),
    ("\\{1,-2, 3\\}", "\\{3, 1, -2\\}", "\\{3, 1, 2\\}"),
    ("1,-2", "-2, 1", "-2"),
    ("(3, \\infty)", "(3,\\infty)", "[3,\\infty)"),
    ("\\left[ -\\frac{1}{2}, 4 \\right)", "[-0.5, 4)", "[-0.5, 4]"),
    ("(-\\infty, 0) \\cup (5, 9]", "(-\\infty,0)\\cup(5,9]", "(-\\infty,0)\\cup(5,9)"),
    (
        "\\begin{pmatrix} 1/4 & 0 \\\\ -2 & 3 \\end{pmatrix}",
        "\\begin{pmatrix} \\frac14 & 0 \\\\ -2 & 3 \\end{pmatrix}",
        "\\begin{pmatrix} 0 & \\frac14 \\\\ -2 & 3 \\end{pmatrix}",
    ),
    ("\\text{Tuesday}", "Tuesday", "Thursday"),
    ("\\text{(B)}", "B", "C"),
    ("120^\\circ", "120", "12"),
    ("45 \\text{ miles}", "45", "54"),
    ("12\\%", "12", "0.12"),
    ("\\$7.50", "7.5", "75"),
    ("2\\frac{3}{4}", "\\frac{11}{4}", "\\frac{6}{4}"),
    ("4\\sqrt{3}", "\\sqrt{48}", "3\\sqrt{4}"),
    ("\\left(2, \\frac{\\pi}{3}\\right)", "(2, \\pi/3)", "(\\pi/3, 2)"),
    ("2x^2 - 3x + 1", "(2x-1)(x-1)", "(2x+1)(x-1)"),
    ("y = 2x - 5", "y=2x-5", "y=2x+5"),
    ("203_7", "203_{7}", "203_8"),
    ("10,000", "10000", "1000"),
    ("7 - 2i", "-2i+7", "7+2i"),
]


@pytest.mark.parametrize(("gold", "right", "wrong"), MATH)
def test_math_answers_are_compared_by_meaning(gold: str, right: str, wrong: str) -> None:
    asked = question("math500", problem="How much?", answer=gold, subject="Algebra", level=1, unique_id="test/1.json")
    assert [grade(asked, f"So it is $\\boxed{{{text}}}$.") for text in (gold, right, wrong)] == [True, True, False]


# GSM8K


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("So she has #### 1,234", True),
        ("The answer is $1,234.", True),
        ("Answer: 1234 dollars", True),
        ("**Answer:** \\$1{,}234.00", True),
        ("1234.5 is the answer. Answer: 1234.5", False),
        ("Answer: 1,2345", False),
        ("Answer: 123", False),
    ],
)
def test_gsm8k_ignores_commas_currency_and_units(reply: str, right: bool) -> None:
    assert grade(question("gsm8k", question="How much?", answer="So 1234.\n#### 1,234"), reply) is right


# Letters


TEN = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@pytest.mark.parametrize("place", range(10))
def test_letters_go_from_a_to_j(place: int) -> None:
    asked = Question("a", "Which?", "ABCDEFGHIJ"[place], "choice", TEN)
    assert grade(asked, f"Answer: ({asked.answer})") is True
    assert grade(asked, f"Answer: {TEN[place]}") is True
    assert grade(asked, f"Answer: {'ABCDEFGHIJ'[place - 1]}") is False


def test_the_last_declaration_counts_in_any_language() -> None:
    asked = question("mmlu", question="Welche?", subject="x", choices=["Ulm", "Bonn", "Köln", "Kiel"], answer=2)
    assert grade(asked, "Antwort: A\n\nHalt, das stimmt nicht.\n\nAntwort: C") is True
    assert grade(asked, "Answer: C\nNo, wait.\nAnswer: A") is False


def test_no_letter_is_guessed_from_a_first_character() -> None:
    asked = question("mmlu", question="Which?", subject="x", choices=["w", "x", "y", "z"], answer=0)
    assert grade(asked, "Answer: Let's think about it.") is False
    assert grade(asked, "A long story about nothing.") is False


# Programs


def stdin(output: str) -> Question:
    return question(
        "livecodebench-v5",
        question_content="Print it.",
        question_id="x",
        contest_date="2024-09-01T00:00:00",
        public_test_cases=json.dumps([{"input": "", "output": output, "testtype": "stdin"}]),
    )


@pytest.mark.parametrize(
    ("printed", "right"),
    [
        ("1.50 2\nyes\n", True),
        ("  1.5 2.0  \n\tyes\n\n\n", True),
        ("15e-1 2\nyes", True),
        ("1.5  2\nyes", True),
        ("1.5 2 yes", False),
        ("1.5 2\n\nyes", False),
        ("1.5 2\nYes", False),
        ("1.5000001 2\nyes", False),
        ("1.5 2\nyes\nno", False),
        ("", False),
    ],
)
def test_outputs_are_compared_line_by_line_and_as_decimals(printed: str, right: bool) -> None:
    assert stdin("1.50 2\nyes\n").grade(f"print({printed!r}, end='')") is right


def test_decimals_are_exact() -> None:
    assert stdin("0.30").grade("print('0.3')") is True
    assert stdin("0.30").grade("print(0.1 + 0.2)") is False


def test_returned_values_are_compared_with_tuples_as_lists() -> None:
    asked = question(
        "livecodebench-v5",
        question_content="Return them.",
        question_id="x",
        contest_date="2024-09-01T00:00:00",
        public_test_cases='[{"input": "1\\n[2]", "output": "[1, [2]]", "testtype": "functional"}]',
        metadata='{"func_name": "pair"}',
    )
    of = "class Solution:\n    def pair(self, a, b):\n        return "
    assert [asked.grade(of + value) for value in ("(a, b)", "[a, tuple(b)]", "[a, [2.0]]")] == [True] * 3
    assert [asked.grade(of + value) for value in ("[b, a]", "'[1, [2]]'", "{a}", "None")] == [False] * 4


def test_without_tests_there_is_no_verdict() -> None:
    assert Question("a", "Write it.", "", "code").grade("print(1)") is None


def test_no_program_is_wrong() -> None:
    assert stdin("1").grade(None) is False
