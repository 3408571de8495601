"""Question files of a stranger: read, or refused with a reason that names the line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coda_dspy.data.benchmarks import BENCHMARKS
from coda_dspy.data.benchmarks.row import Row
from coda_dspy.data.jsonl import parse
from coda_dspy.errors import UserError

VALID: list[dict[str, Any]] = [
    {"id": "1", "question": "How much?", "answer": "3/4", "kind": "math", "integer": False},
    {"id": "2", "question": "Which?", "answer": "B", "kind": "choice", "choices": ["one", "two"]},
    {"id": "3", "question": "Write f.", "kind": "code", "entry_point": "f", "tests": ["assert f(1) == 2"]},
    {
        "id": "4",
        "question": "Write it.",
        "kind": "code",
        "previous": "3",
        "private": True,
        "meta": {"level": 1},
        "public_tests": [{"input": "1\n", "output": "2\n", "testtype": "stdin", "before": "", "seconds": 1}],
    },
]
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["../../etc/passwd", "/etc/passwd", "C:\\con", "NUL", "a\x00b", "\x1b]0;owned\x07", "x" * 5_000, "1", "3"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([10**30, 1e308, float("nan"), -0.0]) | TEXTS,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(TEXTS, part, max_size=3),
    max_leaves=5,
)
NAMES = sorted({name for record in VALID for name in record})
CHANGES = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(NAMES), VALUES), max_size=3)


def read_or_refused(read: Callable[[], Any]) -> None:
    try:
        read()
    except UserError as error:
        assert str(error)


@settings(max_examples=200)
@given(changes=CHANGES, need_answers=st.booleans())
def test_a_changed_file_is_read_whole_or_refused(changes: list[tuple[int, str, Any]], need_answers: bool) -> None:
    records = [dict(record) for record in VALID]
    for place, name, value in changes:
        records[place][name] = value
    raw = "\n".join(map(json.dumps, records)).encode()
    read_or_refused(lambda: [(q.task, q.grade(None)) for q in parse(raw, "f.jsonl", need_answers)])


@given(raw=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_a_file_of_anything_is_refused(raw: bytes) -> None:
    read_or_refused(lambda: parse(raw, "f.jsonl", need_answers=False))
    read_or_refused(lambda: parse(b'{"question": ' + raw + b"}", "f.jsonl", need_answers=False))


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "a\x00b", "x" * 100_000, "CON", "nul.txt", "C:\\x", "."])
def test_an_id_that_looks_like_a_path_is_only_a_name(name: str) -> None:
    (question,) = parse(json.dumps({"id": name, "question": "How much?"}).encode(), "f.jsonl", need_answers=False)
    assert question.id == name


@pytest.mark.parametrize(
    "previous", [{"1": "1"}, {"1": "2", "2": "1"}, {"1": "2", "2": "3", "3": "1"}, {"2": "1", "3": "1"}]
)
def test_steps_that_could_never_be_asked_are_refused(previous: dict[str, str]) -> None:
    rows = [{"id": id, "question": "How much?", "previous": previous.get(id)} for id in ("1", "2", "3")]
    with pytest.raises(UserError, match="tangled"):
        parse("\n".join(map(json.dumps, rows)).encode(), "f.jsonl", need_answers=False)


def test_an_entry_point_that_is_no_text_is_refused() -> None:
    with pytest.raises(UserError, match=r"line 1: entry_point is a number"):
        parse(json.dumps({**VALID[2], "entry_point": 5}).encode(), "f.jsonl", need_answers=True)


ROWS: dict[str, dict[str, Any]] = {
    "aime2024": {"id": 1, "problem": "How much?", "answer": "025"},
    "aime2026": {"problem_idx": 1, "problem": "How much?", "answer": 25},
    "math500": {"unique_id": "a", "problem": "How much?", "answer": "1", "level": 1, "subject": "x"},
    "gsm8k": {"question": "How much?", "answer": "#### 1"},
    "numinamath": {"problem": "How much?", "solution": "\\boxed{1}", "source": "x"},
    "mmlu": {"question": "Which?", "choices": ["a", "b"], "answer": 1, "subject": "x"},
    "arc-easy": {"id": "a", "question": "Which?", "choices": {"label": ["A"], "text": ["a"]}, "answerKey": "A"},
    "humaneval": {"task_id": "a", "prompt": "def f():", "entry_point": "f", "test": "assert f()"},
    "mbpp": {"task_id": 11, "prompt": "f", "test_list": ["assert f()"], "test_imports": [], "code": "def f(): 1"},
}
ODD = st.sampled_from(["1" * 5_000, "def f(:\x00", "-" * 9_000 + "1", [str(n) for n in range(12)], 11])


@settings(max_examples=300)
@given(name=st.sampled_from(sorted(ROWS)), data=st.data())
def test_a_changed_row_of_a_benchmark_is_converted_or_refused(name: str, data: st.DataObject) -> None:
    row = dict(ROWS[name])
    for _ in range(data.draw(st.integers(0, 2))):
        row[data.draw(st.sampled_from(sorted(row)))] = data.draw(VALUES | ODD)
    read_or_refused(lambda: BENCHMARKS[name]._questions([row], name))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("aime2024", {"answer": "1" * 5_000}),
        ("mmlu", {"choices": list("abcdefghijkl"), "answer": 11}),
        ("arc-easy", {"choices": {"label": list("ABCDEFGHIJKL"), "text": list("abcdefghijkl")}, "answerKey": "L"}),
        ("mbpp", {"code": "def f(): 1\x00"}),
    ],
)
def test_rows_beyond_what_can_be_read_are_refused(name: str, change: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="row 1: "):
        BENCHMARKS[name]._questions([{**ROWS[name], **change}], name)


def test_a_scicode_row_reads_no_file_but_the_supplied_steps(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("what nobody may read")
    folder = tmp_path / "rows"
    folder.mkdir()
    step: dict[str, Any] = {"step_number": "../secret", "step_description_prompt": "x", "function_header": "def f():"}
    step["test_cases"] = ["assert f()"]
    for second in ({**step, "step_number": "13.6"}, {**step, "step_number": "1.2"}):
        row = Row("scicode", 1, {"sub_steps": [step, second]}, folder)
        try:
            made = repr(list(BENCHMARKS["scicode"].convert(row)))
        except UserError as error:
            made = str(error)
        assert "what nobody may read" not in made
