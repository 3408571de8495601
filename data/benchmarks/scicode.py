"""SciCode: research problems in steps, each of which is tested behind the model's own earlier steps."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from coda_dspy.data.benchmarks import hub
from coda_dspy.data.benchmarks.benchmark import Benchmark
from coda_dspy.data.benchmarks.row import Row, texts_in
from coda_dspy.data.benchmarks.targets import targets_in
from coda_dspy.data.question import Question, slot_of
from coda_dspy.errors import UserError
from coda_dspy.programs.cases import Case

_SECONDS = 1800.0  # the official limit a step
_PLOTTING = re.compile(r"\b(?:matplotlib|mpl_toolkits)\b")
_SUPPLIED = ("13.6", "62.1", "76.3")
_TARGETS = "test_data.h5"
# The authors publish the targets outside of the hub; this is a copy of their file.
_MIRROR = ("Srimadh/Scicode-test-data-h5", _TARGETS, "72c247d3a8410921b2e848e046d71ed63d9a0ddb")
_NOT_ON_THE_HUB = (
    f"its targets and the code of the steps {', '.join(_SUPPLIED)} are not on the hub. Put problems_test.jsonl, "
    f"{_TARGETS} and, from eval/data of the SciCode repository, {', '.join(f'{step}.txt' for step in _SUPPLIED)} into "
    "one folder and give scicode=FOLDER/problems_test.jsonl"
)


def scicode(row: Row) -> Iterator[Question]:
    """The steps of one problem of the test split."""
    if row.folder is None:
        raise UserError(_NOT_ON_THE_HUB)
    yield from scicode_dev(row)


def scicode_dev(row: Row) -> Iterator[Question]:
    """The steps of one problem, without those that the benchmark supplies."""
    steps = _steps(row)
    asked: list[str] = []
    code = [_imports(row)]
    story: list[str] = []
    for place, step in enumerate(steps):
        name, told = step.text("step_number"), step.text("step_description_prompt").strip()
        id = f"scicode/{name}"
        if name not in _SUPPLIED:
            yield _question(row, step, place, "\n\n".join(code), story, asked[-1] if asked else None)
            asked.append(id)
        code.append(_supplied(row, name) if name in _SUPPLIED else slot_of(id))
        story.append(f"{told}\n\n```python\n{code[-1]}\n```")


def _imports(row: Row) -> str:
    """What stands before the first step, but for plotting: no test needs it, and the sandbox has no package for it."""
    lines = row.given("required_dependencies").strip().splitlines()
    return "\n".join(line for line in lines if not _PLOTTING.search(line))


def _steps(row: Row) -> list[Row]:
    steps = row.fields.get("sub_steps")
    if not isinstance(steps, list) or not steps or not all(isinstance(step, Mapping) for step in steps):
        raise UserError("sub_steps is no list of steps")
    return [Row(row.benchmark, row.number, step, row.folder) for step in steps]


def _question(row: Row, step: Row, place: int, before: str, story: Sequence[str], previous: str | None) -> Question:
    name = step.text("step_number")
    return Question(
        f"scicode/{name}",
        _statement(row, step, story),
        step.given("ground_truth_code"),
        "code",
        meta={"problem": str(row.fields.get("problem_id")), "step": place, "title": row.given("problem_name")},
        tests=(Case(_test(row, step), form="snippet", before=before, seconds=_SECONDS),),
        entry_point=_defined(step),
        previous=previous,
    )


def _statement(row: Row, step: Row, story: Sequence[str]) -> str:
    earlier = ["These are its earlier steps, which are done:", *story] if story else []
    header = "\n\n".join(filter(None, (step.text("function_header").strip(), step.given("return_line").rstrip())))
    return "\n\n".join(
        [
            "A scientific program is written step by step.",
            *earlier,
            "Write this step:",
            step.text("step_description_prompt").strip(),
            f"```python\n{header}\n```",
            f"These imports stand before it, and nothing else may be imported:\n\n```python\n{_imports(row)}\n```",
            "Give the code of this step only, without the imports, the earlier steps and examples of its use.",
        ]
    )


def _defined(step: Row) -> str:
    name = re.search(r"^(?:def|class)\s+(\w+)", step.text("function_header"), re.MULTILINE)
    if name is None:
        raise UserError(f"function_header of step {step.text('step_number')} defines nothing")
    return name[1]


def _supplied(row: Row, step: str) -> str:
    path = (row.folder or Path()) / f"{step}.txt"
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        raise UserError(f"the benchmark supplies step {step}, but {path} cannot be read; {_NOT_ON_THE_HUB}") from None


def _test(row: Row, step: Row) -> str:
    """All tests of a step in one snippet, as the official script has them: one may use what an earlier one imported."""
    name, tests = step.text("step_number"), texts_in(step.fields.get("test_cases"), "test_cases")
    if not tests:
        raise UserError(f"step {name} has no tests; without tests there is no verdict")
    targets = _targets(row.folder, name, len(tests)) if any(map(_needs_target, tests)) else None
    parts = tests if targets is None else [f"target = {t}\n\n{test}" for t, test in zip(targets, tests, strict=True)]
    return "\n\n".join([_helpers(), *parts])


def _needs_target(test: str) -> bool:
    """Whether a test compares with a target that it does not set itself."""
    try:
        names = {(node.id, type(node.ctx)) for node in ast.walk(ast.parse(test)) if isinstance(node, ast.Name)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    return ("target", ast.Load) in names and ("target", ast.Store) not in names


def _targets(folder: Path | None, step: str, count: int) -> list[str]:
    path = _mirrored() if folder is None else folder / _TARGETS
    if not path.exists():
        raise UserError(f"the targets of step {step} are not there: put SciCode's {_TARGETS} at {path}")
    return targets_in(path, step, count)


def _mirrored() -> Path:
    try:
        return hub.file(*_MIRROR)
    except Exception as error:  # noqa: BLE001 - the hub's library has many families of errors
        reason = hub.refusal(error, _MIRROR[0], quote=True)
        raise UserError(
            f"{_TARGETS} cannot be fetched ({reason}); put it beside the rows in one folder and give "
            "scicode-dev=FOLDER/problems_dev.jsonl"
        ) from None


@cache
def _helpers() -> str:
    """What the tests take from the benchmark's own package, apart from the names of the program."""
    source = files("coda_dspy.data.benchmarks").joinpath("scicode_helpers.py").read_text(encoding="utf-8")
    names = "_array, _sparse = _scicode['array'], _scicode['sparse']"
    return f"_scicode = {{}}\nexec({source!r}, _scicode)\n_scicode['install']()\n{names}"


