"""Run a program for the answer that it computes."""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from coda_dspy.programs.running import problem_of, working
from coda_dspy.programs.shared import shared_sandbox
from coda_dspy.sandbox import Limits

LIMITS = Limits(seconds=10.0)
MOST_OUTPUT = 400  # characters of what it printed that are kept for feedback: the end says most
_FLOAT = re.compile(r"(?<![\w.])\d+\.\d{8,}(?![\w.])")
_LEAST_NOISE = 6  # digits that rounding to 12 has to take away
_LEAVE_NOTHING = (ast.Pass, ast.Break, ast.Assert)
_BLOCKS = (ast.For, ast.While, ast.If, ast.With, ast.Try)


@dataclass(frozen=True)
class Computed:
    """What a program came to.

    Args:
        answer: The last line that it printed, or else what its function returned or its last value was; `None` where
            there is nothing of the kind.
        output: Everything that it printed.
        problem: Why there is no answer, for feedback.
    """

    answer: str | None
    output: str = ""
    problem: str = ""


def compute(program: str) -> Computed:
    """Run a program and take its answer.

    Small models seldom obey a rule for how to hand the answer over, so three ways count, in this order: what the
    program prints; the value of a last expression or assignment; what its last function that needs no argument returns.
    Rounding errors of floats are no part of an answer.

    Raises:
        UserError: The sandbox does not start or does not work on this machine.
    """
    computed = _run(program)
    ending = _ending(program) if not (computed.answer or computed.problem) else None
    if ending is not None:
        computed = _run(f"{program}\n\n{ending}")
    if computed.answer or computed.problem:
        return computed
    return Computed(None, computed.output, "it printed nothing")


def _run(program: str) -> Computed:
    result = working(shared_sandbox().run(program, limits=LIMITS))
    problem = problem_of(result, LIMITS.seconds)
    printed = [line.strip() for line in result.stdout.splitlines() if line.strip() not in ("", "None")]
    if printed:
        printed[-1] = _FLOAT.sub(_without_noise, printed[-1])
    if printed and "sympy" in program:
        printed[-1] = re.sub(r"\blog\(", "ln(", printed[-1])  # sympy writes so what mathematics calls ln
    return Computed(printed[-1] if printed and not problem else None, result.stdout[-MOST_OUTPUT:], problem)


def _without_noise(number: re.Match[str]) -> str:
    """`0.30000000000000004` is 0.3: a float's last digits are its error. One that does not end stays as it is."""
    value = float(number[0])
    short = f"{value:.12g}"
    return short if repr(value) == number[0] and len(short) + _LEAST_NOISE <= len(number[0]) else number[0]


def _ending(program: str) -> str | None:
    """A line that prints what the program computed without saying it."""
    try:
        body = ast.parse(program).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    last = _last_value(body, program)
    if last is not None:
        return f"print({last})"
    called = [node.name for node in body if isinstance(node, ast.FunctionDef) and _needs_nothing(node)]
    return f"_coda = {called[-1]}()\nprint('' if _coda is None else _coda)" if called else None


def _last_value(body: Sequence[ast.stmt], program: str) -> str | None:
    """What the last statement leaves: its value, or the one name that it gives a value to."""
    telling = [statement for statement in body if not _leaves_nothing(statement)]
    if not telling:
        return None
    last = telling[-1]
    if isinstance(last, ast.Expr):
        return ast.get_source_segment(program, last.value)
    targets = getattr(last, "targets", None) or [getattr(last, "target", None)]
    if isinstance(last, ast.Assign | ast.AugAssign | ast.AnnAssign) and isinstance(targets[-1], ast.Name):
        return targets[-1].id
    return _last_value(last.body, program) if isinstance(last, _BLOCKS) else None


def _leaves_nothing(statement: ast.stmt) -> bool:
    """Also a text that stands alone: it is a comment."""
    is_text = isinstance(statement, ast.Expr) and isinstance(getattr(statement.value, "value", None), str)
    return is_text or isinstance(statement, _LEAVE_NOTHING)


def _needs_nothing(function: ast.FunctionDef) -> bool:
    arguments = function.args
    needed = len(arguments.posonlyargs + arguments.args) - len(arguments.defaults)
    return needed == 0 and all(default is not None for default in arguments.kw_defaults)
