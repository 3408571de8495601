"""AIME, MATH-500, GSM8K and NuminaMath: rows in the official columns, written for these tests."""

import logging
from typing import Any

import pytest

from coda_dspy.data import BENCHMARKS, Question
from coda_dspy.data.benchmarks.maths import boxes_in
from coda_dspy.data.benchmarks.row import Row
from coda_dspy.errors import UserError

AIME = {"id": 7, "problem": "Find $m+n$.", "solution": "…", "answer": "025", "url": "…", "year": "2024"}
MATH = {
    "problem": "What is half of one?",
    "solution": "It is $\\boxed{\\frac{1}{2}}$.",
    "answer": "\\frac{1}{2}",
    "subject": "Prealgebra",
    "level": 2,
    "unique_id": "test/prealgebra/1.json",
}
GSM8K = {"question": "Ann sells 2,000 pens for $2 each. How much?", "answer": "2000*2=<<2000*2=4000>>4000\n#### 4,000"}
NUMINA = {
    "source": "olympiads",
    "problem": "How many are there?",
    "solution": "First \\boxed{\\frac{1}{2}}, so again $\\boxed{\\frac{1}{2}}$.",
    "messages": [],
}


def questions(name: str, *fields: dict[str, Any]) -> list[Question]:
    rows = [Row(name, number, row) for number, row in enumerate(fields, start=1)]
    return [question for row in rows for question in BENCHMARKS[name].convert(row)]


@pytest.mark.parametrize("name", ["aime2024", "aime2025"])
@pytest.mark.parametrize("answer", ["025", "25", 25])
def test_an_aime_answer_is_an_integer_without_leading_zeros(name: str, answer: object) -> None:
    (question,) = questions(name, AIME | {"answer": answer})
    assert (question.id, question.question, question.answer) == (f"{name}/7", "Find $m+n$.", "25")


def test_aime_2026_is_numbered_by_problem() -> None:
    (question,) = questions("aime2026", {"problem_idx": 12, "answer": 0, "problem": "Find it."})
    assert question == Question("aime2026/12", "Find it.", "0", integer=True)


def test_an_aime_row_without_an_id_has_its_place() -> None:
    assert questions("aime2025", {"problem": "One?", "answer": "1"})[0].id == "aime2025/1"
    assert questions("aime2025", {"problem": "One?", "answer": "1", "id": 0})[0].id == "aime2025/0"


@pytest.mark.parametrize("answer", ["25.5", "1000", "-1", "", None, "25 or 26", True, 2.0])
def test_what_is_no_aime_answer_is_refused(answer: object) -> None:
    with pytest.raises(UserError, match="answer"):
        questions("aime2024", AIME | {"answer": answer})


def test_math500_keeps_the_answer_as_it_is() -> None:
    (question,) = questions("math500", MATH)
    assert question.id == "math500/test/prealgebra/1.json"
    assert question.answer == "\\frac{1}{2}"
    assert question.meta == {"level": "level 2", "topic": "Prealgebra"}


def test_gsm8k_takes_what_stands_behind_the_marks() -> None:
    first, second = questions("gsm8k", GSM8K, GSM8K | {"answer": "#### -3.5"})
    assert (first.id, first.answer) == ("gsm8k/1", "4000")
    assert (second.id, second.answer) == ("gsm8k/2", "-3.5")


def test_gsm8k_without_marks_is_refused() -> None:
    with pytest.raises(UserError, match="no number behind ####"):
        questions("gsm8k", GSM8K | {"answer": "It is 4000."})


def test_numinamath_takes_what_is_boxed() -> None:
    (question,) = questions("numinamath", NUMINA)
    assert question == Question("numinamath/1", "How many are there?", "\\frac{1}{2}", meta={"source": "olympiads"})


LEFT_OUT = [
    {"solution": "Obvious."},
    {"solution": "So \\boxed{}."},
    {"solution": "So \\boxed{\\frac{1}{2}."},
    {"solution": "First \\boxed{3}, then \\boxed{4}."},
    {"solution": "So \\boxed{(1) 3; (2) 4}."},
    {"problem": "Prove that it is 3."},
    {"problem": "Let $f(1)=2$. (1) Find $f(2)$. (2) Find $f(3)$."},
    {"problem": "(a) How many? (b) How many more?"},
]


@pytest.mark.parametrize("change", LEFT_OUT)
def test_numinamath_leaves_out_what_has_not_exactly_one_answer(change: dict[str, str]) -> None:
    assert questions("numinamath", NUMINA | change) == []


def test_a_function_of_one_and_two_is_no_list_of_parts() -> None:
    assert questions("numinamath", NUMINA | {"problem": "What is $f(1) + f(2)$?"})


def test_how_many_rows_are_left_out_is_counted_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [NUMINA, *(NUMINA | change for change in LEFT_OUT)]
    monkeypatch.setattr("coda_dspy.data.benchmarks.hub.rows", lambda *_: rows)
    with caplog.at_level(logging.WARNING):
        loaded = BENCHMARKS["numinamath"].fetch()
    assert (len(loaded.questions), loaded.left_out) == (1, len(LEFT_OUT))
    assert "numinamath: 8 of 9 rows are left out; taken are those with one boxed answer" in caplog.text


@pytest.mark.parametrize(
    ("text", "boxes"),
    [
        ("\\boxed{\\{1, 2\\}}", ["\\{1, 2\\}"]),
        ("\\boxed {3} and \\boxed{\\text{a}}", ["3", "\\text{a}"]),
        ("\\boxed{1", [""]),
        ("none", []),
    ],
)
def test_boxes_are_balanced(text: str, boxes: list[str]) -> None:
    assert boxes_in(text) == boxes
