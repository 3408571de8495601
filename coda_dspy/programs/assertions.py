"""Assertions taken apart: what calls the program goes into the sandbox, what is expected stays outside.

`assert f(3) == 6` is the call `f(3)` and the value 6. HumanEval wraps such lines into `check(candidate)`, MBPP lists
them. What is no equation between a call and a literal (a tolerance, a loop, a helper) cannot be taken apart.
"""

import ast
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple


class Equation(NamedTuple):
    """One assertion.

    Args:
        call: An expression over the names of the program.
        expected: Its value: a literal.
    """

    call: str
    expected: Any


@lru_cache(maxsize=4096)
def equations_in(snippet: str) -> tuple[Equation, ...]:
    """The equations that a snippet consists of; none where it holds anything else."""
    try:
        found = _equations(ast.parse(snippet).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(found)


def _equations(statements: Sequence[ast.stmt]) -> list[Equation]:
    """Raises ValueError at the first statement that is none."""
    checks: dict[str, ast.FunctionDef] = {}
    found: list[Equation] = []
    for statement in statements:
        if isinstance(statement, ast.FunctionDef):
            checks[statement.name] = statement
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            found += _checked(statement.value, checks)
        elif isinstance(statement, ast.Assert):
            found += _equation(statement.test)
        elif not _says_nothing(statement):
            raise ValueError("no equation")
    return found


def _checked(call: ast.Call, checks: dict[str, ast.FunctionDef]) -> list[Equation]:
    """The equations of `check(f)`, with `f` in the place of its parameter."""
    check = checks.get(call.func.id) if isinstance(call.func, ast.Name) else None
    if check is None or call.keywords or len(call.args) != 1 or len(check.args.args) != 1:
        raise ValueError("no call of a check")
    replaced = _Replaced(check.args.args[0].arg, call.args[0])
    return _equations([replaced.visit(ast.parse(ast.unparse(statement)).body[0]) for statement in check.body])


class _Replaced(ast.NodeTransformer):
    def __init__(self, name: str, by: ast.expr) -> None:
        self._name, self._by = name, by

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._by if node.id == self._name else node


def _equation(test: ast.expr) -> list[Equation]:
    """`f(x) == 6`, `6 == f(x)`, `f(x)`, `not f(x)`; nothing for a literal, as in `assert True`."""
    if isinstance(test, ast.Constant) and test.value:
        return []
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return [Equation(f"not {_call(test.operand)}", True)]
    if isinstance(test, ast.Call):
        return [Equation(f"bool({_call(test)})", True)]
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq | ast.Is):
        raise ValueError("no equation")
    left, right = test.left, test.comparators[0]
    if isinstance(left, ast.Call):
        return [Equation(_call(left), ast.literal_eval(right))]
    return [Equation(_call(right), ast.literal_eval(left))]


def _call(node: ast.expr) -> str:
    """A call of the program with literals: whatever else it held might be what is expected."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        raise ValueError("no call")
    for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
        ast.literal_eval(argument)
    return ast.unparse(node)


def _says_nothing(statement: ast.stmt) -> bool:
    """A docstring, or a constant such as HumanEval's METADATA."""
    if isinstance(statement, ast.Expr | ast.Assign):
        try:
            ast.literal_eval(statement.value)
        except ValueError:
            return False
        return True
    return isinstance(statement, ast.Pass)
