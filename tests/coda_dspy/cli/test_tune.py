"""`coda tune` as a process of its own: killed in the middle, and called again."""

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coda_dspy import AdaptiveCoda, Profile
from coda_dspy.cli.tune import _print, _space
from coda_dspy.evaluation import Result
from coda_dspy.evaluation.statistics import accuracy, paired_difference
from coda_dspy.optimizers import TuneReport
from coda_dspy.optimizers.plan import WIDE
from coda_dspy.optimizers.report import Row
from coda_dspy.testing import FakeOpenAIServer, Reply, ServerCall

pytest.importorskip("optuna")

KEY = "sk-sentinel-0123456789"


def adds(call: ServerCall) -> Reply:
    if "Write a plan" in call.prompt:
        return Reply("1. Add one. (high)", delay=0.01)
    number = int(call.prompt.split()[2])
    # Right for the even numbers at once, for the odd ones with a plan only.
    right = number % 2 == 0 or "Plan:" in call.prompt or "Solutions:" in call.prompt
    return Reply(f"So.\nAnswer: {number + 1 if right else 0}", delay=0.01)


@pytest.fixture
def server() -> Iterator[FakeOpenAIServer]:
    with FakeOpenAIServer(adds) as made:
        yield made


@pytest.fixture
def command(tmp_path: Path, server: FakeOpenAIServer, mlflow_uri: str) -> list[str]:
    rows = [{"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1), "kind": "math"} for i in range(40)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sizes = ["--train", "4", "--validation", "8", "--test", "10"]
    where = ["--engine", "openai/fake", "--api-base", server.url, "--mlflow-uri", mlflow_uri]
    return [sys.executable, "-m", "coda_dspy", "tune", "--quick", "--data", "sums.jsonl", *sizes, *where]


def results_in(folder: Path) -> dict[str, list[dict]]:
    files = sorted((folder / "results").glob("*.jsonl"))
    return {f.stem: [json.loads(line) for line in f.read_bytes().splitlines() if line.endswith(b"}")] for f in files}


KILLS = 10


@pytest.mark.timeout(600)  # a dozen processes
def test_killed_at_ten_random_moments_it_comes_to_the_same_profile(
    command: list[str], tmp_path: Path, server: FakeOpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    seed = random.randrange(10**6)
    drawn = random.Random(seed)
    rounds = ["--rounds", "2", "--finalists", "3", "--validation", "10", "--optimizer", "bootstrap-random-search"]
    space = ["--search", "num_attempts_baseline=1,3", "--search", "n_plans=1", "--prompt-questions", "60"]
    words = [*command, *rounds, *space, "--minutes", "600"]
    whole = subprocess.run([*words, "--output", "whole", "--profile", "whole.json"], capture_output=True, text=True)
    assert whole.returncode == 0, whole.stderr
    assert re.search(r"plain engine\W+\d+%", whole.stdout)
    assert re.search(r"tuned conductor\W+\d+%", whole.stdout)
    calls_of_whole = server.count
    server.reset()
    words += ["--output", "run", "--profile", "run.json"]
    kept: dict[str, list[dict]] = {}
    for moment in sorted(drawn.randrange(1, calls_of_whole) for _ in range(KILLS)):
        _run_until(words, server, moment, monkeypatch)
        now = results_in(tmp_path / "run")
        for phase, rows in kept.items():
            assert now[phase][: len(rows)] == rows, f"seed {seed}, killed at call {moment}"
        kept = now
    last = subprocess.run(words, capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    after = results_in(tmp_path / "run")
    assert len({row["session"] for rows in after.values() for row in rows}) > 2
    assert sum(row["billed_calls"] for rows in after.values() for row in rows) <= server.count
    for rows in after.values():
        assert len({row["id"] for row in rows}) == len(rows), f"seed {seed}"
    in_flight = 8 * 3  # questions at a time, calls of each
    assert server.count <= calls_of_whole + KILLS * in_flight, f"seed {seed}"
    profiles = [json.loads((tmp_path / name).read_text()) for name in ("run.json", "whole.json")]
    assert profiles[0] == profiles[1], f"seed {seed}"


def _run_until(words: list[str], server: FakeOpenAIServer, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a command until the server has had so many calls, then kill it; the server falls silent meanwhile."""
    reply = server._reply
    with monkeypatch.context() as held:
        held.setattr(server, "_reply", lambda call: reply(call) if call.index < calls else Reply("late", delay=5))
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while server.count < calls and process.poll() is None:
            time.sleep(0.002)
        process.kill()
        process.wait()


def test_ctrl_c_ends_with_130_and_keeps_what_is_finished(
    command: list[str], tmp_path: Path, server: FakeOpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # After some calls the server falls silent, so that the run cannot be over before it is interrupted.
    monkeypatch.setattr(server, "_reply", lambda call: adds(call) if call.index < 20 else Reply("late", delay=30))
    process = subprocess.Popen([*command, "--output", "run"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while server.count < 15 and time.monotonic() < until:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert results_in(tmp_path / "run")


def test_the_key_is_in_no_file_and_in_no_message(
    tmp_path: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SERVER_KEY", KEY)
    expired = {"yes"}

    def reply(call: ServerCall) -> Reply:
        if call.index > 20 and expired:
            expired.clear()
            return Reply(f"Incorrect API key provided: {KEY}", status=401)
        return adds(call)

    rows = [{"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1), "kind": "math"} for i in range(30)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with FakeOpenAIServer(reply, api_key=KEY) as server:
        words = ["--engine", "openai/fake", "--api-base", server.url, "--api-key-env", "MY_SERVER_KEY"]
        words += [
            "--data",
            "sums.jsonl",
            "--train",
            "4",
            "--validation",
            "6",
            "--test",
            "6",
            "--mlflow-uri",
            mlflow_uri,
        ]
        command = [sys.executable, "-m", "coda_dspy", "tune", "--quick", *words]
        runs = [subprocess.run(command, capture_output=True, text=True) for _ in range(2)]
    assert [run.returncode for run in runs] == [2, 0], runs[1].stderr
    assert "refuses to work" in runs[0].stderr
    told = runs[1].stderr
    assert told.index("tokens of replies") < told.index("prompts as written")  # what it asks at most, before it asks
    for run in runs:
        assert KEY not in run.stdout + run.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "tracking.db" for path in written)
    assert any(path.suffix == ".json" and path.parent.name == "profiles" for path in written)
    for path in written:
        assert KEY.encode() not in path.read_bytes(), path


def test_another_engines_profile_is_not_overwritten(command: list[str], tmp_path: Path) -> None:
    other = Profile.of(AdaptiveCoda(), "openai/other")
    other.save(tmp_path / "other.json")
    done = subprocess.run([*command, "--profile", "other.json"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "other.json is the profile of openai/other, not of openai/fake" in done.stderr
    assert Profile.read(tmp_path / "other.json") == other


def test_what_the_budget_sets_is_not_searched() -> None:
    given = {"search": (), "budget": ("temperature=0.3", "n_plans=2", "reasoning_effort.plan=high")}
    found = _space(WIDE, given).values
    assert not any(name.startswith(("temperature", "n_plans", "reasoning_effort.plan")) for name in found)
    assert found["best_of_n"] == WIDE.values["best_of_n"]


def test_bad_input_is_one_line_and_exit_code_2(command: list[str]) -> None:
    for words, message in [
        (["--data", "no-such-set"], "neither a built-in set nor a file"),
        (["--validation", "500"], "has 40 questions, but the plan needs 514"),
        (["--budget", "best_of_n=0"], "best_of_n is 0"),
    ]:
        done = subprocess.run([*command, *words], capture_output=True, text=True)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
        assert "Traceback" not in done.stderr


def test_the_report_gives_training_and_validation_figures_with_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    results = [Result(str(i), "1", "1", i > 0, tokens=1, known_tokens=1) for i in range(10)]
    profile: Any = SimpleNamespace(scores={"chosen": "baseline1"})
    figure = accuracy(results)
    difference = paired_difference(results, results)
    _print(TuneReport(profile, [Row("plain engine", results)], difference, figure, figure, [], []), Path("p"), 1, "uri")
    shown = " ".join(capsys.readouterr().out.split())
    assert "training questions 90.0% [59.6%, 98.2%] (n = 10)" in shown
    assert "validation questions 90.0% [59.6%, 98.2%] (n = 10); prompts and budget were chosen on them" in shown
    assert "within noise" in shown
