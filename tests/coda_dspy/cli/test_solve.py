import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripts import Run

from coda_dspy import AdaptiveCoda, Profile
from coda_dspy.testing import FakeOpenAIServer, Reply, ServerCall

KEY = "sk-sentinel-0123456789"


@pytest.fixture
def server() -> FakeOpenAIServer:
    with FakeOpenAIServer(lambda call: "1. Add. (high)" if "Write a plan" in call.prompt else "So.\nAnswer: 8") as made:
        yield made


def at(server: FakeOpenAIServer) -> tuple[str, ...]:
    return ("--engine", "openai/fake", "--api-base", server.url)


def test_one_question_prints_answer_path_votes_and_bill(run: Run, server: FakeOpenAIServer) -> None:
    code, out, _ = run("solve", *at(server), "What is 4 + 4?")
    assert code == 0
    assert out.splitlines()[0] == "8"
    assert "path direct" in out
    assert "votes 8: 2" in out
    assert "2 calls" in out


def test_json_is_one_object_with_the_whole_bill(run: Run, server: FakeOpenAIServer) -> None:
    code, out, _ = run("solve", *at(server), "--json", "--algorithm", "coda", "--budget", "best_of_n=1", "Q?")
    answer = json.loads(out)
    assert code == 0
    assert (answer["answer"], answer["path"], answer["calls"]) == ("8", "coda", server.count)
    assert answer["stages"]["plan"]["calls"] == 2
    assert answer["tokens"] == server.tokens_in + server.tokens_out


def test_show_prints_what_the_roles_said(run: Run, server: FakeOpenAIServer) -> None:
    _, out, _ = run("solve", *at(server), "--algorithm", "coda", "--show", "plan,reflect", "Q?")
    assert "plan (coda, attempt 1, plan 1)" in out
    assert "1. Add. (high)" in out
    assert "execute (coda" not in out


def test_the_question_may_come_on_standard_input(run: Run, server: FakeOpenAIServer) -> None:
    assert run("solve", *at(server), stdin="What is 4 + 4?")[0] == 0
    assert run("solve", *at(server), "-", stdin="What is 4 + 4?")[0] == 0
    assert server.calls[0].prompt.startswith("What is 4 + 4?")


def test_every_budget_field_can_be_set(run: Run, server: FakeOpenAIServer) -> None:
    run("solve", *at(server), "--budget", "num_attempts_baseline=1", "--budget", "temperature.direct=0.125", "Q?")
    assert server.count == 1
    assert server.calls[0].body["temperature"] == 0.125


def test_choices_make_a_choice_question(run: Run) -> None:
    with FakeOpenAIServer(lambda call: "Answer: B") as server:
        code, out, _ = run("solve", *at(server), "--choice", "Rome", "--choice", "Paris", "Capital of France?")
    assert code == 0
    assert out.splitlines()[0] == "B"


def test_no_answer_is_exit_code_1(run: Run) -> None:
    with FakeOpenAIServer(lambda call: Reply.cut("hm")) as server:
        code, out, _ = run("solve", *at(server), "Q?")
    assert code == 1
    assert out.splitlines()[0] == "no answer"
    assert "cut off" in out


def test_terminal_escapes_of_a_model_are_not_printed_raw(run: Run) -> None:
    with FakeOpenAIServer(lambda call: "\x1b[2J\x1b]0;owned\x07Answer: 8") as server:
        _, out, _ = run("solve", *at(server), "--show", "all", "Q?")
    assert "\x1b" not in out
    assert "\x07" not in out


