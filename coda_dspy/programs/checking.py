"""Run a program on cases. Only inputs go into the sandbox; what comes out is compared here.

Assertions are taken apart for that (see `assertions`). One that cannot be is the exception: it runs in the program's
own process with what it expects, and counts as passed if a token is printed behind it, which a program that sets out
to cheat could find. Use inputs and outputs where programs may be hostile to their grader.
"""

import ast
import json
import re
import secrets
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import NamedTuple

from coda_dspy.errors import UserError
from coda_dspy.programs.assertions import Equation, equations_in
from coda_dspy.programs.cases import Case
from coda_dspy.programs.shared import shared_sandbox
from coda_dspy.sandbox import ExecutionResult, Limits

# A case is timed on the CPU: on a busy machine the wall clock would fail programs that are fast enough. The wall limit
# is for those that wait.
_PATIENCE = 4
_AT_ONCE = 8  # cases between two looks at whether the verdict is certain
_FUTURE = re.compile(r"^from __future__ import [^(\n]+$\n?", re.MULTILINE)
_SHOWN = 400  # characters of an input or an output in feedback

# Statements of functions take these for granted (LeetCode's do, and a completion may leave out the prompt's imports).
_PRELUDE = (
    "import bisect, collections, functools, heapq, itertools, math, operator, random, re, string; "
    "from bisect import *; from collections import *; from functools import *; from heapq import *; "
    "from itertools import *; from math import *; from string import *; from typing import *; from builtins import *\n"
)

# Prints of the program must not mix with its result, and what it reads must not eat its arguments: both are put aside
# before it begins.
_ASIDE = (
    "import io, sys; sys._coda = (sys.stdout, sys.stdin.read()); sys.stdout, sys.stdin = sys.stderr, io.StringIO(); "
)
_CALL = """

def _coda_call():
    import json, sys
    out, given = getattr(sys, "_coda", None) or (sys.stdout, sys.stdin.read())
    sys.stdout = sys.stderr
    arguments = [json.loads(line) for line in given.splitlines() if line.strip()]
    owner = globals().get("Solution")
    function = getattr(owner(), {name!r}, None) if owner is not None else None
    function = function or globals()[{name!r}]
    result = function(*arguments)
    sys.stdout = out
    print(json.dumps(result))

_coda_call()
"""
# Values travel as Python literals, which tell a tuple from a list. Subclasses of the built-in types equal what they
# hold, so they may travel as that.
_EVALUATE = """

def _coda_plain(value):
    if type(value).__module__ == "numpy":
        value = value.tolist()
    for kind in (bool, int, float, complex, str, bytes):
        if isinstance(value, kind):
            return kind(value)
    for kind in (tuple, list, set, frozenset):
        if isinstance(value, kind):
            return kind(map(_coda_plain, value))
    if isinstance(value, dict):
        return {_coda_plain(key): _coda_plain(item) for key, item in value.items()}
    return value

def _coda_evaluate():
    import json, sys
    out, given = getattr(sys, "_coda", None) or (sys.stdout, sys.stdin.read())
    sys.stdout = sys.stderr
    for call in json.loads(given):
        value = _coda_plain(eval(call, globals()))
        print(ascii(value), file=out)

_coda_evaluate()
"""


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
    runs = _results(program, cases, entry_point)
    return [_outcome(case, result, token) for case, (result, token) in zip(cases, runs, strict=True)]


def passes(program: str, cases: Sequence[Case], entry_point: str | None = None) -> bool:
    """Whether a program passes every case; without a case, False. A few at a time: one that is wrong fails early.

    Raises:
        UserError: As for `check`.
    """
    batches = [cases[start : start + _AT_ONCE] for start in range(0, len(cases), _AT_ONCE)]
    return bool(cases) and all(o.passed for batch in batches for o in check(program, batch, entry_point))


def behaviour(program: str, inputs: Sequence[Case], entry_point: str | None = None) -> tuple[str, ...]:
    """What a program does: its outputs on the inputs, failures included. Programs that do the same vote together."""
    outcomes = check(program, inputs, entry_point)
    return tuple(f"failed: {o.problem.splitlines()[-1]}" if o.problem else _normal(o.got) for o in outcomes)


def has_input(case: Case) -> bool:
    """Whether programs can be compared by what they do on a case."""
    return case.form != "snippet" or bool(equations_in(case.input))


def feedback_on(outcomes: Sequence[Outcome], most: int = 2) -> str:
    """What a model is told about the first cases that failed: input, what was expected, what came out."""
    failed = [outcome for outcome in outcomes if not outcome.passed][:most]
    return "\n\n".join(_described(outcome) for outcome in failed)


def _described(outcome: Outcome) -> str:
    wrong = _first_wrong(outcome.case, outcome.got)
    if wrong is not None:
        equation, value = wrong
        came = f"It stopped with:\n{_short(outcome.problem)}" if value is None else f"Got:\n{_short(value)}"
        return f"Call:\n{_short(equation.call)}\nExpected:\n{_short(repr(equation.expected))}\n{came}"
    if outcome.case.form == "snippet":
        return f"This check fails:\n{_short(outcome.case.input)}\n{_short(outcome.problem)}"
    came = f"It stopped with:\n{_short(outcome.problem)}" if outcome.problem else f"Got:\n{_short(outcome.got)}"
    return f"Input:\n{_short(outcome.case.input)}\nExpected:\n{_short(outcome.case.output)}\n{came}"


def _short(text: str) -> str:
    text = text.strip("\n")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} … ({len(text)} characters)"


