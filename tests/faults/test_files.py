"""Damaged files, full disks, too many open files: named, set aside, made again; what was finished is kept."""

import json
import os
import subprocess
import sys
from pathlib import Path

import dspy
import pytest
from scripts import Run
from sums import ONCE, adds, bill, rows, sums

from coda_dspy import AdaptiveCoda, connect
from coda_dspy.errors import UserError
from coda_dspy.evaluation import JsonLines, evaluate, evaluate_in, locked, locked_file, own_cache
from coda_dspy.optimizers.folder import TuneFolder
from coda_dspy.optimizers.prompts.kept import Compiled, compile_once
from coda_dspy.optimizers.prompts.unchanged import Unchanged
from coda_dspy.testing import FakeOpenAIServer, Reply


def answered_in(folder: Path, server: FakeOpenAIServer, number: int = 6) -> list:
    lm = connect("openai/fake", server.url)
    return evaluate_in(folder, AdaptiveCoda(ONCE), sums(number), lm, {}, workers=2)


def test_damaged_results_are_set_aside_and_answered_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with FakeOpenAIServer(adds) as server:
        answered_in(tmp_path, server)
        path = tmp_path / "results.jsonl"
        lines = path.read_bytes().splitlines()
        broken = [b"\x00" * 40 + lines[1][40:], lines[4].replace(b":", b"", 1)]
        path.write_bytes(b"\n".join([lines[0], broken[0], lines[2], lines[3], broken[1], lines[5], b""]))
        results = answered_in(tmp_path, server)
    assert (tmp_path / "results.jsonl.damaged").read_bytes().splitlines() == broken
    assert "results.jsonl: 2 damaged lines are now in" in caplog.text
    assert [r.id for r in results if r.correct] == [f"q{i}" for i in range(6)]
    assert path.read_bytes().splitlines()[:4] == [lines[0], lines[2], lines[3], lines[5]]
    assert sorted(row["id"] for row in JsonLines(path).read()) == [f"q{i}" for i in range(6)]
    assert server.count == 6  # what was lost is in the cache


def test_a_file_without_any_result_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "thesis.txt"
    path.write_text("Chapter 1\nIt was a dark night.\n")
    with (
        dspy.context(lm=connect("openai/fake", "http://127.0.0.1:9/v1")),
        pytest.raises(UserError, match="holds something else than results"),
    ):
        evaluate(AdaptiveCoda(ONCE), sums(2), store=JsonLines(path))
    assert path.read_text() == "Chapter 1\nIt was a dark night.\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_line_that_ctrl_c_has_torn_spoils_no_later_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = JsonLines(tmp_path / "r.jsonl")
    lines.append({"id": "a"})
    with monkeypatch.context() as interrupted, pytest.raises(KeyboardInterrupt):
        interrupted.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(KeyboardInterrupt))
        lines.append({"id": "b"})
    with lines.path.open("r+b") as file:
        file.truncate(lines.path.stat().st_size - 4)  # as much of it as had been written
    lines.append({"id": "c"})
    assert lines.read() == [{"id": "a"}, {"id": "c"}]


@pytest.mark.parametrize("place", [0, 4096], ids=["its head", "its middle"])
def test_a_damaged_cache_costs_replies_and_no_answer(
    tmp_path: Path, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeOpenAIServer(adds) as server:
        answered_in(tmp_path, server)
        (tmp_path / "results.jsonl").unlink()
        for database in (tmp_path / "cache").rglob("cache.db"):
            content = database.read_bytes()
            database.write_bytes(content[:place] + b"\xff" * (len(content) - place))
        results = answered_in(tmp_path, server)
        dspy.cache.reset_memory_cache()
        (tmp_path / "results.jsonl").unlink()
        again = answered_in(tmp_path, server)
    assert all(r.correct for r in [*results, *again])
    assert "is damaged" in caplog.text and "it is kept as cache.damaged and begun anew" in caplog.text
    assert (tmp_path / "cache.damaged").is_dir()
    assert bill(results)[0] == 6 and server.count == 12  # once more, and then from the new cache


def test_an_entry_of_the_cache_that_cannot_be_read_is_generated_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeOpenAIServer(adds) as server, own_cache(tmp_path / "cache"):
        lm = connect("openai/fake", server.url)
        program = AdaptiveCoda(ONCE, lm=lm)
        program(question="What is 3 + 1?")
        dspy.cache.reset_memory_cache()
        (shard,) = [shard for shard in dspy.cache.disk_cache._shards if len(shard)]
        shard._sql("UPDATE Cache SET value = x'80057d94'")
        assert program(question="What is 3 + 1?").answer == "4"
        assert server.count == 2
    assert "cannot be read everywhere" in caplog.text


@pytest.mark.parametrize("name", ["clock.json", "pace.json", "sizes.json"])
@pytest.mark.parametrize("content", ["", "{", "null", "[]", '{"seconds": "x", "tokens": 1, "train": "x"}'])
def test_a_damaged_file_of_a_tune_is_set_aside_as_if_nothing_had_been_kept(
    tmp_path: Path, name: str, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / name).write_text(content)
    folder = TuneFolder(tmp_path)
    assert (folder.spent(), folder.pace(), folder.sizes()) == (0.0, (0, 0.0), {})
    assert (tmp_path / f"{name}.damaged").read_text() == content and name in caplog.text


def test_the_second_of_two_runs_that_write_one_folder_or_one_file_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(3)))
    with FakeOpenAIServer(adds) as server, locked(tmp_path / "run"), locked_file(tmp_path / "answers.jsonl"):
        at = ["--engine", "openai/fake", "--api-base", server.url]
        for words, place in (
            (["solve", *at, "--input", "q.jsonl", "--output", "answers.jsonl"], "answers.jsonl"),
            (["evaluate", *at, "--data", "q.jsonl", "--output", "run"], "run"),
        ):
            code, _, err = run(*words)
            assert (code, f"{place} is in use by another run" in err, "Traceback" in err) == (2, True, False), err
        assert server.count == 0


@pytest.mark.timeout(300)
def test_more_questions_at_once_than_the_usual_limit_of_open_files_has_room_for(
    tmp_path: Path, mlflow_uri: str
) -> None:
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(150)))
    with FakeOpenAIServer(lambda call: Reply(adds(call), delay=0.5)) as server:
        words = ["evaluate", "--data", "q.jsonl", "--engine", "openai/fake", "--api-base", server.url]
        words += ["--mlflow-uri", mlflow_uri, "--algorithm", "direct", "--output", "run", "--workers", "150"]
        command = ["bash", "-c", 'ulimit -Sn 200; exec "$@"', "bash", sys.executable, "-m", "coda_dspy", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    kept = JsonLines(tmp_path / "run" / "results.jsonl").read()
    assert all(row["correct"] and not row["failures"] for row in kept) and len(kept) == 150
    assert "cannot be read" not in done.stderr and server.count == 150


def test_a_damaged_file_of_compiled_prompts_is_set_aside_and_compiled_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def compiled() -> Compiled:
        return compile_once(
            path,
            Unchanged(),
            AdaptiveCoda(ONCE),
            sums(2),
            sums(2),
            teacher=None,
            seed=0,
            keep_going=lambda: True,
            on_question=lambda result: None,
        )

    path = tmp_path / "prompts.json"
    record = compiled().record
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert compiled().record == record
    assert path.read_bytes() == whole and (tmp_path / "prompts.json.damaged").read_bytes() == whole[:-20]
    assert "prompts.json is damaged" in caplog.text
