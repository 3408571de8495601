"""Run a program on cases: those that can share a child together, and what is certain remembered."""

import json
import re
import secrets
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from coda_dspy.errors import UserError
from coda_dspy.programs import harness
from coda_dspy.programs.assertions import equations_in
from coda_dspy.programs.cases import Case
from coda_dspy.programs.shared import a_turn, shared_sandbox
from coda_dspy.sandbox import ExecutionResult, Limits

# A case is timed on the CPU: on a busy machine the wall clock would fail programs that are fast enough. The wall limit
# is for those that wait.
_PATIENCE = 4
_MOST_TIMEOUTS = 2  # of one program, after which its other cases are not run any more
_MOST_REMEMBERED = 1 << 20  # characters of output; longer ones are asked for again
_MOST_TOLD = 400  # characters of a traceback
_FUTURE = re.compile(r"^from __future__ import [^(\n]+$\n?", re.MULTILINE)
_LINE = re.compile(r"^ *File \"\w+\.py\", (line \d+.*\n.*)$", re.MULTILINE)


class Run(NamedTuple):
    """A case that was run.

    Args:
        result: What the sandbox says.
        token: What the end of an assertion that was not taken apart prints; empty for every other case.
    """

    result: ExecutionResult
    token: str = ""


class _Way(NamedTuple):
    """What cases have to share to be run together."""

    how: str  # the form, or `calls` for a snippet that can be taken apart
    before: str
    seconds: float


def run_on(program: str, cases: Sequence[Case], entry_point: str | None = None) -> list[Run]:
    """The run of each case, in order.

    Raises:
        UserError: A functional case without an entry point, or the sandbox does not work on this machine.
    """
    places: defaultdict[_Way, list[int]] = defaultdict(list)
    for place, case in enumerate(cases):
        places[_way(case)].append(place)
    found: dict[int, Run] = {}
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


def _runs(program: str, way: _Way, cases: Sequence[Case], entry_point: str | None) -> list[Run]:
    limits = _limits(way.seconds)
    if way.how == "snippet":
        return [_run_snippet(program, case, limits) for case in cases]
    inputs = tuple(_calls(case) if way.how == "calls" else case.input for case in cases)
    if way.how == "calls":
        program = harness.evaluating(program)
    elif way.how == "functional":
        program = harness.calling(program, _needed(entry_point))
    return [Run(result) for result in _run_many(program, inputs, limits)]


def _limits(seconds: float) -> Limits:
    return Limits(seconds=_PATIENCE * seconds, cpu_seconds=seconds)


def _run_snippet(program: str, case: Case, limits: Limits) -> Run:
    token = secrets.token_hex(8)
    with a_turn():
        result = shared_sandbox().run(harness.followed_by(program, case.input, token), limits=limits)
    return Run(working(result), token)


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


def problem_of(result: ExecutionResult, seconds: float) -> str:
    """Why a run did not end well: its time limit, or the end of its traceback; empty where it did."""
    if result.timed_out:
        where = _LINE.findall(result.stderr)
        return f"it did not end within {seconds:g} seconds" + (f"; it was here:\n{where[-1].strip()}" if where else "")
    if result.truncated:
        return "it printed without end"
    if result.exit_code != 0:
        traceback = "\n".join(result.stderr.strip().splitlines()[-4:])
        return traceback[-_MOST_TOLD:] or f"it ended with exit code {result.exit_code}"
    return ""
