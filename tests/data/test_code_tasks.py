"""The code tasks hold what the README says: every reference passes all of its tests, every broken variant fails one."""

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import Any

import pytest

DATA = files("coda_dspy.data")
TASKS: list[dict[str, Any]] = [json.loads(line) for line in DATA.joinpath("code.jsonl").read_bytes().splitlines()]
FUNCTIONS = [task for task in TASKS if task["entry_point"] is not None]
PROGRAMS = [task for task in TASKS if task["entry_point"] is None]
LEVELS = ("easy", "middle", "hard")
LIBRARIES = {"bisect", "collections", "heapq", "itertools", "math", "re", "sys"}

# Runs programs of this project only; it is no sandbox. It never gets the expected outputs.
DRIVER = """
import contextlib, io, json, signal, sys

def give_up(*_):
    raise TimeoutError

def run(source, entry_point, given):
    if entry_point is None:
        sys.stdin, out = io.StringIO(given), io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(source, {"__name__": "__main__"})
        return out.getvalue()
    space = {}
    exec(source, space)
    return json.dumps(space[entry_point](*map(json.loads, given.split("\\n"))))

def outputs(source, entry_point, inputs):
    found = []
    signal.alarm(5)  # for all inputs of a program together
    try:
        for given in inputs:
            try:
                found.append(run(source, entry_point, given))
            except TimeoutError:
                raise
            except Exception:  # a broken variant may raise anything
                found.append(None)
    except TimeoutError:
        found += [None] * (len(inputs) - len(found))
    finally:
        signal.alarm(0)
    return found

signal.signal(signal.SIGALRM, give_up)
json.dump([outputs(*job) for job in json.load(sys.stdin)], sys.__stdout__)
"""


def all_tests(task: dict[str, Any]) -> list[dict[str, str]]:
    return [*task["public_tests"], *task["tests"]]


def same(task: dict[str, Any], got: str | None, expected: str) -> bool:
    if got is None:
        return False
    if task["entry_point"] is None:
        return [line.rstrip() for line in got.rstrip().split("\n")] == [
            line.rstrip() for line in expected.rstrip().split("\n")
        ]
    # As text again, because 1 == True in Python.
    return json.dumps(json.loads(got), sort_keys=True) == json.dumps(json.loads(expected), sort_keys=True)


@cache
def verdicts(variant: str) -> dict[str, list[bool]]:
    """For each task: which tests its `reference` or `broken` variant passes, public ones first. One process for all."""
    sources = {task["id"]: task["answer"] if variant == "reference" else task["meta"]["broken"] for task in TASKS}
    jobs = [(sources[task["id"]], task["entry_point"], [test["input"] for test in all_tests(task)]) for task in TASKS]
    done = subprocess.run(
        [sys.executable, "-I", "-c", DRIVER], input=json.dumps(jobs), capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 0, done.stderr
    return {
        task["id"]: [same(task, got, test["output"]) for got, test in zip(outputs, all_tests(task), strict=True)]
        for task, outputs in zip(TASKS, json.loads(done.stdout), strict=True)
    }


def shown(task: dict[str, Any], test: dict[str, str]) -> str:
    """A public test as the statement has to show it."""
    if task["entry_point"] is None:
        return f"Input:\n```\n{test['input']}```\nOutput:\n```\n{test['output']}```"
    arguments = ", ".join(repr(json.loads(value)) for value in test["input"].split("\n"))
    return f">>> {task['entry_point']}({arguments})\n{json.loads(test['output'])!r}"


def test_every_reference_passes_all_of_its_tests() -> None:
    assert [name for name, passed in verdicts("reference").items() if not all(passed)] == []


def test_every_broken_variant_fails_a_hidden_test_and_passes_a_public_one() -> None:
    passed = verdicts("broken")
    public = {task["id"]: len(task["public_tests"]) for task in TASKS}
    assert [name for name, count in public.items() if all(passed[name][count:])] == []
    assert [name for name, count in public.items() if not any(passed[name][:count])] == []


def test_there_are_at_least_40_functions_and_20_programs_in_three_levels_of_similar_size() -> None:
    assert len(FUNCTIONS) >= 40
    assert len(PROGRAMS) >= 20
    for tasks, least in ((FUNCTIONS, 13), (PROGRAMS, 7)):
        counts = Counter(task["meta"]["level"] for task in tasks)
        assert set(counts) == set(LEVELS)
        assert min(counts.values()) >= least


def test_ids_are_numbered_in_the_order_of_the_file() -> None:
    assert [task["id"] for task in TASKS] == [f"code-{number:03d}" for number in range(1, len(TASKS) + 1)]


def test_no_task_is_there_twice() -> None:
    statements = [" ".join(re.findall(r"\w+", task["question"].casefold())) for task in TASKS]
    assert len(set(statements)) == len(TASKS)
    assert len({task["entry_point"] for task in FUNCTIONS}) == len(FUNCTIONS)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["id"])
