"""GPQA, MMLU and ARC: rows in the official columns, written for these tests."""

from collections import Counter
from typing import Any

import pytest

from coda_dspy.data import BENCHMARKS, Question
from coda_dspy.data.benchmarks.row import Row
from coda_dspy.errors import UserError

GPQA = {
    "Question": "Which of these is a made-up particle?\n",
    "Correct Answer": "the codaon\n",
    "Incorrect Answer 1": "the electron",
    "Incorrect Answer 2": "the muon",
    "Incorrect Answer 3": "the gluon",
    "High-level domain": "Physics",
    "Subdomain": "Particles",
    "Record ID": "recMadeUp001",
    "Canary String": "…",
}
MMLU = {"question": "Two and two?", "subject": "arithmetic", "choices": ["3", "4", "5", "6"], "answer": 1}
ARC = {
    "id": "Made_2020_1",
    "question": "What melts?",
    "choices": {"text": ["stone", "ice", "air"], "label": ["A", "B", "C"]},
    "answerKey": "B",
}


def convert(name: str, fields: dict[str, Any], number: int = 1) -> Question:
    (question,) = BENCHMARKS[name].convert(Row(name, number, fields))
    return question


def test_gpqa_choices_are_shuffled_and_the_letter_follows() -> None:
    question = convert("gpqa-diamond", GPQA)
    assert question.choices is not None and sorted(question.choices) == [
        "the codaon",
        "the electron",
        "the gluon",
        "the muon",
    ]
    assert question.choices["ABCD".index(question.answer)] == "the codaon"
    assert question.private and question.id == "gpqa-diamond/recMadeUp001"


def test_the_order_depends_on_the_record_id_alone() -> None:
    first = convert("gpqa-diamond", GPQA)
    assert convert("gpqa-diamond", GPQA | {"Question": "Another?"}, number=9).choices == first.choices
    letters = Counter(convert("gpqa-diamond", GPQA | {"Record ID": f"rec{n}"}).answer for n in range(400))
    assert set(letters) == set("ABCD") and min(letters.values()) > 70


def test_the_order_is_the_same_on_every_machine() -> None:
    letters = [convert("gpqa-diamond", GPQA | {"Record ID": f"rec{n}"}).answer for n in range(12)]
    assert "".join(letters) == "AAAADCCACCCA"


@pytest.mark.parametrize("column", [name for name in GPQA if name not in ("High-level domain", "Subdomain")][:-1])
@pytest.mark.parametrize("value", [None, " ", 7, ["the codaon"]])
def test_a_damaged_private_row_is_named_without_its_text(
    column: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [GPQA, GPQA | {"Record ID": "recMadeUp002", column: value}]
    monkeypatch.setattr("coda_dspy.data.benchmarks.hub.rows", lambda *_: rows)
    with pytest.raises(UserError, match=r"^gpqa-diamond, row 2: ") as caught:
        BENCHMARKS["gpqa-diamond"].fetch()
    assert column in str(caught.value)
    assert not any(word in str(caught.value) for word in ("codaon", "muon", "made-up", "recMadeUp"))
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_an_mmlu_answer_is_a_place() -> None:
    question = convert("mmlu", MMLU)
    assert (question.answer, question.choices, question.meta) == ("B", ("3", "4", "5", "6"), {"topic": "arithmetic"})


@pytest.mark.parametrize("answer", [4, -1, "B", None, True])
def test_an_mmlu_answer_without_a_choice_is_refused(answer: object) -> None:
    with pytest.raises(UserError, match="answer"):
        convert("mmlu", MMLU | {"answer": answer})


@pytest.mark.parametrize("name", ["arc-challenge", "arc-easy"])
@pytest.mark.parametrize(
    ("labels", "key", "letter"),
    [("ABC", "B", "B"), ("123", "3", "C"), ("1234", "4", "D"), ("ABCDE", "E", "E"), ("ABCD", "A", "A")],
)
def test_arc_labels_may_be_digits_and_three_to_five(name: str, labels: str, key: str, letter: str) -> None:
    texts = [f"option {label}" for label in labels]
    question = convert(name, ARC | {"choices": {"text": texts, "label": list(labels)}, "answerKey": key})
    assert (question.answer, question.choices, question.id) == (letter, tuple(texts), f"{name}/Made_2020_1")


@pytest.mark.parametrize(
    "change",
    [
        {"answerKey": "D"},
        {"answerKey": None},
        {"choices": None},
        {"choices": ["stone", "ice"]},
        {"choices": {"text": ["stone"], "label": ["A", "B"]}},
        {"choices": {"text": "stone", "label": ["A"]}},
    ],
)
def test_a_damaged_arc_row_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"answerKey|choices|text|label"):
        convert("arc-easy", ARC | change)
