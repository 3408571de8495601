"""LiveCodeBench: rows in the official columns, written for these tests; both encodings of the private tests."""

import base64
import json
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest

from coda_dspy.data import BENCHMARKS, Question
from coda_dspy.data.benchmarks.livecodebench import tests_in as decoded
from coda_dspy.data.benchmarks.livecodebench import text_in
from coda_dspy.data.benchmarks.row import Row
from coda_dspy.errors import UserError
from coda_dspy.programs import Case

PUBLIC = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]
PRIVATE = [
    {"input": "2 2\n", "output": "4\n", "testtype": "stdin"},
    {"input": "5 6\n", "output": "11", "testtype": "stdin"},
]
CALLS = [{"input": "[1, 2]\n3", "output": "[4, 5]", "testtype": "functional"}]


def packed(tests: Any) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


ROW = {
    "question_title": "Made up",
    "question_content": "Read two numbers and print their sum.",
    "platform": "atcoder",
    "question_id": "made_1",
    "contest_id": "made",
    "contest_date": "2024-09-01T00:00:00",
    "starter_code": "",
    "difficulty": "easy",
    "public_test_cases": json.dumps(PUBLIC),
    "private_test_cases": packed(PRIVATE),
    "metadata": "{}",
}
CALLED = {
    "question_content": "Add the number to each item.",
    "question_id": "made_2",
    "starter_code": "class Solution:\n    def addAll(self, items: List[int], number: int) -> List[int]:\n        ",
    "public_test_cases": json.dumps(CALLS),
    "private_test_cases": json.dumps(CALLS),
    "metadata": json.dumps({"func_name": "addAll"}),
}


def convert(change: dict[str, Any] | None = None, name: str = "livecodebench-v5") -> list[Question]:
    return list(BENCHMARKS[name].convert(Row(name, 1, ROW | (change or {}))))


@pytest.mark.parametrize("encode", [json.dumps, packed])
def test_private_tests_are_read_in_both_encodings(encode: Any) -> None:
    (question,) = convert({"private_test_cases": encode(PRIVATE)})
    assert question.public_tests == (Case("1 2\n", "3\n"),)
    assert question.tests == (Case("2 2\n", "4\n"), Case("5 6\n", "11"))
    assert all(case.seconds == 6.0 for case in question.public_tests + question.tests)
    assert (question.id, question.entry_point, question.meta["level"]) == ("livecodebench/made_1", None, "easy")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_texts_of_every_pickle_protocol_are_read(protocol: int) -> None:
    assert text_in(pickle.dumps("tests: ü", protocol)) == "tests: ü"


class Hostile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, protocol: int) -> None:
    """The same bytes do harm where they are unpickled as usual, so it is not for lack of trying."""
    pickled = pickle.dumps(Hostile(tmp_path / "harm"), protocol)
    with pytest.raises(pickle.UnpicklingError, match="asks for"):
        text_in(pickled)
    text = base64.b64encode(zlib.compress(pickled)).decode()
    with pytest.raises(UserError, match="private_test_cases is neither JSON nor a packed text of JSON"):
        convert({"private_test_cases": text})
    assert not (tmp_path / "harm").exists()
    pickle.loads(pickled)
    assert (tmp_path / "harm").exists()


OPCODES = [
    b"cos\nsystem\n(S'true'\ntR.",  # GLOBAL and REDUCE
    b"(S'true'\nios\nsystem\n.",  # INST
    b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",  # STACK_GLOBAL
    b"\x80\x02\x82\x01.",  # EXT1
    b"Pid\n.",  # PERSID
    pickle.dumps(["a text in a list"]),
    pickle.dumps(b"bytes"),
    pickle.dumps(None),
    b"",
    b"\x80",
]


@pytest.mark.parametrize("pickled", OPCODES)
def test_nothing_but_a_text_comes_out_of_a_pickle(pickled: bytes) -> None:
    with pytest.raises(Exception, match=r".*"):
        text_in(pickled)
    with pytest.raises(UserError, match="neither JSON nor"):
        decoded(base64.b64encode(zlib.compress(pickled)).decode())


