"""What a program does, spelled so that programs that do the same can be recognized."""

import ast
import json
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from coda_dspy.programs.cases import Case
from coda_dspy.programs.checking import Outcome, check, stripped

_LONGEST_NUMBER = 400  # digits


def behaviour(program: str, inputs: Sequence[Case], entry_point: str | None = None) -> tuple[str, ...]:
    """What a program does: its outputs on the inputs, failures included. Programs that do the same vote together."""
    outcomes = check(program, inputs, entry_point)
    return tuple(f"failed: {o.problem.splitlines()[-1]}" if o.problem else _canonical(o) for o in outcomes)


def _canonical(outcome: Outcome) -> str:
    """What came out, written the same way wherever the check takes it for the same."""
    if outcome.case.form == "stdin":
        return "\n".join(" ".join(map(_word, line.split())) for line in stripped(outcome.got).splitlines())
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
