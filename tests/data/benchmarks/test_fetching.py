"""Rows from the hub, which a fake plays, and from local files; and what is said where there are none."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from coda_dspy.data import BENCHMARKS, load, read_questions, write_questions
from coda_dspy.data.benchmarks import hub
from coda_dspy.errors import UserError

ROWS: list[dict[str, Any]] = [
    {"question": "One and one?", "answer": "#### 2"},
    {"question": "Two and two?", "answer": "#### 4"},
]
GPQA = {
    "Question": "Which is made up?",
    "Correct Answer": "codaon",
    **{f"Incorrect Answer {n}": f"particle {n}" for n in (1, 2, 3)},
    "Record ID": "recMadeUp001",
}


def on_the_hub(monkeypatch: pytest.MonkeyPatch, rows: Sequence[Mapping[str, Any]] | Exception) -> list[tuple[Any, ...]]:
    """Let the hub hold these rows, or fail; returns what it is asked for."""
    asked = []

    def answer(*arguments: Any) -> Any:
        asked.append(arguments)
        if isinstance(rows, Exception):
            raise rows
        return rows

    monkeypatch.setattr(hub, "rows", answer)
    monkeypatch.setattr(hub, "file", answer)
    return asked


def test_a_name_is_fetched_by_id_configuration_split_and_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = on_the_hub(monkeypatch, ROWS)
    assert [(question.question, question.answer) for question in load("gsm8k")] == [
        ("One and one?", "2"),
        ("Two and two?", "4"),
    ]
    assert asked == [("openai/gsm8k", "main", "test", BENCHMARKS["gsm8k"].revision)]


def test_every_benchmark_is_pinned_and_named_as_it_is_called() -> None:
    assert all(len(benchmark.revision) == 40 for benchmark in BENCHMARKS.values())
    assert all(benchmark.name == name and benchmark.licence for name, benchmark in BENCHMARKS.items())
    assert [name for name, benchmark in BENCHMARKS.items() if benchmark.private] == ["gpqa-diamond"]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_without_network_the_file_to_provide_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_the_hub(monkeypatch, ConnectionError("no route to the hub"))
    with pytest.raises(UserError) as caught:
        load(name)
    benchmark, message = BENCHMARKS[name], str(caught.value)
    assert message.startswith(f"{name} cannot be fetched from the Hugging Face hub (ConnectionError")
    assert f"give {name}=FILE" in message and benchmark.repository in message and "data/README.md" in message
    assert all(part in message for part in (benchmark.files or (benchmark.split,)))
    assert ("no route" in message) is not benchmark.private


@pytest.mark.parametrize("library", ["datasets", "huggingface_hub"])
def test_without_the_libraries_the_extra_is_named(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    name = "gsm8k" if library == "datasets" else "livecodebench-v5"
    with pytest.raises(UserError, match=rf"{library} is not installed: pip install 'coda-dspy\[hub\]'.*{name}=FILE"):
        load(name)


class GatedRepoError(Exception):
    """As the hub's library calls it."""


@pytest.mark.parametrize(
    "error", [GatedRepoError("401"), FileNotFoundError("Dataset 'Idavidrein/gpqa' is a gated dataset on the Hub.")]
)
def test_a_gate_is_named_with_the_way_through_it(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    on_the_hub(monkeypatch, error)
    with pytest.raises(UserError) as caught:
        load("gpqa-diamond")
    message = str(caught.value)
    assert "accept the terms at huggingface.co/datasets/Idavidrein/gpqa" in message and "HF_TOKEN" in message
    assert "give gpqa-diamond=FILE" in message


def test_what_the_library_says_of_a_private_row_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    on_the_hub(monkeypatch, ValueError("could not convert 'codaon' to int"))
    with pytest.raises(UserError, match=r"\(ValueError\)") as caught:
        load("gpqa-diamond")
    assert "codaon" not in str(caught.value) and caught.value.__suppress_context__


def test_a_damaged_row_is_named_with_benchmark_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    on_the_hub(monkeypatch, [*ROWS, {"question": "Three?", "answer": None}])
    with pytest.raises(UserError, match=r"^gsm8k, row 3: there is no column answer; are these the rows of gsm8k\?"):
        load("gsm8k")


def test_a_row_that_comes_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"id": "Made_1", "question": "One?", "choices": {"text": ["a", "b", "c"], "label": list("ABC")}}
    on_the_hub(monkeypatch, [row | {"answerKey": "A"}] * 2)
    with pytest.raises(UserError, match="arc-easy, row 2: its id was used by an earlier row"):
        load("arc-easy")