def questions_file(tmp_path: Path, number: int = 5) -> Path:
    path = tmp_path / "questions.jsonl"
    rows = [{"id": f"q{i}", "question": f"Question {i}?", "answer": "8", "kind": "math"} for i in range(number)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_file_of_questions_is_answered_and_the_same_command_goes_on(run: Run, tmp_path: Path) -> None:
    failing = {"Question 3?"}

    def reply(call: ServerCall) -> str | Reply:
        if any(call.prompt.startswith(question) for question in failing):
            return Reply("expired", status=401)
        return "Answer: 8"

    source, target = questions_file(tmp_path), tmp_path / "answers.jsonl"
    with FakeOpenAIServer(reply) as server:
        words = ("solve", *at(server), "--input", str(source), "--output", str(target), "--workers", "1")
        code, _, err = run(*words)
        assert code == 2
        assert "expired" in err
        assert len(target.read_text().splitlines()) == 3
        failing.clear()
        before = server.count
        code, out, _ = run(*words)
        assert code == 0
        assert server.count - before == 2 * 2
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert [row["id"] for row in rows] == ["q0", "q1", "q2", "q3", "q4"]
    assert all(row["answer"] == "8" for row in rows)
    assert "5 of 5 graded ones right" in out


def test_a_profile_brings_its_engine_budget_and_prompts(run: Run, server: FakeOpenAIServer, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    program = AdaptiveCoda()
    program.budget.load_state(program.budget.replace(num_attempts_baseline=1).dump_state())
    Profile.of(program, "openai/fake").save(path)
    code, _, _ = run("solve", "--profile", str(path), "--api-base", server.url, "Q?")
    assert code == 0
    assert server.count == 1


def test_bad_input_is_one_line_and_exit_code_2(
    run: Run, server: FakeOpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dspy.clients.execution.time.sleep", lambda seconds: None)
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"question": "Q?"}\n{"question"\n')
    old = tmp_path / "old.json"
    old.write_text('{"format": "coda-dspy-profile", "version": 0}')
    there = at(server)
    cases: list[tuple[tuple[str, ...], str]] = [
        ((), "no engine; give --engine"),
        (("--engine", "nonsense/model"), "engine 'nonsense/model' is unknown"),
        (("--engine", "local/no-such-model"), "no-such-model"),
        (("--engine", "openai/fake", "--api-base", "http://127.0.0.1:9/v1"), "the engine gave no reply"),
        ((*there, "--budget", "best_of_n=0"), "best_of_n is 0; it has to be a whole number from 1 to 64"),
        ((*there, "--budget", "nonsense=1"), "budget has no field 'nonsense'"),
        ((*there, "--preset", "huge"), "budget preset 'huge' does not exist"),
        ((*there, "--kind", "choice"), "needs choices"),
        ((*there, "--show", "cooking"), "unknown stage"),
        ((*there, "--api-key-env", "NO_SUCH_VARIABLE"), "NO_SUCH_VARIABLE is not set"),
        ((*there, "--decoding", "top_k"), "write it as name=value"),
        ((*there, "--decoding", "api_key=sk-1"), "api_key is no decoding setting"),
        ((*there, "--decoding", "temperature=1"), "use --budget temperature=VALUE"),
        ((*there, "--output", "o.jsonl"), "--output is for --input"),
        ((*there, "--algorithm", "direct", "--budget", "num_attempts_baseline=5"), "temperature.direct is 0"),
        ((*there, "--budget", "num_attempts_baseline=0", "--budget", "num_attempts_coda=0"), "are all 0"),
        (("--profile", "no-such.json"), "cannot be read: No such file"),
        (("--profile", str(old)), "version is 0"),
        ((*there, "--input", "x.jsonl"), "use one of them"),
    ]
    for words, message in cases:
        code, _, err = run("solve", *words, "Q?")
        assert (code, message in err) == (2, True), (words, err)
        assert "Traceback" not in err
    for words, message in [
        (("--input", str(broken), "--output", "o.jsonl"), "line 2"),
        (("--input", "missing.jsonl", "--output", "o.jsonl"), "no such file"),
        (("--input", str(broken)), "needs --output"),
        (("--input", str(broken), "--output", str(broken)), "--output is the same file as --input"),
        (("--input", str(broken), "--output", "o.jsonl", "--json"), "--json is for a single question"),
    ]:
        code, _, err = run("solve", *there, *words)
        assert (code, message in err) == (2, True), (words, err)


def test_a_wrong_key_is_told_without_the_key(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with FakeOpenAIServer(lambda call: Reply(f"bad key {KEY}", status=401)) as server:
        code, out, err = run("solve", *at(server), "--api-key-env", "MY_KEY", "Q?")
    assert code == 2
    assert "refuses to work" in err
    assert KEY not in out + err


def test_terminal_escapes_in_a_servers_refusal_are_not_printed_raw(run: Run) -> None:
    with FakeOpenAIServer(lambda call: Reply("no \x1b]0;owned\x07", status=401)) as server:
        code, _, err = run("solve", *at(server), "Q?")
    assert code == 2
    assert "\x1b" not in err


def test_a_failed_run_ends_at_once_and_does_not_wait_for_calls_in_flight() -> None:
    def reply(call: ServerCall) -> Reply:
        return Reply("refused", status=401) if call.index == 0 else Reply("Answer: 8", delay=20)

    with FakeOpenAIServer(reply) as server:
        words = ["solve", *at(server), "--budget", "early_exit=off", "Q?"]
        started = time.monotonic()
        done = subprocess.run([sys.executable, "-m", "coda_dspy", *words], capture_output=True, text=True)
        took = time.monotonic() - started
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert took < 15


def test_an_unknown_command_or_option_is_exit_code_2(run: Run) -> None:
    assert run("sove")[0] == 2
    assert run("solve", "--engin", "x")[0] == 2


def test_a_code_task_is_solved_from_a_file_and_its_failing_runs_are_shown(run: Run, tmp_path: Path) -> None:
    wrong, right = "def double(x):\n    return x + 1", "def double(x):\n    return 2 * x"
    (tmp_path / "task.txt").write_text("Write double(x), which returns twice x.")
    tests = [{"input": "3", "output": "6", "testtype": "functional"}]
    (tmp_path / "tests.json").write_text(json.dumps(tests))

    def reply(call: ServerCall) -> str:
        return f"```python\n{right if 'fails the task' in call.prompt else wrong}\n```"

    with FakeOpenAIServer(reply) as server:
        words = ["--kind", "code", "--tests", "tests.json", "--entry-point", "double", "--show", "direct,refine"]
        words += ["--budget", "refine_rounds=1", "--budget", "num_attempts_baseline=1", "task.txt"]
        code, out, _ = run("solve", *at(server), *words)
    assert code == 0
    assert "return 2 * x" in out
    assert "The program fails:" in out
    assert "Expected:" in out


def test_the_doctor_says_what_this_machine_has(run: Run) -> None:
    code, out, _ = run("doctor")
    assert code == 0
    assert "sandbox:" in out
    assert "does not contain" in out
    assert "local/qwen2.5-coder-0.5b" in out
    assert "dspy" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sandbox", "none"), "sandbox 'none' does not exist; choose one of"),
        (("--tests", "missing.json"), "cannot be read: No such file"),
        (("--kind", "code", "--entry-point", "two words"), "give the name of a function"),
        (("--entry-point", "f", "--kind", "math"), "use kind='code'"),
    ],
)
def test_bad_input_of_a_code_task_is_explained(
    run: Run, server: FakeOpenAIServer, words: tuple[str, ...], message: str
) -> None:
    code, _, err = run("solve", *at(server), *words, "Q?")
    assert (code, message in err) == (2, True), err
