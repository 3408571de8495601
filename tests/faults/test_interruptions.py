"""Ctrl-C, once and again, SIGTERM, and a wall clock that jumps: nothing that was finished is lost."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import Run
from sums import ONCE, adds, bill, rows, sums

from coda_dspy import AdaptiveCoda, connect
from coda_dspy.evaluation import JsonLines, Stop, evaluate_in
from coda_dspy.testing import FakeOpenAIServer, Reply, ServerCall

pytest.importorskip("mlflow")

ANSWERED = 20  # calls, after which the server falls silent, so that no run is over before it is interrupted


@pytest.fixture
def server() -> Iterator[FakeOpenAIServer]:
    def reply(call: ServerCall) -> Reply:
        return Reply(adds(call), delay=0.0 if call.index < ANSWERED else 60)

    with FakeOpenAIServer(reply) as made:
        yield made


@pytest.fixture
def words(tmp_path: Path, server: FakeOpenAIServer, mlflow_uri: str) -> list[str]:
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(60)))
    where = ["--engine", "openai/fake", "--api-base", server.url, "--mlflow-uri", mlflow_uri]
    return ["evaluate", "--data", "q.jsonl", *where, "--algorithm", "direct", "--output", "run"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT] * 2, [signal.SIGINT, signal.SIGTERM]])
def test_signals_keep_what_is_done_and_end_with_130(
    words: list[str], tmp_path: Path, server: FakeOpenAIServer, signals: list[signal.Signals]
) -> None:
    command = [sys.executable, "-m", "coda_dspy", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # Whatever started these tests in the background had its children ignore Ctrl-C.
    process = subprocess.Popen(
        command, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **pipes
    )
    until = time.monotonic() + 200
    while server.count < ANSWERED + 8 and time.monotonic() < until:
        time.sleep(0.01)
    for number in signals:
        process.send_signal(number)
        time.sleep(random.random() / 2)
    _, err = process.communicate(timeout=300)  # MLflow's store is waited for
    assert (process.returncode, "Traceback" in err) == (130, False), err
    assert "the same command goes on" in err
    kept = JsonLines(tmp_path / "run" / "results.jsonl").read()
    assert len(kept) >= ANSWERED - 8 and all(row["correct"] for row in kept)


def test_a_second_ctrl_c_while_the_first_is_being_told_changes_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def complain(message: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        said.append(message)

    said: list[str] = []
    monkeypatch.setattr("coda_dspy.evaluation.evaluate_in", interrupted)
    monkeypatch.setattr("coda_dspy.cli.evaluate.print_summary", interrupted)  # the second, while the first is told
    monkeypatch.setattr("coda_dspy.cli._complain", complain)  # and a third
    assert run(*words)[0] == 130
    assert len(said) == 1


def test_a_clock_that_jumps_changes_no_answer_no_limit_and_no_duration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, now = random.Random(0), time.time
    monkeypatch.setattr(time, "time", lambda: now() + drawn.uniform(-1, 1) * 10**8)
    monkeypatch.setattr(time, "time_ns", lambda: int(time.time() * 1e9))
    stop = Stop(minutes=30)
    with FakeOpenAIServer(adds) as server:
        program, lm = AdaptiveCoda(ONCE), connect("openai/fake", server.url)
        first = evaluate_in(tmp_path, program, sums(10), lm, {}, stop=Stop(minutes=30))
        results = evaluate_in(tmp_path, program, sums(20), lm, {}, stop=stop)
    assert len(first) == 10 and not stop.reached
    assert all(r.correct and 0 <= r.seconds < 120 for r in results)
    assert bill(results) == (server.count, server.tokens_in + server.tokens_out)
    assert server.count == 20
