"""The right answer, or none, out of replies in the styles of many models."""

import json
import time
from pathlib import Path

import pytest
from ending import ends
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coda_dspy import answers
from coda_dspy.task import Task

GOLDEN = [json.loads(line) for line in Path(__file__).with_name("golden.jsonl").read_text("utf-8").splitlines()]
TASKS = [
    Task("How much?"),
    Task("Which?", "choice", ("Paris", "London", "Rome", "None of the above")),
    Task("Who?", "text"),
]
NUMBERS = st.integers(-(10**9), 10**9).map(str) | st.decimals(-9999, 9999, places=2).map(str)
DECLARED = [
    "Answer: {}",
    "**Answer:** {}",
    "**Answer: {}**",
    "The answer is {}.",
    "the final answer is **{}**.",
    "So it is \\boxed{{{}}}.",
    "#### {}",
    "Die Antwort ist {}.",
    "La réponse est : {}",
    "Respuesta: {}",
    "<answer>{}</answer>",
    "Final Answer:\n\n$${}$$",
]


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: f"{row['kind']}-{row['reply'][-24:]!r}")
def test_golden(row: dict) -> None:
    task = Task.of("Which?", row["kind"], row.get("choices"))
    assert answers.extract(task, row["reply"]) == row["want"]


def test_golden_is_large() -> None:
    assert len(GOLDEN) >= 150
    assert sum(row["want"] is None for row in GOLDEN) >= 30


@given(prefix=st.text(), number=NUMBERS, form=st.sampled_from(DECLARED))
@settings(deadline=None, max_examples=200)
def test_a_declared_number_is_found_behind_anything(prefix: str, number: str, form: str) -> None:
    assert answers.extract(TASKS[0], f"{prefix}\n\n{form.format(number)}") == number


FORMULAS = [
    "\\frac",
    "{",
    "}",
    "1",
    "2",
    "x",
    "$",
    "\\(",
    "\\)",
    "\\boxed{",
    "**",
    "=",
    ",",
    "-",
    "½",
    "²",
    "√",
    "\\text{",
]
TALK = ["Answer: ", " is ", "\n", "answer", "A", "(B)", "<think>", "</think>", "<|channel|>", "final", "\x00", "٣", ":"]
LATEX = st.lists(st.sampled_from(FORMULAS + TALK)).map("".join)


@given(reply=st.text() | LATEX, task=st.sampled_from(TASKS))
@example(reply="\\0=*", task=TASKS[0])
@settings(deadline=None, max_examples=400)
def test_nothing_raises_and_what_is_found_equals_itself(reply: str, task: Task) -> None:
    found = answers.extract(task, reply)
    assert found is None or (found.strip() and answers.same(task, found, found))


PIECES = [
    "a",
    "{",
    "\\boxed{",
    "\\boxed{1} and ",
    "Answer: ",
    "the answer ",
    "** a",
    "$1 ",
    "\\( 1",
    "1,",
    "= 1",
    "\\ ",
]
PIECES += ["<think>", "</think>", "#### 1\n", "A) x\n", "Option A ", "between 1 ", "5 m ", "\x00", "½", "<|channel|>"]


@pytest.mark.parametrize("piece", PIECES)
def test_a_megabyte_takes_no_time(piece: str) -> None:
    reply = piece * (1_000_000 // len(piece))
    begun = time.process_time()
    for task in TASKS:
        answers.extract(task, reply)
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("piece", ["a", "km", " ", "\t", '"', "'a", "Answer", "1,", "\\ ", "{", "(a", "- ", "= "])
@pytest.mark.parametrize("form", ["Answer: 5 {}!", "The answer is 1{}x", "\\boxed{{{}5}}", "So $1 {}$ is it!"])
def test_a_declaration_that_repeats_itself_is_read_to_its_end(form: str, piece: str) -> None:
    reply = form.format(piece * (1_900 // len(piece)))
    with ends():
        for task in TASKS:
            answers.extract(task, reply)
            answers.same(task, reply[:2_000], "5 cm")


def test_only_the_end_of_a_long_reply_is_read() -> None:
    assert answers.extract(TASKS[0], "Answer: 1\n" + "word " * 5000 + "\nAnswer: 2") == "2"
    assert answers.extract(TASKS[0], "Answer: 1\n" + "word " * 5000) is None


@pytest.mark.parametrize("task", TASKS)
def test_the_wanted_line_is_found_when_obeyed_and_no_answer_when_echoed(task: Task) -> None:
    line = answers.wanted(task)
    assert "\n" not in line and line.startswith("End with one line: Answer: <")
    assert answers.extract(task, line) is None
    assert answers.extract(task, f"I was told: {line}\nAnswer: B") == "B"


def test_the_wanted_line_names_the_letters() -> None:
    assert "A, B, C or D" in answers.wanted(TASKS[1])
    assert "A or B" in answers.wanted(Task("Which?", "choice", ("yes", "no")))
