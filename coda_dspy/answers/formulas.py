"""Whether two formulas are equal in value. Runs in the sandbox, and imports nothing of the project.

Only the LaTeX parser of math-verify sees the text: its other parser is `eval` in disguise.
"""

import logging
import math
import random
from collections.abc import Iterator
from typing import Any

_DIGITS = 60
_MOST_DIGITS = 3_000.0
_POINTS = 8
_EXACT = 1e-40
_WRITTEN = 1e-6


def same_or_unknown(a: str, b: str) -> bool:
    """Whether two formulas are equal; False also where that cannot be found out."""
    try:
        return same(a, b)
    except Exception:  # noqa: BLE001 - sympy raises whatever it likes; unknown equals nothing
        return False


def same(a: str, b: str) -> bool:
    """Whether two formulas are equal in value: by numbers where that can be decided, else by math-verify."""
    from math_verify import verify

    left, right = _parsed(a), _parsed(b)
    if left is None or right is None or max(_size(left), _size(right)) > _MOST_DIGITS:
        return False
    verdict = _by_numbers(left, right)
    if verdict is not None:
        return verdict
    settings: dict[str, Any] = {"numeric_precision": _DIGITS, "timeout_seconds": None}
    return bool(verify(left, right, **settings) or verify(right, left, **settings))


def _parsed(latex: str) -> Any:
    from math_verify import LatexExtractionConfig, parse

    found = parse(
        f"${latex}$",
        extraction_config=[LatexExtractionConfig()],
        fallback_mode="no_fallback",  # a number inside a formula that cannot be read is not its value
        parsing_timeout=None,
    )
    return found[0] if found and not isinstance(found[0], str) else None


def _size(expr: Any) -> float:
    """An upper bound for the decimal digits of the numbers in an unevaluated expression, without computing them."""
    import sympy

    if isinstance(expr, sympy.Rational):
        return max(_digits(expr.p), _digits(expr.q))
    if isinstance(expr, sympy.Pow | sympy.exp):
        base, exponent = expr.as_base_exp()
        return max(_size(base), 1.0) * _magnitude(exponent) if not expr.is_Symbol else 1.0
    if isinstance(expr, sympy.factorial | sympy.binomial | sympy.gamma):
        return max(map(_size, expr.args)) * max(map(_magnitude, expr.args))
    return sum(map(_size, getattr(expr, "args", None) or ())) or 1.0


def _magnitude(expr: Any) -> float:
    """An upper bound for the value of a small expression, and infinity for one with more than six digits."""
    if getattr(expr, "is_Integer", False):
        return float(abs(expr)) if _digits(expr) < 7 else math.inf
    if not getattr(expr, "is_number", True):
        return 10.0
    size = _size(expr)
    return 10.0**size if size < 7 else math.inf


def _digits(number: Any) -> float:
    return max(1.0, int(number).bit_length() * math.log10(2))


def _by_numbers(a: Any, b: Any) -> bool | None:
    """Compare by values at high precision; None where the two are not plain expressions.

    math-verify alone calls 1/2^99 and 1/2^98 equal, and √(1/n) and 1/√n unequal.
    """
    import sympy

    if type(a) is type(b) and (parts := _parts(a, b)) is not None:
        verdicts = [_by_numbers(left, right) for left, right in parts]
        return None if None in verdicts else all(verdicts)
    a, b = _assigned(a, b)
    if not (isinstance(a, sympy.Expr) and isinstance(b, sympy.Expr)):
        return None
    names = {symbol.name for symbol in a.free_symbols | b.free_symbols} - {"i"}
    tolerance = _WRITTEN if a.has(sympy.Float) or b.has(sympy.Float) else _EXACT
    votes = [_agree(a, b, point, tolerance) for point in _points(sorted(names))]
    if not names:
        return votes[0]
    if False in votes:
        return False
    return True if votes.count(True) >= 3 else None


