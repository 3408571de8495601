"""Free text: what stands behind the last declaration, compared without regard to case, quotes and articles."""

import re
import unicodedata

from coda_dspy.answers import tidy
from coda_dspy.answers.declared import declarations, first_sentence
from coda_dspy.answers.numbers import as_fraction, without_grouping
from coda_dspy.task import Task

_SHORT = 80
_LONGEST = 2_000
_ARTICLE = re.compile(r"(?:an?|the)\s+(?=\S)")
_WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|boxed)\s*\{([^{}]*)\}")


def extract(task: Task, visible: str) -> str | None:
    """What the last declaration says; without one, a reply that is a single line of at most 80 characters."""
    text = tidy.tail(visible)
    silent = True
    for declared in declarations(text):
        silent = False
        if declared.content is None:
            return None
        content = first_sentence(declared.content) if declared.form == "phrase" else declared.content
        if not tidy.is_void(content):
            return _readable(content)
    lines = [line for line in text.splitlines() if line.strip()]
    short = silent and len(lines) == 1 and len(lines[0].strip()) <= _SHORT and not tidy.is_void(lines[0])
    return _readable(lines[0]) if short else None


def _readable(content: str) -> str | None:
    content = _WRAPPED.sub(r"\1", content)
    content = re.sub(r"\s+", " ", content).strip().strip("*`$").strip()
    return content.rstrip(".").strip() or None


def same(task: Task, a: str, b: str) -> bool:
    """Whether two texts say the same: Unicode form, case, outer punctuation and articles do not count."""
    left, right = _key(a), _key(b)
    if not left or not right:
        return False
    if left == right:
        return True
    numbers = as_fraction(without_grouping(left)), as_fraction(without_grouping(right))
    return numbers[0] is not None and numbers[0] == numbers[1]


def _key(text: str) -> str:
    """The text's bare form; empty where it says nothing."""
    if tidy.is_placeholder(text[:_LONGEST]):
        return ""
    folded = " ".join(unicodedata.normalize("NFKC", tidy.fold(text)).casefold().split())
    if as_fraction(folded) is not None:
        return folded
    bare = _outer_stripped(folded)
    return _ARTICLE.sub("", bare, count=1) if _ARTICLE.match(bare) else bare or folded


def _outer_stripped(text: str) -> str:
    start, stop = 0, len(text)
    while start < stop and _is_outer(text[start]) and not text[start : start + 2].lstrip("-+.").isdigit():
        start += 1
    while start < stop and _is_outer(text[stop - 1]) and text[stop - 1] not in "%":
        stop -= 1
    return text[start:stop]


def _is_outer(char: str) -> bool:
    return char.isspace() or unicodedata.category(char).startswith("P")


def wanted(task: Task) -> str:
    """The line that tells a model how to end its reply."""
    return "End with one line: Answer: <answer>"