class _Way(NamedTuple):
    """What cases have to share to be run together."""

    how: str  # the form, or `calls` for a snippet that can be taken apart
    before: str
    seconds: float


def _results(program: str, cases: Sequence[Case], entry_point: str | None) -> list[tuple[ExecutionResult, str]]:
    """The run of each case, in order, with the token that a snippet prints at its end."""
    places: defaultdict[_Way, list[int]] = defaultdict(list)
    for place, case in enumerate(cases):
        places[_way(case)].append(place)
    found: dict[int, tuple[ExecutionResult, str]] = {}
    for way, of in places.items():
        whole, alike = _joined(way.before, program), [cases[place] for place in of]
        found.update(zip(of, _runs(whole, way, alike, entry_point), strict=True))
    return [found[place] for place in range(len(cases))]


def _way(case: Case) -> _Way:
    apart = case.form == "snippet" and equations_in(case.input)
    return _Way("calls" if apart else case.form, case.before, case.seconds)


def _joined(before: str, program: str) -> str:
    """Both in one text, with imports from `__future__` at its beginning, where alone they may stand."""
    if not before:
        return program
    whole = f"{before}\n\n{program}"
    return "".join(f"{line.strip()}\n" for line in _FUTURE.findall(whole)) + _FUTURE.sub("", whole)


def _runs(program: str, way: _Way, cases: Sequence[Case], entry_point: str | None) -> list[tuple[ExecutionResult, str]]:
    limits = _limits(way.seconds)
    if way.how == "snippet":
        return [_run_snippet(program, case, limits) for case in cases]
    inputs = tuple(_calls(case) if way.how == "calls" else case.input for case in cases)
    if way.how != "stdin":
        ending = _EVALUATE if way.how == "calls" else _CALL.format(name=_needed(entry_point))
        program = _wrapped(program, ending)
    return [(run, "") for run in _run_many(program, inputs, limits)]


def _limits(seconds: float) -> Limits:
    return Limits(seconds=_PATIENCE * seconds, cpu_seconds=seconds)


def _run_snippet(program: str, case: Case, limits: Limits) -> tuple[ExecutionResult, str]:
    token = secrets.token_hex(8)
    code = f"{_with_prelude(program)}\n\n{case.input}\nprint({token!r})\n"
    return working(shared_sandbox().run(code, limits=limits)), token


def _calls(case: Case) -> str:
    return json.dumps([equation.call for equation in equations_in(case.input)])


def _wrapped(program: str, ending: str) -> str:
    aside = "" if "from __future__" in program else _ASIDE
    return aside + _with_prelude(program) + ending


def _with_prelude(program: str) -> str:
    return program if "from __future__" in program else _PRELUDE + program


def _needed(entry_point: str | None) -> str:
    if not entry_point:
        raise UserError("a functional case needs entry_point: the name of the function that it calls")
    return entry_point


@lru_cache(maxsize=1024)
def _run_many(code: str, inputs: tuple[str, ...], limits: Limits) -> tuple[ExecutionResult, ...]:
    """Remembered, because the same program is checked, voted on and scored."""
    return tuple(map(working, shared_sandbox().run_many(code, inputs, limits=limits)))


def working(result: ExecutionResult) -> ExecutionResult:
    """The result, if the sandbox did its part.

    Raises:
        UserError: The sandbox failed; that is no fault of the program.
    """
    if result.error:
        raise UserError(f"the sandbox does not work: {result.error}; see what `coda doctor` says")
    return result


def _outcome(case: Case, result: ExecutionResult, token: str) -> Outcome:
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
    return Outcome(case, not problem and _first_wrong(case, printed) is None, printed, problem)


def _first_wrong(case: Case, printed: str) -> tuple[Equation, str | None] | None:
    """The first equation that does not hold, and what its call gave; None there where it gave nothing."""
    values: list[str | None] = [*printed.splitlines()]
    equations = equations_in(case.input)
    values += [None] * (len(equations) - len(values))
    for equation, value in zip(equations, values, strict=False):
        if value is None or not _is_literally(value, equation.expected):
            return equation, value
    return None


def _is_literally(value: str, expected: object) -> bool:
    try:
        return bool(ast.literal_eval(value) == expected)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return False


def problem_of(result: ExecutionResult, seconds: float) -> str:
    """Why a run did not end well: its time limit, or the end of its traceback; empty where it did."""
    if result.timed_out:
        return f"it did not end within {seconds:g} seconds"
    if result.truncated:
        return "it printed without end"
    if result.exit_code != 0:
        traceback = "\n".join(result.stderr.strip().splitlines()[-4:])
        return traceback[-_SHOWN:] or f"it ended with exit code {result.exit_code}"
    return ""


def _same_value(got: str, wanted: str) -> bool:
    try:
        return bool(json.loads(got.strip().rpartition("\n")[2]) == json.loads(wanted))
    except (ValueError, RecursionError):
        return False


def _same_text(got: str, wanted: str) -> bool:
    """Line by line without outer blanks; a line is equal as text, or number by number (LiveCodeBench's rule)."""
    lines, expected = _normal(got).splitlines(), _normal(wanted).splitlines()
    return len(lines) == len(expected) and all(map(_same_line, lines, expected))


def _normal(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def _same_line(got: str, wanted: str) -> bool:
    if got == wanted:
        return True
    try:
        return [Decimal(word) for word in got.split()] == [Decimal(word) for word in wanted.split()]
    except InvalidOperation:
        return False
