"""The paper's tables, measured on engines whose skills are known."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripts import answering, engine

from coda_dspy import Budget
from coda_dspy.algorithms import ALGORITHMS
from coda_dspy.data import Question
from coda_dspy.errors import UserError
from coda_dspy.evaluation import JsonLines
from coda_dspy.experiments.rendering import as_csv, cells, markdown, write
from coda_dspy.experiments.running import Row, Setup, run
from coda_dspy.experiments.tables import TABLES
from coda_dspy.programs import Case
from coda_dspy.testing import FakeOpenAIServer, Reply, ScriptedCall, ServerCall

BUDGET = Budget.preset("quick").replace(best_of_n=3, n_plans=2, early_exit="off")
SUMS = [Question(f"q{i}", f"What is {i} + 1?", str(i + 1)) for i in range(8)]


def half(call: ScriptedCall) -> str:
    """In words right for even numbers, by program for multiples of three."""
    number = int(call.prompt.rpartition("What is ")[2].split()[0])
    if call.stage == "code":
        return f"```python\nprint({number + 1 if number % 3 == 0 else 0})\n```"
    return f"Answer: {number + 1 if number % 2 == 0 else 0}"


def test_every_table_names_algorithms_and_budgets_that_exist() -> None:
    for table in TABLES.values():
        for variant in table.variants:
            assert variant.algorithm in ALGORITHMS
            Budget().replace(**variant.budget)
        names = {variant.name for variant in table.variants}
        assert all(set(derived.variants) <= names for derived in table.derived)
        assert all(figure.variant in names for figure in table.paper)


def test_either_is_right_where_one_of_the_paths_is(tmp_path: Path) -> None:
    _, lm = engine(half)
    direct, code, either = run(TABLES["table5"], SUMS, BUDGET, Setup(lm, tmp_path))
    right = [{r.id for r in row.results if r.correct} for row in (direct, code, either)]
    assert right[0] == {"q0", "q2", "q4", "q6"} and right[1] == {"q0", "q3", "q6"}
    assert right[2] == right[0] | right[1]
    assert not either.measured
    assert either.results[0].calls == direct.results[0].calls + code.results[0].calls == 2


def test_variants_share_their_samples_and_a_second_call_generates_nothing(tmp_path: Path) -> None:
    made, lm = engine(answering(["1", "2", "3"], ["1", "2", "3"]))
    rows = run(TABLES["table3"], SUMS[:3], BUDGET, Setup(lm, tmp_path))
    calls = len(made.calls)
    by_name = {row.name: row for row in rows}
    without = by_name["without self-reflection"].results
    assert all(r.billed_calls == 0 for r in without)  # its plans and executions are those of Coda
    assert by_name["recall@best_of_N"].results[0].correct == by_name["Coda"].results[0].recalled
    assert run(TABLES["table3"], SUMS[:3], BUDGET, Setup(lm, tmp_path)) == rows
    assert len(made.calls) == calls


def test_without_tests_a_program_is_tried_on_none_not_even_on_examples(tmp_path: Path) -> None:
    statement = "Write f(x).\n\n>>> f(3)\n6\n"
    cases = (Case("1", "2", "functional"),), (Case("2", "4", "functional"),)
    task = Question("t", statement, "", "code", public_tests=cases[0], tests=cases[1], entry_point="f")

    def script(call: ScriptedCall) -> str:
        if call.stage == "plan":
            return "1. Do. (high)"
        return f"```python\ndef f(x):\n    return {'2 * x' if call.stage == 'refine' else 'x'}\n```"

    made, lm = engine(script)
    budget = BUDGET.replace(refine_rounds=1)
    rows = {row.name: row.results[0] for row in run(TABLES["table7"], [task], budget, Setup(lm, tmp_path))}
    assert (rows["baseline"].correct, rows["Coda"].correct, rows["Coda with tests"].correct) == (False, False, True)
    assert not any(stage == "refine" for stage in rows["Coda"].stages)
    assert not any("fails" in call.prompt for call in made.calls if call.stage == "reflect" and "passes" in call.prompt)


def test_questions_of_another_kind_are_refused(tmp_path: Path) -> None:
    _, lm = engine(half)
    with pytest.raises(UserError, match="table7 is about code, but there are math questions"):
        run(TABLES["table7"], SUMS, BUDGET, Setup(lm, tmp_path))


def test_what_is_written_holds_the_figures_their_intervals_and_the_command(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    _, lm = engine(half)
    rows = run(TABLES["table5"], SUMS, BUDGET, Setup(lm, tmp_path / "run"))
    paths = write(TABLES["table5"], rows, tmp_path / "out", "the command")
    assert {path.suffix for path in paths} == {".md", ".csv", ".png"}
    text = markdown(TABLES["table5"], rows, "the command")
    assert "the command" in text and "50.0% [" in text and "in the paper" not in text
    paper = markdown(TABLES["table6"], [Row("with coding", rows[0].results)], "")
    assert "80.0% (Qwen3-8B, AIME 2025)" in paper
    read = list(csv.DictReader(as_csv(rows).splitlines()))
    assert [row["variant"] for row in read] == ["direct", "code", "either"]
    assert (read[2]["unparsed"], float(read[1]["difference low"]) < 0) == ("", True)
    assert float(read[0]["accuracy"]) == 0.5 and float(read[0]["low"]) < 0.5 < float(read[0]["high"])
    assert cells(rows)[0][2] == ""


def rows_below(folder: Path) -> dict[str, list[dict]]:
    return {path.parent.name: JsonLines(path).read() for path in folder.glob("*/results.jsonl")}


def adds(call: ServerCall) -> Reply:
    number = int(call.prompt.rpartition("What is ")[2].split()[0])
    text = "1. Add. (high)" if "Write a plan" in call.prompt else f"Answer: {number + (1 if number % 3 else 0)}"
    return Reply(text, delay=0.01)


def test_after_kill_9_a_table_goes_on_and_equals_an_uninterrupted_one(tmp_path: Path, mlflow_uri: str) -> None:
    pytest.importorskip("matplotlib")
    data = [{"id": q.id, "question": q.question, "answer": q.answer, "kind": "math"} for q in SUMS]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data))
    with FakeOpenAIServer(adds) as server:
        words = ["run", "table3", "--engine", "openai/fake", "--api-base", server.url, "--data", "sums.jsonl"]
        command = [sys.executable, "-m", "coda_dspy.experiments", *words, "--mlflow-uri", mlflow_uri]
        whole = subprocess.run([*command, "--output", "whole"], capture_output=True, text=True)
        assert whole.returncode == 0, whole.stderr
        calls = server.count
        server.reset()
        first = subprocess.Popen([*command, "--output", "run"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while server.count < 3 * calls // 4 and time.monotonic() < end:
            time.sleep(0.005)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        before = rows_below(tmp_path / "run")
        assert 0 < sum(map(len, before.values())) < 3 * len(SUMS)
        second = subprocess.run([*command, "--output", "run"], capture_output=True, text=True)
        assert second.returncode == 0, second.stderr
        in_flight = 8 * 3 * 2  # questions at a time, attempts and plans of each: what was being asked is asked again
        assert server.count <= calls + in_flight
    after = rows_below(tmp_path / "run")
    assert set(after) == {"Coda", "without-planner", "without-self-reflection"}
    for name, rows in before.items():
        assert after[name][: len(rows)] == rows
    assert all(len({row["id"] for row in rows}) == len(rows) == len(SUMS) for rows in after.values())
    billed = sum(row["billed_calls"] for rows in after.values() for row in rows)
    assert billed <= calls  # replies that were there already were not generated, or billed, again
    figures = [(tmp_path / folder / "table3.csv").read_text() for folder in ("run", "whole")]
    assert figures[0] == figures[1]
