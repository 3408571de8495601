"""Run a program for the answer that it computes."""

import ast
from dataclasses import dataclass

from coda_dspy.programs.checking import problem_of
from coda_dspy.programs.shared import shared_sandbox
from coda_dspy.sandbox import Limits

LIMITS = Limits(seconds=10.0)


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
    program prints; what its last function that needs no argument returns; the value of its last expression or
    assignment.

    Raises:
        SandboxUnavailable: No sandbox starts on this machine.
    """
    result = shared_sandbox().run(program, limits=LIMITS)
    problem = problem_of(result) or result.error
    if problem:
        return Computed(None, result.stdout, problem)
    printed = [line.strip() for line in result.stdout.splitlines() if line.strip()]
    if printed:
        return Computed(printed[-1], result.stdout)
    ending = _ending(program)
    if ending is None:
        return Computed(None, "", "it printed nothing")
    result = shared_sandbox().run(f"{program}\n\n{ending}", limits=LIMITS)
    problem = problem_of(result) or result.error
    value = result.stdout.strip()
    if problem or not value or value == "None":
        return Computed(None, result.stdout, problem or "it printed nothing")
    return Computed(value.splitlines()[-1].strip(), result.stdout)


def _ending(program: str) -> str | None:
    """A line that prints what the program computed without saying it."""
    body = ast.parse(program).body
    called = [node.name for node in body if isinstance(node, ast.FunctionDef) and _needs_nothing(node)]
    if called:
        return f"print({called[-1]}())"
    last = body[-1] if body else None
    if isinstance(last, ast.Expr):
        return f"print({ast.unparse(last.value)})"
    if isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name):
        return f"print({last.targets[0].id})"
    return None


def _needs_nothing(function: ast.FunctionDef) -> bool:
    arguments = function.args
    needed = len(arguments.posonlyargs + arguments.args) - len(arguments.defaults)
    return needed == 0 and all(default is not None for default in arguments.kw_defaults)
