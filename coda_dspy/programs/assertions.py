"""Assertions taken apart: what calls the program goes into the sandbox, what is expected stays outside.

`assert f(3) == 6` is the call `f(3)` and the value 6. HumanEval wraps such lines into `check(candidate)`, MBPP lists
them, LeetCode's name their inputs first. A loop, a helper, a condition cannot be taken apart.
"""

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

_WRAPPERS = ("set", "frozenset", "sorted", "list", "tuple", "dict", "len", "sum", "min", "max", "abs", "round", "str")
_COLLECTIONS: dict[str, Callable[[Any], Any]] = {"set": set, "frozenset": set, "list": list, "tuple": tuple}
_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}
_LONGEST_VALUE = 10_000
Names = Mapping[str, ast.expr]


class Equation(NamedTuple):
    """One assertion.

    Args:
        call: An expression over the names of the program.
        expected: What its value is compared with.
        holds: The comparison: value, expected.
    """

    call: str
    expected: Any
    holds: Callable[[Any, Any], bool]


class _NotApart(ValueError):
    """Something in the snippet cannot be taken apart."""


@lru_cache(maxsize=4096)
def equations_in(snippet: str) -> tuple[Equation, ...]:
    """The equations that a snippet consists of; none where it holds anything else."""
    try:
        return tuple(_equations(ast.parse(snippet).body, {}))
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError):
        return ()


def asserts_something(snippet: str) -> bool:
    """Whether a snippet can fail when it runs: an assertion that is reached, or a call."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    reached = [statement for statement in ast.parse(snippet).body if not isinstance(statement, definitions)]
    return any(isinstance(node, ast.Assert | ast.Call) for statement in reached for node in ast.walk(statement))


def _equations(statements: Sequence[ast.stmt], names: Names) -> list[Equation]:
    """Raises _NotApart at the first statement that is none."""
    names, checks, unused = dict(names), dict[str, ast.FunctionDef](), set[str]()
    found: list[Equation] = []
    for statement in statements:
        if isinstance(statement, ast.FunctionDef):
            checks[statement.name] = statement
            unused.add(statement.name)
        elif isinstance(statement, ast.Assert):
            found += _of_test(_with(statement.test, names))
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if not isinstance(target, ast.Name):
                raise _NotApart
            names[target.id] = _nameable(_with(statement.value, names))
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            check = checks.get(getattr(statement.value.func, "id", ""))
            found += _checked(_with(statement.value, names), check)
            unused.discard(getattr(check, "name", ""))
        elif not _says_nothing(statement):
            raise _NotApart
    if unused:  # a helper that the assertions, or the program, may call
        raise _NotApart
    return found


def _with(node: Any, names: Names) -> Any:
    """A copy of a node, with the names of the snippet replaced by what they stand for."""
    return _Replaced(names).visit(ast.parse(ast.unparse(node), mode="eval").body)


class _Replaced(ast.NodeTransformer):
    def __init__(self, names: Names) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._names.get(node.id, node)


def _nameable(value: ast.expr) -> ast.expr:
    """What a snippet may give a name to: a literal, a function or method of the program, a bare object of it."""
    plain = value.func if isinstance(value, ast.Call) and not value.args and not value.keywords else value
    if isinstance(plain, ast.Name):
        return value
    if isinstance(plain, ast.Attribute):
        _nameable(plain.value)
        return value
    _value(value)
    return value


def _checked(call: Any, check: ast.FunctionDef | None) -> list[Equation]:
    """The equations of `check(f)`, with `f` in the place of its parameter."""
    if check is None or call.keywords or len(call.args) != 1 or len(check.args.args) != 1:
        raise _NotApart
    return _equations(check.body, {check.args.args[0].arg: _nameable(call.args[0])})


def _of_test(test: ast.expr) -> list[Equation]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [equation for part in test.values for equation in _of_test(part)]
    if isinstance(test, ast.Constant) and test.value:  # as in `assert True`
        return []
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return [Equation(f"not {_call(test.operand)}", True, _equal)]
    if isinstance(test, ast.Call):
        is_near = ast.unparse(test.func) == "math.isclose"
        return [_close(test) if is_near else Equation(f"bool({_call(test)})", True, _equal)]
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        raise _NotApart
    return [_compared(test.left, test.ops[0], test.comparators[0])]


def _compared(left: ast.expr, operation: ast.cmpop, right: ast.expr) -> Equation:
    if isinstance(operation, ast.Lt | ast.LtE):
        return _near(left, right)
    if not isinstance(operation, ast.Eq | ast.Is):
        raise _NotApart
    holds = _equal if isinstance(operation, ast.Eq) else _identical
    if _is_value(right):
        return Equation(_call(left), _value(right), holds)
    return Equation(_call(right), _value(left), holds)


def _near(left: ast.expr, right: ast.expr) -> Equation:
    """`abs(f(x) - 2.5) < 0.01`."""
    inner = left.args[0] if isinstance(left, ast.Call) and ast.unparse(left.func) == "abs" and left.args else None
    if not isinstance(inner, ast.BinOp) or not isinstance(inner.op, ast.Sub):
        raise _NotApart
    call, expected = (inner.left, inner.right) if _is_value(inner.right) else (inner.right, inner.left)
    return Equation(_call(call), _value(expected), partial(_within, tolerance=_value(right)))


def _close(test: ast.Call) -> Equation:
    """`math.isclose(f(x), 2.5, rel_tol=0.01)`."""
    if len(test.args) != 2:
        raise _NotApart
    settings = {str(keyword.arg): _value(keyword.value) for keyword in test.keywords}
    call, expected = test.args if _is_value(test.args[1]) else reversed(test.args)
    return Equation(_call(call), _value(expected), partial(math.isclose, **settings))


def _equal(value: Any, expected: Any) -> bool:
    return bool(value == expected)


def _identical(value: Any, expected: Any) -> bool:
    return type(value) is type(expected) and bool(value == expected)


def _within(value: Any, expected: Any, tolerance: float) -> bool:
    return bool(abs(value - expected) <= tolerance)


def _call(node: ast.expr) -> str:
    """A call of the program with literals, within built-in functions at most: nothing else may go with it.

    Whatever else stood beside the call could be what is expected.
    """
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        raise _NotApart
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    if isinstance(node.func, ast.Name) and node.func.id in _WRAPPERS and not all(map(_is_value, arguments)):
        inner, *others = arguments
        if others and node.func.id != "round":
            raise _NotApart
        _call(inner)
        arguments = others
    for argument in arguments:
        _value(argument)
    return ast.unparse(node)


def _is_value(node: ast.expr) -> bool:
    try:
        _value(node)
    except (ValueError, TypeError, ArithmeticError):
        return False
    return True


def _value(node: ast.expr) -> Any:
    """A literal, a collection made of one, or a sum of them."""
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = _value(node.left), _value(node.right)
        if any(hasattr(side, "__len__") and len(side) > _LONGEST_VALUE for side in (left, right)):
            raise _NotApart
        return _OPERATIONS[type(node.op)](left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _COLLECTIONS:
        return _COLLECTIONS[node.func.id](*map(_value, node.args))
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        kind = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]
        return kind(map(_value, node.elts))
    return ast.literal_eval(node)


def _says_nothing(statement: ast.stmt) -> bool:
    """A docstring, `pass`, or an import that the rest does without."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass | ast.Import)
