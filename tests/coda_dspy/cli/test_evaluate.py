"""`coda evaluate` and `coda select` as processes of their own: killed in the middle, interrupted, limited, compared."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lessons import votes
from scripts import Run, stored_table

from coda_dspy import AdaptiveCoda
from coda_dspy.evaluation import Pool
from coda_dspy.learned import Learned
from coda_dspy.profile import Profile
from coda_dspy.testing import FakeOpenAIServer, Reply, ServerCall

pytest.importorskip("mlflow")

N = 40


def steady(call: ServerCall) -> Reply:
    """The same reply for the same prompt, so that two runs can be compared."""
    number = int(call.prompt.split()[2])
    text = "1. Add. (high)" if "Write a plan" in call.prompt else f"Answer: {number + (1 if number % 3 else 0)}"
    return Reply(text, delay=0.01)


@pytest.fixture
def server() -> Iterator[FakeOpenAIServer]:
    with FakeOpenAIServer(steady) as made:
        yield made


@pytest.fixture
def command(tmp_path: Path, server: FakeOpenAIServer, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", "160")
    rows = [{"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1), "kind": "math"} for i in range(N)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    where = ["--engine", "openai/fake", "--api-base", server.url, "--mlflow-uri", mlflow_uri]
    return ["evaluate", "--data", "sums.jsonl", *where]


def started(words: list[str]) -> subprocess.Popen[str]:
    """The command as a process of its own."""
    command = [sys.executable, "-m", "coda_dspy", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def interrupted(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it says once it is interrupted; Python loses a signal that comes within a finalizer, so once more then."""
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=30)


def rows_in(folder: Path) -> list[dict]:
    path = folder / "results.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines() if line.endswith(b"}")] if path.exists() else []


def until_count(server: FakeOpenAIServer, calls: int) -> None:
    end = time.monotonic() + 60
    while server.count < calls and time.monotonic() < end:
        time.sleep(0.005)


def comparable(rows: list[dict]) -> list[dict]:
    """What does not depend on when and by whom a question was answered."""
    kept = ("id", "sample", "answer", "correct", "path", "tokens", "calls", "votes", "recalled", "hit_rate", "asked")
    return sorted(({name: row[name] for name in kept} for row in rows), key=lambda row: (row["id"], row["sample"]))


