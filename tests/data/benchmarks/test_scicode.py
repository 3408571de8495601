"""SciCode: rows in the official columns and a small `test_data.h5`, both written for these tests."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from coda_dspy.data import Question, load, problem_rate, read_questions, write_questions
from coda_dspy.errors import UserError

h5py = pytest.importorskip("h5py", reason="the targets need h5py (the extra `hub`)")
np = pytest.importorskip("numpy")

COMPARED = "from scicode.compare.cmp import cmp_tuple_or_list\nassert cmp_tuple_or_list(pair(2.0), target)"


def step(number: str, name: str, *tests: str) -> dict[str, Any]:
    return {
        "step_number": number,
        "step_description_prompt": f"Write {name}.",
        "step_background": "Nobody reads this.",
        "ground_truth_code": None,
        "function_header": f'def {name}(x):\n    """Gives a number."""',
        "test_cases": list(tests),
        "return_line": "    return y",
    }


ROW = {
    "problem_name": "made_up",
    "problem_id": "900",
    "problem_description_main": "A made-up problem.",
    "required_dependencies": "import numpy as np\nimport math\nimport matplotlib.pyplot as plt",
    "sub_steps": [
        step("900.1", "twice", "assert np.allclose(twice(3), target)", "x = 4\nassert np.allclose(twice(x), target)"),
        step("900.2", "fourfold", "assert np.allclose(fourfold(np.ones(3)), target)"),
        step("900.3", "pair", COMPARED),
    ],
}
TWICE = "def twice(x):\n    return 2 * x"
FOURFOLD = "def fourfold(x):\n    return twice(twice(x))"
PAIR = "def pair(x):\n    return [twice(x), fourfold(x)]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The official files: rows, and the targets of the tests."""
    (tmp_path / "problems_test.jsonl").write_text(json.dumps(ROW) + "\n")
    with h5py.File(tmp_path / "test_data.h5", "w") as file:
        file["900.1/test1/var1"] = 6.0
        file["900.1/test2/var1"] = 8
        file["900.2/test1/var1"] = np.full(3, 4.0)
        file["900.3/test1/var1"] = 4.0
        file["900.3/test1/var2"] = np.array(8.0)
    return tmp_path


@pytest.fixture
def steps(folder: Path) -> list[Question]:
    return load(f"scicode={folder}/problems_test.jsonl")


def test_each_step_is_a_question(steps: list[Question]) -> None:
    assert [question.id for question in steps] == ["scicode/900.1", "scicode/900.2", "scicode/900.3"]
    assert [question.previous for question in steps] == [None, "scicode/900.1", "scicode/900.2"]
    assert [question.meta["step"] for question in steps] == [0, 1, 2]
    assert {question.meta["problem"] for question in steps} == {"900"}
    assert [question.entry_point for question in steps] == ["twice", "fourfold", "pair"]
    assert all(case.seconds == 1800 for question in steps for case in question.tests)


def test_a_first_step_is_graded_by_its_targets(steps: list[Question]) -> None:
    assert steps[0].grade(TWICE) is True
    assert steps[0].grade("def twice(x):\n    return 6") is False  # the second test has another target


def test_later_steps_stand_behind_the_models_own_programs(steps: list[Question]) -> None:
    second = steps[1].after([TWICE])
    assert second.grade(FOURFOLD) is True
    assert steps[1].after(["def twice(x):\n    return 3 * x"]).grade(FOURFOLD) is False  # its own mistake counts
    assert steps[1].after([""]).grade(FOURFOLD) is False
    assert steps[2].after([TWICE, FOURFOLD]).grade(PAIR) is True
    assert steps[2].after([TWICE, "def fourfold(x):\n    return 0"]).grade(PAIR) is False


def test_the_statement_shows_the_earlier_programs_in_their_places(steps: list[Question]) -> None:
    third = steps[2].after([TWICE, FOURFOLD])
    places = [
        third.question.index(part) for part in ("Write twice.", TWICE, "Write fourfold.", FOURFOLD, "Write pair.")
    ]
    assert places == sorted(places)
    assert "import numpy as np" in third.question and "matplotlib" not in third.question  # no test needs plots
    assert "<program of" not in third.question
    assert "<program of scicode/900.2>" in steps[2].question


def test_programs_may_hold_anything(steps: list[Question]) -> None:
    odd = f"from __future__ import annotations\n# <program of scicode/900.1>\n# \\1 \\g<0> {{}}\n{TWICE}"
    assert steps[1].after([odd]).grade(f"from __future__ import annotations\n{FOURFOLD}") is True


