"""Private questions, and steps, in our own JSON Lines."""

import json
from pathlib import Path
from typing import Any

import pytest

from coda_dspy.data import Question, read_questions, write_questions
from coda_dspy.errors import UserError
from coda_dspy.programs import Case

SECRET = {
    "id": "secret-id",
    "question": "secret question?",
    "kind": "choice",
    "choices": ["secret one", "secret two"],
    "answer": "A",
    "private": True,
}


def read(folder: Path, *records: dict[str, Any]) -> list[Question]:
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return read_questions(path)


def test_private_is_read_and_is_otherwise_false(tmp_path: Path) -> None:
    assert [q.private for q in read(tmp_path, SECRET, SECRET | {"id": "b", "private": False})] == [True, False]
    with pytest.raises(UserError, match="private is text; give true or false"):
        read(tmp_path, SECRET | {"private": "yes"})


FAULTS = [
    {"answer": "secret one"},
    {"kind": "secret kind"},
    {"choices": ["secret one"]},
    {"answer": None},
    {"meta": "secret"},
    {"id": "other"},
    {"kind": "code", "tests": [{"input": "", "output": "", "testtype": "secret"}]},
    {"kind": "code", "choices": None, "entry_point": "secret point", "tests": ["assert True"]},
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_private_line_is_named_and_not_quoted(tmp_path: Path, fault: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"questions\.jsonl, line 2: .*data/README\.md gives") as caught:
        read(tmp_path, SECRET | {"id": "other"}, SECRET | fault)
    assert "secret" not in str(caught.value).replace(str(tmp_path), "") and "other" not in str(caught.value)


def test_a_broken_private_line_is_not_quoted_either(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text('{"private": true, "question": "secret", "id": }\n')
    with pytest.raises(UserError, match="line 1: ") as caught:
        read_questions(path)
    assert "secret" not in str(caught.value)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    cases = (
        Case("assert f(1) == 1", form="snippet"),
        Case("assert f(2) == 2", form="snippet", before="import math", seconds=60.0),
        Case("3", "3", "functional"),
        Case("4\n", "4\n", before="n = 1"),
    )
    questions = [
        Question("a", "Half of 1?", "\\frac{1}{2}", meta={"level": "easy"}),
        Question("b", "ä\u2028?", "B", "choice", ("x", "y"), private=True),
        Question("c", "Write f.", "", "code", None, {}, cases[:1], cases, "f", previous="b"),
    ]
    write_questions(tmp_path / "all.jsonl", questions)
    assert read_questions(tmp_path / "all.jsonl") == questions
    assert questions[2].previous == "b"
