"""Run a program on cases. Only inputs go into the sandbox; what comes out is compared here.

Assertions are taken apart for that (see `assertions`). One that cannot be (a loop, a helper) is the exception: it runs
in the program's own process with what it expects, and counts as passed if a token is printed behind it, which a program
that sets out to cheat could find. Use inputs and outputs where programs may be hostile to their grader.
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
from coda_dspy.programs import harness
from coda_dspy.programs.assertions import Equation, equations_in
from coda_dspy.programs.cases import Case
from coda_dspy.programs.shared import a_turn, shared_sandbox
from coda_dspy.sandbox import ExecutionResult, Limits

# A case is timed on the CPU: on a busy machine the wall clock would fail programs that are fast enough. The wall limit
# is for those that wait.
_PATIENCE = 4
_AT_ONCE = 8  # cases between two looks at whether the verdict is certain
_FUTURE = re.compile(r"^from __future__ import [^(\n]+$\n?", re.MULTILINE)
_LINE = re.compile(r"^ *File \"\w+\.py\", (line \d+.*\n.*)$", re.MULTILINE)
_MOST_TIMEOUTS = 2  # of one program, after which its other cases are not run any more
_MOST_REMEMBERED = 1 << 20  # characters of output; longer ones are asked for again
_LONGEST_NUMBER = 400  # digits
_SHOWN = 400  # characters of an input or an output in feedback


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
    return tuple(f"failed: {o.problem.splitlines()[-1]}" if o.problem else _canonical(o) for o in outcomes)


def _canonical(outcome: Outcome) -> str:
    """What came out, written the same way wherever the check takes it for the same."""
    if outcome.case.form == "stdin":
        return "\n".join(" ".join(map(_word, line.split())) for line in _normal(outcome.got).splitlines())
    lines = outcome.got.strip().splitlines()
    return "\n".join(_spelled(line, outcome.case.form) for line in lines if line)


def _word(word: str) -> str:
    try:
        number = Decimal(word).normalize()
    except InvalidOperation:
        return word
    return f"{number + 0:f}" if number.is_finite() and abs(number.adjusted()) < _LONGEST_NUMBER else word


def _spelled(line: str, form: str) -> str:
    try:
        return repr(_sorted(json.loads(line) if form == "functional" else ast.literal_eval(line)))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return line


def _sorted(value: object) -> object:
    """Sets and dictionaries in one order, and whole numbers as such: equal values then look the same."""
    if isinstance(value, dict):
        return {"dict": sorted((repr(_sorted(k)), repr(_sorted(v))) for k, v in value.items())}
    if isinstance(value, set | frozenset):
        return {"set": sorted(repr(_sorted(item)) for item in value)}
    if isinstance(value, list | tuple):
        return type(value)(map(_sorted, value))
    if isinstance(value, bool | float) and value == int(value if abs(value) < 1e15 else 0):
        return int(value)
    return value


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
    if way.how == "calls":
        program = harness.evaluating(program)
    elif way.how == "functional":
        program = harness.calling(program, _needed(entry_point))
    return [(run, "") for run in _run_many(program, inputs, limits)]


def _limits(seconds: float) -> Limits:
    return Limits(seconds=_PATIENCE * seconds, cpu_seconds=seconds)


def _run_snippet(program: str, case: Case, limits: Limits) -> tuple[ExecutionResult, str]:
    token = secrets.token_hex(8)
    with a_turn():
        run = shared_sandbox().run(harness.followed_by(program, case.input, token), limits=limits)
    return working(run), token


def _calls(case: Case) -> str:
    return json.dumps([equation.call for equation in equations_in(case.input)])


def _needed(entry_point: str | None) -> str:
    if not entry_point:
        raise UserError("a functional case needs entry_point: the name of the function that it calls")
    return entry_point


class _NotForLong(Exception):
    """Results that are not worth keeping: the machine was too busy for a fair verdict, or they are long."""

    def __init__(self, runs: tuple[ExecutionResult, ...]) -> None:
        super().__init__()
        self.runs = runs


def _run_many(code: str, inputs: tuple[str, ...], limits: Limits) -> tuple[ExecutionResult, ...]:
    try:
        return _remembered(code, inputs, limits)
    except _NotForLong as found:
        return found.runs


@lru_cache(maxsize=1024)
def _remembered(code: str, inputs: tuple[str, ...], limits: Limits) -> tuple[ExecutionResult, ...]:
    """Remembered, because the same program is checked, voted on and scored."""
    timeouts = 0

    def hopeless(_: int, run: ExecutionResult) -> bool:
        nonlocal timeouts
        timeouts += run.timed_out
        return timeouts >= _MOST_TIMEOUTS

    with a_turn():
        runs = [working(run) for run in shared_sandbox().run_many(code, inputs, limits, hopeless)]
    runs += [runs[-1]] * (len(inputs) - len(runs))  # it ran out of time before, and would again
    if any(map(_is_unfair, runs)) or sum(len(run.stdout) + len(run.stderr) for run in runs) > _MOST_REMEMBERED:
        raise _NotForLong(tuple(runs))
    return tuple(runs)


def _is_unfair(run: ExecutionResult) -> bool:
    """Whether a run was ended by the clock on the wall: on a busy machine that says little."""
    return run.timed_out and run.seconds > run.cpu_seconds * _PATIENCE / 2


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
        if value is None or not _holds(equation, value):
            return equation, value
    return None


def _holds(equation: Equation, value: str) -> bool:
    try:
        return bool(equation.holds(ast.literal_eval(value), equation.expected))
    except (ValueError, TypeError, SyntaxError, ArithmeticError, RecursionError, MemoryError):
        return False


def problem_of(result: ExecutionResult, seconds: float) -> str:
    """Why a run did not end well: its time limit, or the end of its traceback; empty where it did."""
    if result.timed_out:
        where = _LINE.findall(result.stderr)
        return f"it did not end within {seconds:g} seconds" + (f"; it was here:\n{where[-1].strip()}" if where else "")
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
