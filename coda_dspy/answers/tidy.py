"""Bring text to one spelling before anything is looked for in it."""

import re
import unicodedata
from functools import lru_cache

LOOK_AT = 20_000
"""Characters at the end of a reply in which an answer is looked for."""

_SIGNS = {
    "\n": "\n",
    "\t": " ",
    "\u2212": "-",  # minus
    "\u2010": "-",
    "\u2011": "-",
    "\u2044": "/",
    "\u2215": "/",
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u3002": ".",
}
_BOLD = re.compile(r"(?<![\w)}])(\*\*|__)(?=\S)([^\n]{1,300}?)(?<=\S)\1(?![\w(])")
_PLACEHOLDER = re.compile(
    r"(?:(?:the|your|a|final|correct|numerical|single|one|only)\s+)*"
    r"(?:answer|number|letter|option|expression|value|result|word|number or expression)(?:\s+(?:here|only))?",
    re.IGNORECASE,
)
_VOID = re.compile(r"(?:let'?s|let us|let me|see (?:above|below)|we (?:need|have) to\b)", re.IGNORECASE)


def tail(visible: str) -> str:
    """The end of a visible text in one spelling, without bold marks."""
    return unbold(fold(visible[-LOOK_AT:]))


def fold(text: str) -> str:
    """Every digit becomes ASCII, wide letters narrow, odd spaces a space; control characters go. `x²` stays `x²`."""
    return "".join(map(_fold_char, text))


@lru_cache(maxsize=4096)
def _fold_char(char: str) -> str:
    if char in _SIGNS:
        return _SIGNS[char]
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    category = unicodedata.category(char)
    if category.startswith("Z"):
        return " " if category == "Zs" else "\n"
    if category.startswith("C"):
        return ""
    return _plain_form(char)


def _plain_form(char: str) -> str:
    form = unicodedata.decomposition(char).partition(" ")[0]
    if form in ("<wide>", "<narrow>", "<font>"):
        return unicodedata.normalize("NFKC", char)
    if form == "<fraction>":  # the space keeps 2½ from becoming 21/2
        return " " + unicodedata.normalize("NFKC", char).replace("\u2044", "/")
    return char


def unbold(text: str) -> str:
    """Take bold marks off, but leave `2**3` alone."""
    return _BOLD.sub(r"\2", text)


def is_placeholder(text: str) -> bool:
    """Whether this is the prompt's own `<number>` rather than something to put there."""
    bare = text.strip(" .*_`$\"'<>[](){}")
    return not bare or set(bare) <= set(".…?_- ") or _PLACEHOLDER.fullmatch(bare) is not None


def is_void(text: str) -> bool:
    """Whether a declaration declares nothing: a placeholder, or the start of more talk ("Let's think")."""
    return is_placeholder(text) or _VOID.match(text.strip()) is not None


def is_negated(text: str) -> bool:
    """Whether this says what the answer is not."""
    return re.match(r"\W*(?:not|n't|nicht|pas|no es)\b", text, re.IGNORECASE) is not None


def last_line(text: str) -> str:
    """The last line that holds a letter or a digit, or an empty text."""
    for line in reversed(text.splitlines()):
        if any(char.isalnum() for char in line):
            return line.strip()
    return ""
