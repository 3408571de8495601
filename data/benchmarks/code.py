"""Functions to write: HumanEval, MBPP."""

import ast
from collections.abc import Iterator, Sequence

from coda_dspy.data.benchmarks.benchmark import Benchmark
from coda_dspy.data.benchmarks.row import Row
from coda_dspy.data.question import Question
from coda_dspy.errors import UserError
from coda_dspy.programs.cases import Case

# Where the whole sanitized file is read, these are the tasks of its test split.
_MBPP_TEST = range(11, 511)


def humaneval(row: Row) -> Iterator[Question]:
    """The prompt goes before the program: its imports and helpers are there, whether or not the reply repeats them."""
    prompt, name = row.text("prompt"), row.text("entry_point")
    check = f"{row.text('test')}\n\ncheck({name})\n"
    yield Question(
        row.text("task_id"),
        f"Complete this function. Give all of it.\n\n```python\n{prompt.strip()}\n```",
        prompt + row.given("canonical_solution"),
        "code",
        tests=(Case(check, form="snippet", before=prompt),),
        entry_point=name,
    )


def mbpp(row: Row) -> Iterator[Question]:
    """The statement shows the assertions, as usual; the first one is public."""
    if row.whole("task_id") not in _MBPP_TEST:
        return
    asserts, imports, code = row.texts("test_list"), "\n".join(row.texts("test_imports")), row.text("code")
    if not asserts:
        raise UserError("test_list is empty; without tests there is no verdict")
    cases = [Case(line, form="snippet", before=imports) for line in asserts]
    shown = "\n".join(asserts)
    yield Question(
        f"{row.benchmark}/{row.whole('task_id')}",
        f"{row.text('prompt').strip()}\n\nThese assertions have to hold:\n\n```python\n{shown}\n```",
        code,
        "code",
        public_tests=tuple(cases[:1]),
        tests=tuple(cases[1:]),
        entry_point=_called(code, asserts),
    )


def _called(code: str, asserts: Sequence[str]) -> str:
    """The function of the reference that the tests call: the row does not name it."""
    try:
        defined = [node.name for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)]
        calls = [node.func for node in ast.walk(ast.parse(asserts[0])) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError("code or test_list is no Python") from error
    called = {call.id for call in calls if isinstance(call, ast.Name)}
    found = [name for name in defined if name in called]
    if not found:
        raise UserError("the first test calls no function that code defines")
    return found[0]


CODE = (
    Benchmark(
        name="humaneval",
        repository="openai/openai_humaneval",
        split="test",
        revision="7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544",
        convert=humaneval,
        licence="MIT",
    ),
    Benchmark(
        name="mbpp",
        repository="google-research-datasets/mbpp",
        config="sanitized",
        split="test",
        revision="4bb6404fdc6cacfda99d4ac4205087b89d32030c",
        convert=mbpp,
        licence="CC BY 4.0",
        keeps="tasks 11 to 510, the test split",
    ),
)