@pytest.mark.parametrize("text", ["no base64!", "bm8gemxpYg==", packed({"no": "list"}), '{"no": "list"}'])
def test_what_is_in_no_encoding_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"neither JSON nor|no list of tests"):
        decoded(text)


def test_functional_problems_have_a_method_and_starter_code() -> None:
    (question,) = convert(CALLED)
    assert question.entry_point == "addAll" and "def addAll" in question.question
    assert question.grade(
        "class Solution:\n    def addAll(self, items, number):\n        return [i + number for i in items]"
    )
    assert question.grade("class Solution:\n    def addAll(self, items, number):\n        return items") is False


def test_all_public_and_private_tests_have_to_pass() -> None:
    (question,) = convert()
    assert question.grade("a, b = map(int, input().split())\nprint(a + b)") is True
    assert question.grade("print(3)") is False  # passes what is public
    assert question.grade("a, b = map(int, input().split())\nprint(a + b if b < 6 else 0)") is False  # fails the last


@pytest.mark.parametrize(
    ("name", "first", "last", "outside"),
    [
        (
            "livecodebench-v5",
            "2024-08-01T00:00:00",
            "2025-02-01T00:00:00",
            ["2024-07-31T00:00:00", "2025-02-02T00:00:00"],
        ),
        (
            "livecodebench-v6",
            "2024-07-01T00:00:00",
            "2025-01-01T00:00:00",
            ["2024-06-30T23:00:00", "2025-01-02T00:00:00"],
        ),
    ],
)
def test_contests_are_taken_by_date_with_both_ends(name: str, first: str, last: str, outside: list[str]) -> None:
    assert [len(convert({"contest_date": date}, name)) for date in (first, last)] == [1, 1]
    assert [len(convert({"contest_date": date}, name)) for date in outside] == [0, 0]


def test_a_release_is_made_of_its_files() -> None:
    assert BENCHMARKS["livecodebench-v5"].files == tuple(f"test{n}.jsonl" for n in ("", 2, 3, 4, 5))
    assert BENCHMARKS["livecodebench-v6"].files == (*BENCHMARKS["livecodebench-v5"].files, "test6.jsonl")


def test_the_files_of_a_release_are_read_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def file(repository: str, name: str, revision: str) -> Path:
        path = tmp_path / name
        rows = [
            ROW | {"question_id": name},
            ROW | {"question_id": f"old {name}", "contest_date": "2023-01-01T00:00:00"},
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    monkeypatch.setattr("coda_dspy.data.benchmarks.hub.file", file)
    loaded = BENCHMARKS["livecodebench-v6"].fetch()
    assert [question.id for question in loaded.questions][:2] == [
        "livecodebench/test.jsonl",
        "livecodebench/test2.jsonl",
    ]
    assert (len(loaded.questions), loaded.left_out) == (6, 6)


def test_problems_that_the_authors_list_as_wrongly_graded_are_marked() -> None:
    changes: list[dict[str, Any]] = [{}, {"question_id": "abc362_c"}, {"question_title": "find-the-peaks"}]
    assert [convert(change)[0].meta["errata"] for change in changes] == [False, True, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"contest_date": "soon"}, "contest_date is no date"),
        ({"public_test_cases": "[]", "private_test_cases": ""}, "no tests; without tests there is no verdict"),
        ({"public_test_cases": '[{"input": 1}]'}, "public_test_cases, number 1 is no case"),
        ({"metadata": "func"}, "metadata is no JSON"),
        ({"question_content": ""}, "question_content is empty"),
    ],
)
def test_a_damaged_row_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        convert(change)


def test_a_functional_row_without_its_method_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROW | CALLED | {"metadata": "{}"}) + "\n")
    with pytest.raises(UserError, match="row 1: tests call a function, but entry_point is missing"):
        BENCHMARKS["livecodebench-v5"].read(path)