def test_a_task_has_the_documented_fields(task: dict[str, Any]) -> None:
    assert set(task) == {"id", "question", "kind", "answer", "entry_point", "public_tests", "tests", "meta"}
    assert task["kind"] == "code"
    assert set(task["meta"]) == {"level", "topic", "broken"}
    texts = [task["question"], task["answer"], *task["meta"].values()]
    assert all(isinstance(text, str) and text.strip() for text in texts)
    assert 2 <= len(task["public_tests"]) <= 3
    assert 6 <= len(task["tests"]) <= 12


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["id"])
def test_the_tests_of_a_task_are_well_formed_and_never_repeated(task: dict[str, Any]) -> None:
    tests = all_tests(task)
    for test in tests:
        assert set(test) == {"input", "output", "testtype"}
        assert test["testtype"] == ("stdin" if task["entry_point"] is None else "functional")
        assert test["input"]
        assert test["output"].strip()
        if task["entry_point"] is not None:
            values = [json.loads(value) for value in [*test["input"].split("\n"), test["output"]]]
            assert "." not in re.sub(r'"[^"]*"', "", json.dumps(values)), "floats would need a tolerance"
    assert len({test["input"] for test in tests}) == len(tests)
    assert len({test["output"] for test in task["tests"]}) >= 2, "one fixed output would pass"


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["id"])
def test_the_statement_shows_the_first_two_public_tests_and_no_hidden_one(task: dict[str, Any]) -> None:
    for test in task["public_tests"][:2]:
        assert shown(task, test) in task["question"]
    for test in task["tests"]:
        assert shown(task, test) not in task["question"]


@pytest.mark.parametrize("task", FUNCTIONS, ids=lambda task: task["id"])
def test_the_statement_of_a_function_gives_the_signature_of_its_reference(task: dict[str, Any]) -> None:
    found = re.match(r"Write a function `((\w+)\(.*\) -> .+)`\.\n", task["question"])
    assert found is not None
    assert found[2] == task["entry_point"]
    for source in (task["answer"], task["meta"]["broken"]):
        assert f"def {found[1]}:\n" in source


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["id"])
def test_the_solutions_of_a_task_use_the_standard_library_only(task: dict[str, Any]) -> None:
    for source in (task["answer"], task["meta"]["broken"]):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                assert {name.name for name in node.names} <= LIBRARIES
            if isinstance(node, ast.ImportFrom):
                assert node.module in LIBRARIES


def test_the_readme_states_the_real_sizes_of_the_code_set() -> None:
    readme = DATA.joinpath("README.md").read_text(encoding="utf-8")
    for name, tasks in (("functions", FUNCTIONS), ("programs", PROGRAMS)):
        counts = Counter(task["meta"]["level"] for task in tasks)
        sizes = " | ".join(str(counts[level]) for level in LEVELS)
        assert f"| {name} | {sizes} | {len(tasks)} |" in readme
    public, hidden = (sum(len(task[part]) for task in TASKS) for part in ("public_tests", "tests"))
    assert f"{len(TASKS)} tasks, {public} public and {hidden} hidden tests" in readme
