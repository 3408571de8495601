"""Find where a reply declares its answer: a box, "Answer: …", "the answer is …", "#### 18", in several languages."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_LONGEST = 2_000
_MOST = 20

_NOUNS = (
    r"(?:(?<!\w)(?:answers?|antwort|(?:end)?ergebnis|r[ée]ponse|respuesta|resultado|risposta|resposta|ответ"
    r"|(?:correct|right|best|final)\s+(?:option|choice|result|value|number))(?!\w)|答案|答え|回答)"
)
_VERBS = r"(?:(?<!\w)(?:is|are|be|equals|ist|lautet|est|es|è|é)(?!\w)|[=≈是为為は])"
_FILLERS = (
    r"(?:\s*(?:therefore|thus|then|hence|simply|just|indeed|exactly|equal to|approximately|about|option|choice|letter"
    r"|also|daher|somit|donc|la r[ée]ponse|l'option|la opci[óo]n|opci[óo]n|die option)(?!\w),?)*"
)
_LABEL = re.compile(rf"{_NOUNS}(?:[ ]?\([^()\n]{{0,20}}\))?[ ]*[::]+", re.IGNORECASE)
_HEADING = re.compile(rf"^[#>*\- ]*(?:\w+ ){{0,2}}{_NOUNS}[ *_]*$", re.IGNORECASE | re.MULTILINE)
_PHRASE = re.compile(rf"{_NOUNS}(?:[ ]+[^\s.:=,;]{{1,20}}){{0,6}}?\s*{_VERBS}{_FILLERS}[ ]*[::]*", re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox|framebox)\s{0,3}\{")
_TAG = re.compile(r"<answer>\s*", re.IGNORECASE)
_HASH = re.compile(r"^#{3,4} ?(?=[-+$€£]?[\d.])", re.MULTILINE)
_BLOCKS = {"$$": "$$", "\\[": "\\]", "```": "```"}


class Declared(NamedTuple):
    """One declaration.

    Args:
        start: Where it begins in the text.
        end: Where its content ends.
        content: What it declares; None where a box is never closed.
        form: `box` (all of the content is the answer), `hash`, `label` or `phrase` (the answer stands in prose).
    """

    start: int
    end: int
    content: str | None
    form: str


def declarations(text: str) -> Iterator[Declared]:
    """The declarations in a text, the last one first, at most twenty."""
    found = [(mark.start(), mark.end(), form) for pattern, form in _FORMS for mark in pattern.finditer(text)]
    for start, end, form in sorted(found, reverse=True)[:_MOST]:
        content = _CONTENT[form](text, end)
        yield Declared(start, end + len(content or ""), content, "box" if form == "tag" else form)


def first_sentence(text: str) -> str:
    """The text up to the first full stop that ends a sentence (`3.5`, `Dr. No` and `No. 5` do not)."""
    end = re.search(r"(?<=[\w)\]}$%*\"'])(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bMrs)(?<!\bSt)(?<!\bNo)[.!?](?=\s+\S)", text)
    return text[: end.start()] if end else text


def _in_braces(text: str, start: int) -> str | None:
    depth, position, stop = 1, start, min(len(text), start + _LONGEST)
    while position < stop:
        char = text[position]
        depth += (char == "{") - (char == "}")
        if not depth:
            return text[start:position]
        position += 2 if char == "\\" else 1
    return None


def _in_tag(text: str, start: int) -> str | None:
    inside, closed, _ = text[start : start + _LONGEST].partition("</")
    return inside if closed else inside.partition("\n")[0]


def _line(text: str, start: int) -> str:
    """The rest of the line; where it is blank, the next line that is not, or the formula block that begins there."""
    rest = text[start : start + _LONGEST].lstrip(" *_#>\n")
    for opening, closing in _BLOCKS.items():
        if rest.startswith(opening):
            inside, closed, _ = rest[len(opening) :].partition(closing)
            return f"{opening}{inside}{closing}" if closed else rest.partition("\n")[0]
    return rest.partition("\n")[0].strip()


_FORMS = [
    (_LABEL, "label"),
    (_HEADING, "label"),
    (_PHRASE, "phrase"),
    (_BOX, "box"),
    (_TAG, "tag"),
    (_HASH, "hash"),
]
_CONTENT = {"label": _line, "phrase": _line, "hash": _line, "box": _in_braces, "tag": _in_tag}
