"""Mathematical answers: the last declaration wins, and equal means equal in value."""

import re

from coda_dspy.answers import equivalence, latex, prose, tidy
from coda_dspy.answers.declared import Declared, declarations
from coda_dspy.answers.numbers import as_fraction
from coda_dspy.task import Task

_BETWEEN_BOXES = re.compile(r"[\s,;$}]*(?:and|or|und|et|y)?[\s,;$]*")
_ASSIGNED = re.compile(
    r"(?P<name>\\?[A-Za-z]+(?:_(?:\w+|\{\w+\}))?(?:\([a-z]\))?)\s*(?:=|\\in(?![a-z]))\s*(?P<value>[^=]+)"
)
_TIME = re.compile(r"\d{1,3}:\d{2}(?::\d{2})?(?:\s?[ap]\.?m\.?)?", re.IGNORECASE)


def extract(task: Task, visible: str) -> str | None:
    """The final answer of a visible text.

    The last declaration that says anything wins (a box, "Answer: …", "the answer is …", "#### 18"). What it holds is
    read as a formula or as a quantity in prose; a broken formula or a choice of numbers is no answer. Without any
    declaration the last line counts: what follows its last "=", its one formula, or in plain prose its last number.
    """
    text = tidy.tail(visible)
    found = declarations(text)
    for declared in found:
        if declared.content is None:
            return None
        if declared.form == "box":
            if not tidy.is_void(declared.content):
                return canonical(_with_neighbours(declared, found, text))
            continue
        reading = prose.declared(declared.content, declared.form)
        if reading.settled:
            return reading.answer and canonical(reading.answer)
    closing = prose.closing(text)
    return closing and canonical(closing)


def _with_neighbours(last: Declared, others: object, text: str) -> str:
    """The content of a box and of those boxes that are joined to it by "and": `x = \\boxed{1}` and `\\boxed{2}`."""
    contents, start = [last.content or ""], last.start
    for other in others:  # type: ignore[attr-defined]
        if other.form != "box" or not other.content or not _BETWEEN_BOXES.fullmatch(text[other.end + 1 : start]):
            break
        contents.insert(0, other.content)
        start = other.start
    return ", ".join(contents)


def canonical(text: str) -> str | None:
    """An answer in readable form: no wrappers, currency, units, percent signs or thousands separators."""
    if tidy.is_placeholder(text):
        return None
    cleaned = latex.clean(text)
    if tidy.is_placeholder(cleaned) or cleaned.count("{") != cleaned.count("}"):
        return None
    if _TIME.fullmatch(cleaned):
        return cleaned
    cleaned = _result_of(cleaned)
    quantity = prose.without_unit(cleaned)
    found = quantity if quantity is not None else cleaned
    return None if tidy.is_placeholder(found) else found


def _result_of(text: str) -> str:
    """`9 * 2 = 18`, `Total = 18` and `x = 18` give 18; `y = 2x + 1` and `x^2 + y^2 = 1` stay whole."""
    left, equals, right = text.rpartition("=")
    right = right.strip()
    if not equals or left.endswith(("<", ">", "!", "\\")) or not right:
        return text
    is_number = as_fraction(prose.without_unit(right) or right) is not None
    is_sum = not re.search(r"(?<![\\A-Za-z])[A-Za-z]|[<>,]", left)
    is_name = re.fullmatch(r"[\w\s{}\\]+", left) is not None and not re.match(r"\s*\d", left)
    if is_sum or latex.has_words(left) or (is_name and is_number):
        return right
    return text


def same(task: Task, a: str, b: str) -> bool:
    """Whether two answers are equal in value; answers that cannot be read are equal only if spelled the same."""
    left, right = canonical(a), canonical(b)
    if left is None or right is None:
        return False
    if _key(left) == _key(right):
        return True
    left, right = _values(left, right)
    numbers = as_fraction(left), as_fraction(right)
    if None not in numbers:
        return numbers[0] == numbers[1]
    pair = latex.comparable(left), latex.comparable(right)
    return pair[0] is not None and pair[1] is not None and equivalence.equivalent(pair[0], pair[1])


def _key(text: str) -> str:
    spelled = re.sub(r"\s+", "", text)
    if re.fullmatch(r"\([A-Za-z]\)", spelled):
        spelled = spelled[1:-1]
    return spelled.casefold() if latex.has_words(text) or _TIME.fullmatch(text) else spelled


def _values(a: str, b: str) -> tuple[str, str]:
    """Drop the names of assigned variables, unless the two sides assign to different ones."""
    left, right = _ASSIGNED.fullmatch(a), _ASSIGNED.fullmatch(b)
    if left and right and left["name"] != right["name"]:
        return a, b
    return (left["value"].strip() if left else a), (right["value"].strip() if right else b)


def wanted(task: Task) -> str:
    """The line that tells a model how to end its reply."""
    return "End with one line: Answer: <the final number or expression>"
