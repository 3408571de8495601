"""Run a program on cases. Only inputs go into the sandbox; what comes out is compared here.

Assertions are taken apart for that (see `assertions`). One that cannot be (a loop, a helper) is the exception: it runs
in the program's own process with what it expects, and counts as passed if a token is printed behind it, which a program
that sets out to cheat could find. Use inputs and outputs where programs may be hostile to their grader.
"""

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from coda_dspy.programs.assertions import Equation, equations_in
from coda_dspy.programs.cases import Case
from coda_dspy.programs.running import Run, problem_of, run_on

_AT_ONCE = 8  # cases between two looks at whether the verdict is certain


@dataclass(frozen=True)
class Outcome:
    """What one case came to.

    Args:
        case: The case.
        passed: Whether what came out is what had to.
        got: What came out.
        problem: Why nothing did: a time limit, or the end of a traceback.
    """

    case: Case
    passed: bool
    got: str
    problem: str = ""


def check(program: str, cases: Sequence[Case], entry_point: str | None = None) -> list[Outcome]:
    """Run a program on cases; without a case there is no outcome, and so no verdict.

    Args:
        program: Its text.
        cases: What to run it on.
        entry_point: The function, or method of `Solution`, that functional cases call.

    Raises:
        UserError: A functional case without an entry point, or the sandbox does not work on this machine.
    """
    runs = run_on(program, cases, entry_point)
    return [_outcome(case, run) for case, run in zip(cases, runs, strict=True)]


def passes(program: str, cases: Sequence[Case], entry_point: str | None = None) -> bool:
    """Whether a program passes every case; without a case, False. A few at a time: one that is wrong fails early.

    Raises:
        UserError: As for `check`.
    """
    batches = [cases[start : start + _AT_ONCE] for start in range(0, len(cases), _AT_ONCE)]
    return bool(cases) and all(o.passed for batch in batches for o in check(program, batch, entry_point))


def _outcome(case: Case, run: Run) -> Outcome:
    result, token = run
    problem = problem_of(result, case.seconds)
    if case.form == "snippet" and not token:
        return _outcome_of_equations(case, result.stdout, problem)
    if case.form == "snippet":
        passed = not problem and result.stdout.rstrip().endswith(token)
        return Outcome(case, passed, "", problem or ("" if passed else "it ended before the check did"))
    if problem:
        return Outcome(case, False, result.stdout, problem)
    equal = _same_value if case.form == "functional" else _same_text
    return Outcome(case, equal(result.stdout, case.output), result.stdout)


def _outcome_of_equations(case: Case, printed: str, problem: str) -> Outcome:
    return Outcome(case, not problem and first_wrong(case, printed) is None, printed, problem)


def first_wrong(case: Case, printed: str) -> tuple[Equation, str | None] | None:
    """The first equation that does not hold, and what its call gave; None there where it gave nothing."""
    values: list[str | None] = [*printed.splitlines()]
    equations = equations_in(case.input)
    values += [None] * (len(equations) - len(values))
    for equation, value in zip(equations, values, strict=False):
        if value is None or not _holds(equation, value):
            return equation, value
    return None


def _holds(equation: Equation, value: str) -> bool:
    try:
        return bool(equation.holds(ast.literal_eval(value), equation.expected))
    except (ValueError, TypeError, SyntaxError, ArithmeticError, RecursionError, MemoryError):
        return False


def _same_value(got: str, wanted: str) -> bool:
    try:
        return bool(json.loads(got.strip().rpartition("\n")[2]) == json.loads(wanted))
    except (ValueError, RecursionError):
        return False


def _same_text(got: str, wanted: str) -> bool:
    """Line by line without outer blanks; a line is equal as text, or number by number (LiveCodeBench's rule)."""
    lines, expected = stripped(got).splitlines(), stripped(wanted).splitlines()
    return len(lines) == len(expected) and all(map(_same_line, lines, expected))


def stripped(text: str) -> str:
    """A text without outer blanks, of each line too."""
    return "\n".join(line.strip() for line in text.strip().splitlines())


def _same_line(got: str, wanted: str) -> bool:
    if got == wanted:
        return True
    try:
        return [Decimal(word) for word in got.split()] == [Decimal(word) for word in wanted.split()]
    except InvalidOperation:
        return False