def _parts(a: Any, b: Any) -> list[tuple[Any, Any]] | None:
    """The pairs to compare in two tuples or matrices of one shape, or two intervals with the same kinds of ends."""
    import sympy

    if isinstance(a, sympy.Tuple) and len(a) == len(b):
        return list(zip(a, b, strict=True))
    if isinstance(a, sympy.MatrixBase) and a.shape == b.shape:
        return list(zip(a.flat(), b.flat(), strict=True))
    if isinstance(a, sympy.Interval) and (a.left_open, a.right_open) == (b.left_open, b.right_open):
        ends = [(a.start, b.start), (a.end, b.end)]
        return ends if all(end.is_finite for pair in ends for end in pair) else None
    return None


def _assigned(a: Any, b: Any) -> tuple[Any, Any]:
    """`y = 2x + 1` beside `2x + 1`: only the right side counts. Two equations are left to math-verify."""
    import sympy

    def value(expr: Any) -> Any:
        named = isinstance(expr, sympy.Eq) and (expr.lhs.is_Symbol or expr.lhs.is_Function)
        return expr.rhs if named and not expr.rhs.has(expr.lhs) else expr

    return (a, b) if isinstance(a, sympy.Eq) and isinstance(b, sympy.Eq) else (value(a), value(b))


def _points(names: list[str]) -> Iterator[dict[str, Any]]:
    """Values for the variables: half of the points all positive, half of mixed signs; always the same."""
    import sympy

    source = random.Random(20250919)
    for index in range(_POINTS if names else 1):
        values = {name: sympy.Rational(source.randint(3, 97), source.randint(5, 41)) for name in names}
        yield {name: -x if index % 2 and source.random() < 0.7 else x for name, x in values.items()}


def _agree(a: Any, b: Any, point: dict[str, Any], tolerance: float) -> bool | None:
    """Whether two expressions have one value at a point; None where they have none, or where only a branch differs."""
    if not point and (exact := _agree_exactly(a, b)) is not None:
        return exact
    left, right = _value(a, point), _value(b, point)
    if left is None or right is None:
        return None
    scale = max(abs(left), abs(right), 1e-300)
    apart = abs(left - right)
    near = bool(apart <= tolerance * scale) and (tolerance == _EXACT or bool(apart <= _WRITTEN))
    both_complex = abs(left.imag) > _EXACT * scale and abs(right.imag) > _EXACT * scale
    return None if point and not near and both_complex else near


def _agree_exactly(a: Any, b: Any) -> bool | None:
    import sympy

    left, right = a.doit(), b.doit()
    return bool(left == right) if isinstance(left, sympy.Rational) and isinstance(right, sympy.Rational) else None


def _value(expr: Any, point: dict[str, Any]) -> Any:
    import mpmath
    import sympy

    given = {symbol: sympy.I if symbol.name == "i" else point[symbol.name] for symbol in expr.free_symbols}
    value = sympy.N(expr.doit().subs(given), _DIGITS)
    if not value.is_number or value.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
        return None
    with mpmath.workdps(_DIGITS):
        real, imaginary = value.as_real_imag()
        return mpmath.mpc(mpmath.mpf(str(real)), mpmath.mpf(str(imaginary)))


logging.disable(logging.CRITICAL)


def warm_up() -> None:
    """Use the parser and sympy once: every fork of the sandbox's worker inherits what they build at first use."""
    for a, b in (
        ("1", "2"),
        (r"\sqrt{8}", r"2\sqrt{2}"),
        (r"\frac{1}{2}", "0.5"),
        ("(x+1)^2", "x^2+2x+1"),
        ("x+1", "x+2"),
        (r"\frac{k\sqrt{2}}{4}", r"\frac{k}{2\sqrt{2}}"),
        (r"\{1,2\}", r"\{2,1\}"),
        ("(1,2)", "(1,3)"),
        (r"\sin(x)", r"\log(x)"),
        (r"\begin{pmatrix}1&2\end{pmatrix}", r"\begin{pmatrix}1&3\end{pmatrix}"),
        ("x=2", "2"),
        (r"[0,1)", r"(0,1)"),
    ):
        same_or_unknown(a, b)