def test_every_earlier_step_needs_its_program(steps: list[Question]) -> None:
    with pytest.raises(UserError, match=r"scicode/900\.3 comes after 2 steps; give 2 programs, not 1"):
        steps[2].after([TWICE])
    assert steps[0].after([]) == steps[0]


def test_steps_keep_their_order_through_our_own_files(steps: list[Question], tmp_path: Path) -> None:
    write_questions(tmp_path / "steps.jsonl", steps)
    assert read_questions(tmp_path / "steps.jsonl") == steps


SUPPLIED = {
    "problem_id": "62",
    "problem_name": "made_up",
    "required_dependencies": "import numpy as np",
    "sub_steps": [step("62.1", "given", "assert False"), step("62.2", "asked", "assert asked(1) == 6")],
}


def test_a_supplied_step_is_not_asked_but_there(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([SUPPLIED]))
    (tmp_path / "62.1.txt").write_text("def given(x):\n    return 5 * x\n")
    (question,) = load(f"scicode={tmp_path}/rows.json")
    assert (question.id, question.previous, question.meta["step"]) == ("scicode/62.2", None, 1)
    assert "return 5 * x" in question.question
    assert question.after([]).grade("def asked(x):\n    return given(x) + 1") is True


def test_the_file_of_a_supplied_step_is_named_where_it_is_missing(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([SUPPLIED]))
    with pytest.raises(UserError, match=r"row 1: the benchmark supplies step 62\.1, but .*62\.1\.txt cannot be read"):
        load(f"scicode={tmp_path}/rows.json")


def test_tests_without_targets_need_no_h5(tmp_path: Path) -> None:
    own = {
        **ROW,
        "sub_steps": [step("900.1", "twice", "target = 6\nassert twice(3) == target", "assert twice(1) == 2")],
    }
    (tmp_path / "rows.json").write_text(json.dumps([own]))
    (question,) = load(f"scicode={tmp_path}/rows.json")
    assert question.grade(TWICE) is True and question.grade("def twice(x):\n    return 6") is False


def test_the_h5_is_named_where_it_is_missing(folder: Path) -> None:
    (folder / "test_data.h5").unlink()
    with pytest.raises(UserError, match=r"row 1: the targets of step 900\.1 are not there: put .* at .*test_data\.h5"):
        load(f"scicode={folder}/problems_test.jsonl")


def test_an_h5_that_is_none_or_lacks_a_step_is_named(folder: Path) -> None:
    (folder / "test_data.h5").write_text("no HDF5")
    with pytest.raises(UserError, match=r"test_data\.h5: is no HDF5 file"):
        load(f"scicode={folder}/problems_test.jsonl")
    with h5py.File(folder / "test_data.h5", "w") as file:
        file["900.1/test1/var1"] = 6.0
    with pytest.raises(UserError, match=r"test_data\.h5: holds no 2 targets of step 900\.1"):
        load(f"scicode={folder}/problems_test.jsonl")


def test_the_package_is_named_where_it_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(UserError, match=r"test_data\.h5 needs h5py.*coda-dspy\[hub\]"):
        load(f"scicode={folder}/problems_test.jsonl")


def test_from_the_hub_the_test_split_says_at_once_what_is_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coda_dspy.data.benchmarks.hub.file", lambda _, name, __: folder / name)
    with pytest.raises(UserError, match=r"not on the hub\. Put problems_test\.jsonl, test_data\.h5 .*13\.6\.txt"):
        load("scicode")


def test_from_the_hub_the_validation_split_takes_its_targets_along(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def file(repository: str, name: str, revision: str) -> Path:
        return folder / name.replace("dev", "test")

    monkeypatch.setattr("coda_dspy.data.benchmarks.hub.file", file)
    assert load("scicode-dev")[0].grade(TWICE) is True


def test_without_network_the_targets_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def file(repository: str, name: str, revision: str) -> Path:
        if name == "test_data.h5":
            raise ConnectionError("no route")
        return folder / "problems_test.jsonl"

    monkeypatch.setattr("coda_dspy.data.benchmarks.hub.file", file)
    with pytest.raises(
        UserError, match=r"test_data\.h5 cannot be fetched \(ConnectionError: no route\); put it beside"
    ):
        load("scicode-dev")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sub_steps": []}, "sub_steps is no list"),
        ({"sub_steps": [step("900.1", "twice")]}, "step 900.1 has no tests"),
        ({"sub_steps": [step("900.1", "twice", "assert True") | {"function_header": "x"}]}, "defines nothing"),
    ],
)
def test_a_damaged_row_is_named(folder: Path, change: dict[str, Any], message: str) -> None:
    (folder / "rows.json").write_text(json.dumps([ROW | change]))
    with pytest.raises(UserError, match=f"row 1: .*{message}"):
        load(f"scicode={folder}/rows.json")


