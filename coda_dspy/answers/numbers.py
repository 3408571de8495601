"""Read plain numbers exactly: `1,234`, `-0.5`, `3/4`, `\\frac{1}{2}`, `2 1/2`, `1.5 \\times 10^{3}`."""

import re
from fractions import Fraction

_LONGEST = 300
_HIGHEST_POWER = 400

_DECIMAL = r"(?:\d+(?:\.\d*)?|\.\d+)"
_PLAIN = re.compile(rf"([-+]?)({_DECIMAL})")
_RATIO = re.compile(rf"([-+]?)({_DECIMAL})/([-+]?{_DECIMAL})")
_FRAC = re.compile(r"([-+]?)\\frac ?(?:\{([-+]?\d+)\}|(\d)) ?(?:\{(-?\d+)\}|(\d))")
_MIXED = re.compile(r"([-+]?)(\d+) ?(?: (\d+)/(\d+)|\\frac ?\{?(\d+)\}? ?\{?(\d+)\}?)")
_POWER = re.compile(
    rf"([-+]?)(?:({_DECIMAL}) ?(?:\\times|\\cdot|×|·|\*|x) ?)?10(?:\^|\*\*)\{{?\(?([-+]?\d{{1,3}})\)?\}}?"
)
_EXPONENT = re.compile(rf"([-+]?)({_DECIMAL})[eE]([-+]?\d{{1,3}})")
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])|(?<![\d.,])\d{1,3}(?: \d{3})+(?![\d,])")


def as_fraction(text: str) -> Fraction | None:
    """The exact value of a plain number; None for anything else, and for what is too long to be an answer."""
    text = text.strip()
    if not text or len(text) > _LONGEST:
        return None
    for pattern, value in _READERS:
        if match := pattern.fullmatch(text):
            try:
                size = value(*match.groups()[1:])
            except ZeroDivisionError:
                return None
            return -size if match[1] == "-" else size
    return None


def without_grouping(text: str) -> str:
    """`1,234` and `1 234` without their separators; `1,23` and `1.234,5` as they are."""
    return _GROUPED.sub(lambda match: match[0].replace(",", "").replace(" ", ""), text)


def _ratio(above: str, below: str) -> Fraction:
    return Fraction(above) / Fraction(below)


def _frac(above: str | None, digit_above: str | None, below: str | None, digit_below: str | None) -> Fraction:
    return Fraction(int(above or digit_above or 0), int(below or digit_below or 0))


def _mixed(
    whole: str, above: str | None, below: str | None, frac_above: str | None, frac_below: str | None
) -> Fraction:
    return int(whole) + Fraction(int(above or frac_above or 0), int(below or frac_below or 0))


def _power(factor: str | None, exponent: str) -> Fraction:
    if abs(int(exponent)) > _HIGHEST_POWER:
        raise ZeroDivisionError
    return Fraction(factor or 1) * Fraction(10) ** int(exponent)


_READERS = (
    (_PLAIN, Fraction),
    (_RATIO, _ratio),
    (_FRAC, _frac),
    (_MIXED, _mixed),
    (_POWER, _power),
    (_EXPONENT, _power),
)