def problem_rate(questions: Iterable[Question], correct_by_id: Mapping[str, bool]) -> float:
    """The share of problems all of whose steps are right: SciCode's main figure.

    Args:
        questions: Steps, whose `meta["problem"]` says what they belong to.
        correct_by_id: Whether the answer to a step was right; a step that is missing was not.

    Raises:
        UserError: None of the questions is a step of a problem.
    """
    right: dict[Any, bool] = {}
    for question in questions:
        if "problem" in question.meta:
            problem = question.meta["problem"]
            right[problem] = right.get(problem, True) and correct_by_id.get(question.id, False)
    if not right:
        raise UserError("none of these questions is a step of a problem; give the questions of scicode")
    return sum(right.values()) / len(right)


SCICODE = (
    Benchmark(
        name="scicode",
        repository="SciCode1/SciCode",
        split="test",
        revision="4510f6a6aa27c43fad7b43da2c59602a86e88480",
        convert=scicode,
        licence="Apache-2.0",
        files=("problems_test.jsonl",),
    ),
    Benchmark(
        name="scicode-dev",
        repository="SciCode1/SciCode",
        split="validation",
        revision="4510f6a6aa27c43fad7b43da2c59602a86e88480",
        convert=scicode_dev,
        licence="Apache-2.0",
        files=("problems_dev.jsonl",),
    ),
)
