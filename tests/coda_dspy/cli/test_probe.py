"""`coda probe` against a fake server."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import Run

from coda_dspy import AdaptiveCoda, Profile
from coda_dspy.testing import FakeOpenAIServer, Reply, ServerCall

pytest.importorskip("scipy")

KEY = "sk-sentinel-0123456789"


def reply(call: ServerCall) -> Reply:
    """Adds one, in sections where they are asked for; another text for every sample above temperature 0."""
    asked = "\n".join(str(message["content"]) for message in call.messages)
    if "reasoning_effort" in call.body:
        return Reply("unknown field: reasoning_effort", status=400)
    if (call.body.get("max_completion_tokens") or 0) > 5000:
        return Reply("This model's maximum context length is 4096 tokens", status=400)
    number = int(asked.rpartition("What is ")[2].split()[0]) if "What is " in asked else 0
    chance = f"\n{call.body.get('seed', call.index)}" if call.body["temperature"] else ""
    text = f"print({number} + 1)" if "Python program" in asked else f"So it is.\nAnswer: {number + 1}"
    code = f"```python\n{text}\n```" if "Python program" in asked else text
    marked = f"[[ ## solution ## ]]\n{code}\n\n[[ ## completed ## ]]" if "[[ ## solution" in asked else code
    return Reply(marked + chance, delay=0.005)


@pytest.fixture
def server() -> Iterator[FakeOpenAIServer]:
    with FakeOpenAIServer(reply) as made:
        yield made


@pytest.fixture
def command(tmp_path: Path, server: FakeOpenAIServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", "160")
    rows = [{"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1), "kind": "math"} for i in range(12)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["probe", "--engine", "openai/fake", "--api-base", server.url, "--data", "sums.jsonl"]


def profile_at(path: Path, engine: str = "openai/fake") -> Path:
    Profile.of(AdaptiveCoda(), engine, scores={"test": {"accuracy": 0.5, "n": 8}}).save(path)
    return path


def planned(err: str) -> int:
    found = re.search(r"planned: at most (\d+) calls within 5 minutes", err)
    assert found is not None, err
    return int(found[1])


def test_the_tables_the_file_and_the_plan(
    run: Run, command: list[str], tmp_path: Path, server: FakeOpenAIServer
) -> None:
    code, out, err = run(*command)
    assert code == 0, err
    assert server.count <= planned(err)
    for words in ("adapters", "paths", "stages", "speed", "what the engine honours", "recommended: adapter sections"):
        assert words in out
    saved = json.loads((tmp_path / "runs" / "probe-fake" / "probe.json").read_text())
    assert saved["honours"] == {
        "temperature": True,
        "seed": True,
        "effort": False,
        "usage": True,
        "context_limit": True,
    }
    assert (saved["context_limit"], saved["adapter"], saved["better_path"]) == (4096, "sections", {"math": "direct"})
    assert saved["figures"]["adapters"]["plain"]["accuracy"] == {
        "value": 1.0,
        "low": pytest.approx(0.757, abs=0.01),
        "high": 1.0,
        "n": 12,
    }
    assert set(saved["tokens_per_second"]) == {"1", "2", "4", "8"}
    assert saved["calls"]["made"] == server.count


def test_the_result_goes_into_the_profile_which_stays_whole(run: Run, command: list[str], tmp_path: Path) -> None:
    path = profile_at(tmp_path / "p.json")
    before = json.loads(path.read_text())
    code, out, err = run(*command, "--profile", "p.json")
    assert code == 0, err
    assert "its adapter was plain" in out
    profile = Profile.read(path)
    assert profile.adapter == "sections"
    saved = json.loads((tmp_path / "runs" / "probe-fake" / "probe.json").read_text())
    assert profile.probe == {name: value for name, value in saved.items() if name != "failures"}
    after = json.loads(path.read_text())
    assert {**after, "adapter": "plain", "probe": None} == {**before, "probe": None}
    profile.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_where_too_few_questions_were_asked_the_profile_keeps_its_adapter(
    run: Run, command: list[str], tmp_path: Path
) -> None:
    path = profile_at(tmp_path / "p.json")
    Profile.read(path).model_copy(update={"adapter": "sections"}).save(path)
    (tmp_path / "sums.jsonl").write_text('{"id": "q", "question": "What is 1 + 1?", "answer": "2", "kind": "math"}\n')
    code, out, err = run(*command, "--profile", "p.json")
    assert (code, "recommended: adapter unknown" in out) == (0, True), err
    assert (Profile.read(path).adapter, Profile.read(path).probe is not None) == ("sections", True)


def test_no_address_gets_into_the_profile(run: Run, command: list[str], tmp_path: Path) -> None:
    def drops(call: ServerCall) -> Reply:
        return Reply(f"see {server.url}", status=400) if call.index % 4 == 3 else reply(call)

    profile_at(tmp_path / "p.json")
    with FakeOpenAIServer(drops) as server:
        command[command.index("--api-base") + 1] = server.url
        code, out, err = run(*command, "--profile", "p.json")
    assert (code, "calls failed" in out) == (0, True), err
    assert "127.0.0.1" not in (tmp_path / "p.json").read_text()


def test_after_kill_9_the_same_command_goes_on(command: list[str], tmp_path: Path, server: FakeOpenAIServer) -> None:
    words = [sys.executable, "-m", "coda_dspy", *command, "--output", "run"]
    first = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while server.count < 60 and time.monotonic() < until:
        time.sleep(0.005)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    rows = (tmp_path / "run" / "calls.jsonl").read_bytes().splitlines()
    assert rows
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "more are in the folder" in done.stderr
    assert (tmp_path / "run" / "calls.jsonl").read_bytes().splitlines()[: len(rows) - 1] == rows[:-1]
    keys = [json.loads(row)["key"] for row in (tmp_path / "run" / "calls.jsonl").read_bytes().splitlines()]
    assert len(set(keys)) == len(keys)


def test_ctrl_c_ends_with_130(command: list[str], server: FakeOpenAIServer) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "coda_dspy", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 60
    while server.count < 20 and time.monotonic() < until:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err and "the same command goes on" in err


def test_a_refused_key_and_a_dead_server_are_exit_code_2_and_the_key_is_nowhere(
    run: Run, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SERVER_KEY", KEY)
    with FakeOpenAIServer(lambda call: Reply(f"wrong key: {KEY}", status=401)) as refusing:
        command[command.index("--api-base") + 1] = refusing.url
        code, out, err = run(*command, "--api-key-env", "MY_SERVER_KEY")
    assert (code, "refuses to work" in err) == (2, True), err
    assert KEY not in out + err
    code, _, err = run(*command)  # the server is gone by now
    assert (code, "gave no reply" in err, "Traceback" in err) == (2, True, False), err
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "no-such-set"], "neither a built-in set nor a file"),
        (["--minutes", "0"], "minutes"),
        (["--budget", "best_of_n=0"], "best_of_n is 0"),
        (["--sandbox", "magic"], "sandbox 'magic' does not exist"),
        (["--profile", "none.json"], "profile none.json cannot be read"),
        (["--profile", "other.json"], "is the profile of openai/other, not of openai/fake"),
    ],
)
def test_bad_input_is_exit_code_2(
    run: Run, command: list[str], tmp_path: Path, server: FakeOpenAIServer, words: list[str], message: str
) -> None:
    profile_at(tmp_path / "other.json", "openai/other")
    code, _, err = run(*command, *words)
    assert (code, message in err, "Traceback" in err, server.count) == (2, True, False, 0), err


def test_without_an_engine_one_is_asked_for(run: Run) -> None:
    code, _, err = run("probe")
    assert (code, "no engine; give --engine" in err) == (2, True)


def test_model_texts_do_not_reach_the_terminal_raw(run: Run, command: list[str]) -> None:
    with FakeOpenAIServer(
        lambda call: Reply("\x1b[2J bad", status=400) if call.index % 2 else Reply("Answer: 1 \x1b[2J")
    ) as hostile:
        command[command.index("--api-base") + 1] = hostile.url
        code, out, err = run(*command)
    assert code == 0, err
    assert "\x1b" not in out + err
