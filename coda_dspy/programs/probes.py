"""Inputs of which no output is known: programs that do the same on them too vote together."""

from coda_dspy.programs.assertions import equations_in
from coda_dspy.programs.cases import Case


def has_input(case: Case) -> bool:
    """Whether programs can be compared by what they do on a case."""
    return case.form != "snippet" or bool(equations_in(case.input))


def shown_input(case: Case) -> str:
    """The input of a case, as an example of its form: for assertions, the first call."""
    return equations_in(case.input)[0].call if case.form == "snippet" else case.input


def probe_like(example: Case, text: str) -> Case | None:
    """A proposed input as a case, where it has the form of the example; `None` otherwise."""
    if example.form == "stdin":
        return Case(f"{text}\n") if text.strip() else None
    if example.form == "functional":
        return Case(text, "", "functional") if _has_arguments_of(example, text) else None
    probe = Case(f"assert {text.strip()} == None", form="snippet")  # only what comes out counts
    function = shown_input(example).partition("(")[0]
    equations = equations_in(probe.input)
    return probe if len(equations) == 1 and equations[0].call.startswith(f"{function}(") else None


def _has_arguments_of(example: Case, text: str) -> bool:
    """As many JSON values as the example has."""
    try:
        return len(Case(text, form="functional").arguments()) == len(example.arguments())
    except (ValueError, RecursionError):
        return False