def test_no_rows_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    on_the_hub(monkeypatch, [])
    with pytest.raises(UserError, match="gsm8k: none of the 0 rows gives a question"):
        load("gsm8k")


def test_the_library_gives_rows_as_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real one, on a folder in the place of the hub."""
    datasets = pytest.importorskip("datasets", reason="the hub needs datasets (the extra `hub`)")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    write(tmp_path / "train.jsonl", ROWS)
    assert list(hub.rows(str(tmp_path), None, "train[:1]", "main")) == ROWS[:1]


# Local files


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
        from pyarrow import Table, parquet

        parquet.write_table(Table.from_pylist(list(rows)), path)
    elif path.suffix == ".csv":
        columns = list(rows[0])
        lines = [columns, *([f'"{row[column]}"' for column in columns] for row in rows)]
        path.write_text("".join(",".join(line) + "\n" for line in lines))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "\n")
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".parquet"])
def test_official_rows_are_read_from_a_file(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"rows{suffix}", ROWS)
    assert [question.answer for question in load(f"gsm8k={path}")] == ["2", "4"]


def test_nested_columns_come_out_of_parquet(tmp_path: Path) -> None:
    row = {"id": "Made_1", "question": "One?", "choices": {"text": ["a", "b", "c"], "label": list("123")}}
    path = write(tmp_path / "rows.parquet", [row | {"answerKey": "3"}])
    assert load(f"arc-easy={path}")[0].answer == "C"


def test_the_official_table_of_gpqa_is_read(tmp_path: Path) -> None:
    (question,) = load(f"gpqa-diamond={write(tmp_path / 'gpqa_diamond.csv', [GPQA])}")
    assert question.private and question.choices is not None
    assert question.choices["ABCD".index(question.answer)] == "codaon"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.jsonl", None, r"none\.jsonl: no such file; give the path of the benchmark's official rows"),
        ("rows.txt", "", r"rows\.txt: is no file of rows; give one that ends in \.jsonl"),
        ("rows.jsonl", '{"question": "codaon"\n', r"rows\.jsonl, line 1: is not JSON"),
        ("rows.jsonl", "3\n", r"rows\.jsonl, line 1: is no object"),
        ("rows.json", '{"question": "codaon"}', r"rows\.json: is no list of objects"),
        ("rows.json", '{"question": "codaon"}\n{}', r"rows\.json: is not JSON; .* end in \.jsonl"),
        ("rows.parquet", "codaon", r"rows\.parquet: is not Parquet"),
        ("rows.csv", b"question\n\xff\xfe\n", r"rows\.csv: is not UTF-8"),
        (".", None, "is no file of rows"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: Any, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=message) as caught:
        load(f"gsm8k={path}")
    assert "codaon" not in str(caught.value)


def test_a_damaged_row_of_a_file_is_named_with_both(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [ROWS[0], {"question": 3, "answer": "#### 2"}])
    with pytest.raises(UserError, match=rf"^gsm8k={path}, row 2: question is empty or no text"):
        load(f"gsm8k={path}")


def test_a_name_goes_before_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gsm8k").write_text(json.dumps({"id": "mine", "question": "One?", "answer": "1", "kind": "math"}) + "\n")
    on_the_hub(monkeypatch, ROWS)
    assert load("gsm8k")[0].id == "gsm8k/1"
    assert load("./gsm8k")[0].id == "mine"


def test_an_equals_sign_in_a_path_is_no_name(tmp_path: Path) -> None:
    path = tmp_path / "gsm=8k.jsonl"
    path.write_text(json.dumps({"id": "mine", "question": "One?", "answer": "1", "kind": "math"}) + "\n")
    assert load(path)[0].id == "mine"


def test_names_of_benchmarks_are_listed_where_a_name_is_unknown() -> None:
    with pytest.raises(UserError, match=r"a benchmark .*aime2024.*scicode"):
        load("gsm9k")


# Our own files


def test_fetched_questions_can_be_taken_to_a_machine_without_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_the_hub(monkeypatch, [GPQA])
    questions = load("gpqa-diamond")
    write_questions(tmp_path / "mine.jsonl", questions)
    assert read_questions(tmp_path / "mine.jsonl") == questions
    with pytest.raises(UserError, match="cannot be written"):
        write_questions(tmp_path, questions)


def test_importing_the_folder_loads_no_library_of_the_hub() -> None:
    heavy = ("datasets", "huggingface_hub", "pyarrow", "pandas", "numpy", "h5py")
    code = f"import sys, coda_dspy.data; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