def test_after_kill_9_the_results_equal_those_of_an_uninterrupted_run(
    run: Run, command: list[str], tmp_path: Path, server: FakeOpenAIServer
) -> None:
    code, _, err = run(*command, "--output", "whole", "--samples", "2")
    assert code == 0, err
    calls_of_whole = server.count
    server.reset()

    words = [*command, "--output", "run", "--samples", "2"]
    first = started(words)
    until_count(server, calls_of_whole // 2)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    before = rows_in(tmp_path / "run")
    assert 0 < len(before) < 2 * N

    code, _, err = run(*words)
    assert code == 0, err
    after = rows_in(tmp_path / "run")
    assert after[: len(before)] == before  # kept as they were
    assert comparable(after) == comparable(rows_in(tmp_path / "whole"))
    assert len({(row["id"], row["sample"]) for row in after}) == len(after) == 2 * N
    in_flight = 8 * 3  # questions at a time, direct attempts of each
    assert server.count <= calls_of_whole + in_flight
    records = list(Pool(tmp_path / "run" / "pool.jsonl.gz").read())
    assert {(r.id, r.sample) for r in records} >= {(row["id"], row["sample"]) for row in after}
    assert sum(bool(r.correct) for r in records) == sum(bool(row["correct"]) for row in after)


def test_ctrl_c_keeps_what_is_done_shows_it_and_ends_with_130(
    command: list[str], tmp_path: Path, server: FakeOpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # After some calls the server falls silent, so that the run cannot be over before it is interrupted.
    monkeypatch.setattr(server, "_reply", lambda call: steady(call) if call.index < 40 else Reply("late", delay=30))
    process = started([*command, "--output", "run"])
    until_count(server, 48)
    out, err = interrupted(process)
    assert process.returncode == 130
    assert "Traceback" not in err and "the same command goes on" in err
    assert f"{len(rows_in(tmp_path / 'run'))} answers" in out


def test_the_figures_are_those_of_the_results(run: Run, command: list[str], tmp_path: Path) -> None:
    code, out, err = run(*command, "--output", "run", "--algorithm", "direct")
    assert code == 0, err
    rows = rows_in(tmp_path / "run")
    right = sum(row["correct"] for row in rows)
    assert f"{right / N:.1%}" in out and f"(n = {N})" in out
    for word in ("unparsed", "truncated", "failed", "recall", "tokens each", "direct"):
        assert word in out
    described = json.loads((tmp_path / "run" / "run.json").read_text())
    assert described["algorithm"] == "direct" and described["data"]["name"] == "sums.jsonl"


def test_a_limit_ends_the_run_with_3_and_the_same_command_goes_on(run: Run, command: list[str], tmp_path: Path) -> None:
    words = [*command, "--output", "run", "--algorithm", "direct", "--workers", "2"]
    code, _, err = run(*words, "--max-tokens-total", "200")
    assert (code, "answers are missing, the same command goes on" in " ".join(err.split())) == (3, True)
    assert 0 < len(rows_in(tmp_path / "run")) < N
    assert run(*words)[0] == 0
    assert len(rows_in(tmp_path / "run")) == N
    code, out, _ = run(*command, "--output", "late", "--algorithm", "direct", "--deadline", "0.000001")
    assert (code, "no question is finished yet" in out) == (3, True)


def test_shards_are_parts_of_the_whole_and_a_seed_chooses_always_the_same(
    run: Run, command: list[str], tmp_path: Path
) -> None:
    for part in ("1/3", "2/3", "3/3"):
        run(*command, "--output", part.replace("/", "-"), "--shard", part, "--algorithm", "direct")
    ids = [row["id"] for part in ("1-3", "2-3", "3-3") for row in rows_in(tmp_path / part)]
    assert sorted(ids) == sorted(f"q{i}" for i in range(N))
    for folder in ("a", "b"):
        run(*command, "--output", folder, "--limit", "5", "--seed", "7", "--algorithm", "direct")
    chosen = [{row["id"] for row in rows_in(tmp_path / folder)} for folder in ("a", "b")]
    assert chosen[0] == chosen[1] != {f"q{i}" for i in range(5)} and len(chosen[0]) == 5


def test_two_runs_are_compared_in_pairs_and_their_candidates_by_selectors(run: Run, command: list[str]) -> None:
    run(*command, "--output", "one", "--algorithm", "direct")
    run(*command, "--output", "two", "--algorithm", "self-consistency", "--limit", "30")
    code, out, err = run("evaluate", "--compare", "one", "two")
    assert (code, "(n = 30, paired" in out) == (0, True), err
    code, out, err = run("select", "--pool", "two", "--selector", "oracle")
    assert (code, "oracle" in out, "gap closure" in out) == (0, True, True), err


def test_weights_come_from_a_profile(run: Run, command: list[str]) -> None:
    run(*command, "--output", "pool", "--algorithm", "self-consistency", "--limit", "10")
    for name, lessons in (("with", votes(1.0, 2.0, 1.0)), ("without", {})):
        Profile.of(AdaptiveCoda(learned=Learned.parse({"math": lessons})), "x").save(f"{name}.json")
    words = ["select", "--pool", "pool", "--selector", "weighted"]
    code, out, err = run(*words, "--profile", "with.json")
    assert (code, "weighted" in out) == (0, True), err
    for unfit in (["--profile", "without.json"], []):
        code, _, err = run(*words, *unfit)
        assert (code, "needs what votes" in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "no-such-set"], "neither a built-in set nor a file"),
        (["--shard", "4/3"], "write it as I/N"),
        (["--shard", "50/60"], "holds no question"),
        (["--algorithm", "magic"], "choose one of: adaptive"),
        (["--budget", "best_of_n=0"], "best_of_n is 0"),
        (["--compare", "empty", "empty"], "no graded question in common"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    run: Run, command: list[str], tmp_path: Path, words: list[str], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    code, _, err = run(*command, *words)
    assert (code, message in err, "Traceback" in err) == (2, True, False), err


def test_a_pool_that_is_not_there_is_named(run: Run, tmp_path: Path) -> None:
    code, _, err = run("select", "--pool", str(tmp_path))
    assert (code, "holds no pool.jsonl.gz" in err) == (2, True)


def test_another_run_in_the_same_folder_is_refused(run: Run, command: list[str]) -> None:
    words = [*command, "--output", "run"]
    assert run(*words, "--limit", "3", "--algorithm", "direct")[0] == 0
    code, _, err = run(*words, "--limit", "3")
    assert (code, "holds a run with another algorithm" in err) == (2, True)
    assert run(*words, "--limit", "6", "--algorithm", "direct")[0] == 0  # more of the same goes on


def test_runs_on_different_data_are_not_compared(run: Run, command: list[str], tmp_path: Path) -> None:
    rows = [{"id": f"q{i}", "question": f"What is {i} + 2?", "answer": str(i + 2), "kind": "math"} for i in range(3)]
    (tmp_path / "other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, data in (("one", "sums.jsonl"), ("two", "other.jsonl")):
        run(*command, "--data", data, "--output", name, "--algorithm", "direct", "--limit", "3")
    code, _, err = run("evaluate", "--compare", "one", "two")
    assert (code, "different data" in err) == (2, True)


def test_several_samples_at_temperature_0_are_refused(run: Run, command: list[str]) -> None:
    code, _, err = run(*command, "--algorithm", "direct", "--samples", "4")
    assert (code, "temperature.direct=0.7" in err) == (2, True)


def test_a_refused_or_repeated_command_leaves_the_tracked_run_as_it_was(
    run: Run, command: list[str], mlflow_uri: str
) -> None:
    from mlflow import MlflowClient

    words = [*command, "--output", "run", "--limit", "3"]
    run(*words, "--algorithm", "direct")
    run(*words, "--algorithm", "coda")  # refused: another run is in the folder
    run(*words, "--algorithm", "direct")
    client = MlflowClient(tracking_uri=mlflow_uri)
    experiment = client.get_experiment_by_name("coda-evaluate")
    assert experiment is not None
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.status == "FINISHED"
    assert len(stored_table(client, found.info.run_id, "questions.json")) == 3


def test_steps_of_a_problem_are_never_torn_apart(run: Run, command: list[str], tmp_path: Path) -> None:
    rows = [
        {
            "id": f"p{p}.{s}",
            "question": f"What is {p}{s} + 1?",
            "answer": str(10 * p + s + 1),
            "kind": "math",
            "previous": f"p{p}.{s - 1}" if s else None,
        }
        for p in range(1, 4)
        for s in range(2)
    ]
    (tmp_path / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    base = [*command, "--data", "steps.jsonl", "--algorithm", "direct"]
    for name, words in (("a", ["--shard", "1/2"]), ("b", ["--shard", "2/2"]), ("c", ["--limit", "1", "--seed", "3"])):
        assert run(*base, "--output", name, *words)[0] == 0
    found = [{row["id"] for row in rows_in(tmp_path / name)} for name in "abc"]
    assert found[0] == {"p1.0", "p1.1", "p3.0", "p3.1"} and found[1] == {"p2.0", "p2.1"}
    assert len(found[2]) == 2 and len({name.partition(".")[0] for name in found[2]}) == 1
