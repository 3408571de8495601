"""LiveCodeBench: contest problems with public and private tests, by release and by the date of the contest."""

import base64
import io
import json
import pickle
import zlib
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any, NoReturn

from coda_dspy.data.benchmarks.benchmark import Benchmark
from coda_dspy.data.benchmarks.row import Row
from coda_dspy.data.question import Question
from coda_dspy.errors import UserError
from coda_dspy.programs.cases import Case

# Problems that the authors list as wrongly graded: several outputs are right, a judge answers, or a test is wrong.
_ERRATA = frozenset(
    {
        *("abc311_c", "abc326_d", "abc327_b", "abc333_e", "abc337_e", "abc343_e", "abc350_c", "abc355_e", "abc362_c"),
        *("find-words-containing-character", "find-the-peaks", "generate-binary-strings-without-adjacent-zeros"),
        "apply-operations-to-make-string-empty",
    }
)
_FILES = ("test.jsonl", "test2.jsonl", "test3.jsonl", "test4.jsonl", "test5.jsonl", "test6.jsonl")


def livecodebench(row: Row, first: datetime, last: datetime) -> Iterator[Question]:
    """One problem, if its contest began from `first` to `last`, both included."""
    begun = _date(row)
    if not first <= begun <= last:
        return
    public = _cases(row, "public_test_cases")
    hidden = _cases(row, "private_test_cases")
    if not public + hidden:
        raise UserError("it has no tests; without tests there is no verdict")
    yield Question(
        f"livecodebench/{row.text('question_id')}",
        _statement(row),
        "",
        "code",
        meta={
            "level": row.given("difficulty"),
            "title": row.given("question_title"),
            "source": row.given("platform"),
            "date": begun.date().isoformat(),
            "errata": not _ERRATA.isdisjoint((row.text("question_id"), row.given("question_title"))),
        },
        public_tests=public,
        tests=hidden,
        entry_point=_function(row),
    )


def _date(row: Row) -> datetime:
    try:
        return datetime.fromisoformat(str(row.fields.get("contest_date")))
    except ValueError:
        raise UserError("contest_date is no date") from None


def _statement(row: Row) -> str:
    begin = row.given("starter_code").strip()
    content = row.text("question_content").strip()
    return f"{content}\n\nBegin with this code:\n\n```python\n{begin}\n```" if begin else content


def _function(row: Row) -> str | None:
    """The method that functional tests call; a program on standard input has none."""
    try:
        name = json.loads(row.given("metadata") or "{}").get("func_name")
    except (ValueError, RecursionError, AttributeError):
        raise UserError("metadata is no JSON object") from None
    return str(name) if name else None


def _cases(row: Row, name: str) -> tuple[Case, ...]:
    rows = tests_in(row.given(name), name)
    return tuple(Case.of(test, f"{name}, number {at}") for at, test in enumerate(rows, start=1))


def tests_in(text: str, name: str = "tests") -> list[Any]:
    """The tests of a column, in either of its encodings: JSON, or JSON that was pickled, compressed and put in base64.

    Raises:
        UserError: It is neither, or holds no list.
    """
    if not text:
        return []
    try:
        tests = json.loads(text)
    except (ValueError, RecursionError):
        tests = _unpacked(text, name)
    if not isinstance(tests, list):
        raise UserError(f"{name} is no list of tests")
    return tests


def _unpacked(text: str, name: str) -> Any:
    try:
        return json.loads(text_in(zlib.decompress(base64.b64decode(text, validate=True))))
    except Exception:  # noqa: BLE001 - a stranger's pickle can make its reader raise anything
        raise UserError(f"{name} is neither JSON nor a packed text of JSON") from None


def text_in(pickled: bytes) -> str:
    """The text that a pickle holds. Nothing else is unpickled, so that a pickle from the network can run nothing.

    Raises:
        pickle.UnpicklingError: It holds something else. A damaged pickle may raise other errors.
    """
    text = _TextOnly(io.BytesIO(pickled)).load()
    if not isinstance(text, str):
        raise pickle.UnpicklingError("the pickle holds no text")
    return text


class _TextOnly(pickle.Unpickler):
    """Whatever a pickle can do beyond plain values begins with a class or a function that is looked up here."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}")


def _version(number: int, first: str, last: str) -> Benchmark:
    return Benchmark(
        name=f"livecodebench-v{number}",
        repository="livecodebench/code_generation_lite",
        split="test",
        revision="0fe84c3912ea0c4d4a78037083943e8f0c4dd505",
        convert=partial(livecodebench, first=datetime.fromisoformat(first), last=datetime.fromisoformat(last)),
        licence="cc; statements (c) LeetCode, AtCoder, Codeforces",
        files=_FILES[:number],
        keeps=f"contests from {first} to {last}",
    )


LIVECODEBENCH = (_version(5, "2024-08-01", "2025-02-01"), _version(6, "2024-07-01", "2025-01-01"))
