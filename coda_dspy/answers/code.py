"""Programs as answers: two of them are the same if they do the same."""

from coda_dspy.programs import behaviour, has_input, program_in
from coda_dspy.programs.cases import Case
from coda_dspy.programs.source import without_comments
from coda_dspy.task import Task


def extract(task: Task, visible: str) -> str | None:
    """The last whole program of a visible text, of those that define the entry point where one is asked for."""
    return program_in(visible, task.entry_point)


def same(task: Task, a: str, b: str) -> bool:
    """Whether two programs do the same on every input that is known; without any, whether they are the same code."""
    inputs = inputs_of(task)
    if not inputs:
        return without_comments(a) == without_comments(b)
    return behaviour(a, inputs, task.entry_point) == behaviour(b, inputs, task.entry_point)


def inputs_of(task: Task) -> tuple[Case, ...]:
    """The cases that have an input (an assertion that cannot be taken apart has none), and the proposed ones."""
    return tuple(case for case in (*task.cases, *task.probes) if has_input(case))


def wanted(task: Task) -> str:
    """The line that tells a model how to end its reply."""
    form = f"that defines `{task.entry_point}`" if task.entry_point else "that reads standard input and prints"
    return f"Give one ```python code block with the whole program {form}."
