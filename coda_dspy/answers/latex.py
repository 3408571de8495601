"""Clean one mathematical answer, and write it as the LaTeX that the comparison reads."""

import re

from coda_dspy.answers import numbers, tidy

_LONGEST_COMPARED = 300
_DEEPEST = 10
_DEEPEST_ROUND = 6

_WRAPPERS = (
    re.compile(r"\$\$?([^$]*)\$?\$"),
    re.compile(r"\\\((.*)\\\)", re.DOTALL),
    re.compile(r"\\\[(.*)\\\]", re.DOTALL),
    re.compile(r"\\(?:boxed|fbox|framebox|text|textbf|mathrm|mathbf|mbox)\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}"),
    re.compile(r"[`\"']++(.*?)[`\"']+", re.DOTALL),
    re.compile(r"<([^<>=]*)>"),
    re.compile(r"\*+([^*]*)\*+"),
)
_REWRITES = [
    (re.compile(pattern), new)
    for pattern, new in (
        (r",\s*\\!\s*|\{,\}", ","),
        (r"\\[dtc]frac", r"\\frac"),
        (r"\\(?:left|right)\s*\.", ""),
        (r"\\(?:left|right|displaystyle|limits)(?![a-zA-Z])", ""),
        (r"(?<!\\)\\(?:[,;: ]|quad|qquad)|~", " "),
        (r"(?<!\\)\\!", ""),
        (r"\s+", " "),
        (r"\\%", "%"),
        (r"\\[$]|(?<![\w}])[$€£¥₹](?=\s*[\d.])|[€£¥₹](?!\S)", ""),
        (r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|°|\\degree)", ""),
        (r"\\text\s*\{\s*(?:and|or)\s*\}|(?<=[\d)}x-z])\s+(?:and|or)\s+(?=[-\d(\\a-z])", ", "),
        (r"(?<=\d)_\{(\d+)\}", r"_\1"),
        (r"(?<=\d)_\{?\\(?:text|mathrm)\{(\w+)\}\}?", r"_\1"),
        (r"\s+,", ","),
    )
]
_SYMBOLS = {
    "√": r"\sqrt ",
    "π": r"\pi ",
    "×": r"\times ",
    "·": r"\cdot ",
    "⋅": r"\cdot ",
    "÷": "/",
    "∞": r"\infty ",
    "≤": r"\le ",
    "≥": r"\ge ",
    "≠": r"\ne ",
    "±": r"\pm ",
    "∪": r"\cup ",
    "∩": r"\cap ",
    "∈": r"\in ",
    "∅": r"\emptyset ",
    "θ": r"\theta ",
    "–": "-",
    "**": "^",
    "*": r"\cdot ",
}
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", "0123456789-+n")
_LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
FUNCTIONS = (
    "sqrt|sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|sinh|cosh|tanh|log|ln|exp|pi|infty|max|min|gcd|lcm|cup|cap"
)
_BARE_FUNCTION = re.compile(rf"(?<![\\A-Za-z])({FUNCTIONS})(?![A-Za-z])")
_WORD = re.compile(
    r"[A-Za-z]{3,}|(?<![A-Za-z])(?:is|so|of|or|to|in|at|on|an|we|it|he|if|as|by|be|do|no|my|up)(?![A-Za-z])", re.I
)
_COMMAND = re.compile(r"\\(?:begin|end)\{\w+\}|\\[A-Za-z]+")
_ALLOWED = re.compile(r"[\w\s\\{}()\[\]^+\-*/=<>.,;!|'&%]*", re.ASCII)
_TOWER = re.compile(r"\^\s*(?:\w+|\{[^{}]*\})\s*\^")
_BASED = re.compile(r"\d_\w")


def clean(text: str) -> str:
    """One answer without its wrappers: delimiters, boxes, spacing, currency, degrees, trailing punctuation."""
    text = _rewritten(_unwrapped(tidy.fold(text)))
    return _unwrapped(numbers.without_grouping(text) if not set(text) & set("([{") else text)


def _unwrapped(text: str) -> str:
    before = None
    while before != text:
        before = text
        text = re.sub(r"(?<!\\)(?:[\s.,;:]|\\\\)+\Z", "", text.strip())
        for wrapper in _WRAPPERS:
            if match := wrapper.fullmatch(text):
                text = match[1].strip()
    return text


def _rewritten(text: str) -> str:
    for pattern, new in _REWRITES:
        text = pattern.sub(new, text)
    return text.strip()


def has_words(text: str) -> bool:
    """Whether a text holds words, which a parser of formulas would read as products of letters."""
    bare = _BARE_FUNCTION.sub(" ", _COMMAND.sub(" ", text))
    return any(not set(word) <= set("abc") and not set(word) <= set("xyz") for word in _WORD.findall(bare))


def comparable(text: str) -> str | None:
    """A cleaned answer as LaTeX for the comparison; None where only its spelling can be compared.

    Refused are words, times (`12:00`), numbers in another base (`52_8`, which the parser reads as 52), towers of
    powers, deep nesting (the parser's time doubles with each bracket), odd characters and anything over 300 characters.
    """
    if len(text) > _LONGEST_COMPARED or "__" in text or ":" in text or _BASED.search(text) or has_words(text):
        return None
    latex = _as_latex(text)
    if not _ALLOWED.fullmatch(latex) or _TOWER.search(latex) or _too_deep(latex):
        return None
    return latex


def _as_latex(text: str) -> str:
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ]+", lambda match: "^{" + match[0].translate(_RAISED) + "}", text)
    text = re.sub("[₀-₉]+", lambda match: "_{" + match[0].translate(_LOWERED) + "}", text)
    for symbol, command in _SYMBOLS.items():
        text = text.replace(symbol, command)
    text = _BARE_FUNCTION.sub(r"\\\1 ", text)
    text = re.sub(r"(\\sqrt|\^)\s*\(([^()]*)\)", r"\1{\2}", text)
    text = re.sub(r"\\sqrt\s*(\d+|[A-Za-z])", r"\\sqrt{\1}", text)
    return re.sub(r"\^\s*(-?\d+)", r"^{\1}", text).rstrip("%").strip()


def _too_deep(latex: str) -> bool:
    depth = rounds = 0
    for char in latex.replace("\\{", "(").replace("\\}", ")"):
        depth += (char in "([{") - (char in ")]}")
        rounds += (char in "([") - (char in ")]")
        if depth > _DEEPEST or rounds > _DEEPEST_ROUND:
            return True
    return False