def test_a_class_can_be_a_step(folder: Path) -> None:
    header = "class Pendulum:\n    def __init__(self, length):"
    row = ROW | {"sub_steps": [step("900.1", "x", "assert Pendulum(2).length == 2") | {"function_header": header}]}
    (folder / "rows.json").write_text(json.dumps([row]))
    (question,) = load(f"scicode={folder}/rows.json")
    assert question.entry_point == "Pendulum"
    assert question.grade("class Pendulum:\n    def __init__(self, length):\n        self.length = length") is True


# Main problems


def test_a_problem_is_right_if_all_its_steps_are(steps: list[Question]) -> None:
    other = Question("scicode/901.1", "Another?", "", "code", meta={"problem": "901", "step": 0})
    right = {question.id: True for question in steps}
    assert problem_rate([*steps, other], right | {other.id: True}) == 1.0
    assert problem_rate([*steps, other], right) == 0.5
    assert problem_rate([*steps, other], {steps[0].id: True}) == 0.0


def test_other_questions_have_no_problem_rate() -> None:
    with pytest.raises(UserError, match="none of these questions is a step"):
        problem_rate([Question("a", "One?", "1")], {"a": True})


# Targets


def grades(folder: Path, fill: Any, *tests: str) -> bool | None:
    """Whether `value = f(1)`, with f giving its argument, passes tests whose targets `fill` writes."""
    row = ROW | {"sub_steps": [step("900.1", "f", *tests)]}
    (folder / "rows.json").write_text(json.dumps([row]))
    with h5py.File(folder / "test_data.h5", "w") as file:
        fill(file)
    (question,) = load(f"scicode={folder}/rows.json")
    return question.grade("def f(x):\n    return x")


@pytest.mark.parametrize(
    ("value", "test"),
    [
        (
            np.arange(6).reshape(2, 3),
            "assert target.shape == (2, 3) and target[1, 2] == 5 and target.dtype.kind == 'i'",
        ),
        (np.array([1 + 2j, np.nan]), "assert target[0] == 1 + 2j and np.isnan(target[1])"),
        (np.array([True, False]), "assert target.tolist() == [True, False]"),
        (np.float64(np.inf), "assert target == math.inf"),
        (np.complex128(1 - 1j), "assert target == 1 - 1j"),
        (np.bool_(True), "assert target is True"),
        ("α text", "assert target == 'α text'"),
        (3, "assert target == 3"),
        (np.zeros((0, 3)), "assert target.shape == (0, 3)"),
        (np.array([b"a", b"b"], dtype="S1"), "assert list(target) == [b'a', b'b']"),
    ],
)
def test_values_arrive_in_the_sandbox_as_they_were(tmp_path: Path, value: Any, test: str) -> None:
    def fill(file: Any) -> None:
        file["900.1/test1/var1"] = value

    assert grades(tmp_path, fill, test) is True


def test_lists_dictionaries_and_sparse_matrices_arrive_too(tmp_path: Path) -> None:
    pytest.importorskip("scipy")

    def fill(file: Any) -> None:
        file["900.1/test1/var1/list/var1"] = 1
        file["900.1/test1/var1/list/var2"] = np.ones(2)
        file["900.1/test2/var1/1.5"] = 3.0
        file["900.1/test2/var1/name"] = "x"
        matrix = "900.1/test3/var1/sparse_matrix"
        for name, part in {"data": [7.0], "indices": [1], "indptr": [0, 1, 1], "shape": [2, 2]}.items():
            file[f"{matrix}/{name}"] = np.array(part)
        for name, part in {"data": [7.0], "row": [0], "col": [1], "shape": [2, 2]}.items():
            file[f"900.1/test4/var1/sparse_matrix/{name}"] = np.array(part)

    compared = (
        "from scicode.compare.cmp import are_csc_matrix_close, are_dicts_close, cmp_tuple_or_list\n"
        "import scipy.sparse\nmatrix = scipy.sparse.csr_matrix(np.array([[0, 7.0], [0, 0]]))"
    )
    tests = (
        f"{compared}\nassert cmp_tuple_or_list([1, np.ones(2)], target) and not cmp_tuple_or_list([1], target)",
        "import sympy\nassert are_dicts_close({1.5: 3.0 + 1e-12, 'name': sympy.Symbol('x')}, target)\n"
        "assert not are_dicts_close({1.5: 3.1, 'name': 'x'}, target)",
        "assert are_csc_matrix_close(matrix, target) and not are_csc_matrix_close(2 * matrix, target)",
        "assert (abs(matrix - target) > 1e-9).nnz == 0",
    )
    assert grades(tmp_path, fill, *tests) is True
