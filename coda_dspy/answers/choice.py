"""Multiple choice: the last letter that is declared, or the option whose text is declared. Never a guess."""

import re
import unicodedata

from coda_dspy.answers import tidy
from coda_dspy.answers.declared import declarations, first_sentence
from coda_dspy.task import LETTERS, Task

_WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mathbf|boxed|fbox|bf|rm)\s*\{([^{}]*)\}")
_MARKS = re.compile(r"[$*_`\"']|\\[()\[\],;! ]")
_LETTER = re.compile(
    r"\s*(?:(?:option|choice|letter|answer|choix|opci[óo]n|la|le)\s+)?"
    r"(?:[(\[<]\s*(?P<round>[A-Ja-j])\s*[)\]>]|(?P<marked>[A-J])\s*(?:[).:,;\]]|\s[-–—]\s|\Z)|(?P<bare>[A-J])(?=\s))",
)
_LONE = re.compile(r"[\s(\[]*([A-Za-z])[\s)\].:]*")
_RIVAL = re.compile(r"\s*(?:\)|\])?\s*(?:and|or|und|oder|et|ou|y|o|,|/|&)\s*[(\[]?[A-J](?![\w'])")
# After a bare "A" or "I" more words mean English rather than a letter.
_REASON = re.compile(r"\s+(?:because|since|as|which|for|weil|da|car|porque|[(=])", re.IGNORECASE)
_REVERSED = re.compile(
    r"(?:(?<!\w)[Oo]ption\s+|(?<!\w)[Cc]hoice\s+|(?:^|(?<=[.,:;]\s)|(?<=\bso\s)|(?<=\bthus\s))(?=\(?[A-J]\)?\s))"
    r"\(?([A-J])\)?(?:[ ][^\n.]{0,80}?)?\s+(?:is|must be|would be)\s+(?:(?:clearly|therefore|thus)\s+)?"
    r"(?:the\s+)?(?:only\s+)?(?:correct|right|best|most \w+)(?!\w)",
    re.MULTILINE,
)
_CHOSEN = re.compile(r"\bI(?:'ll| will| would|'d)?\s+(?:choose|chose|pick|select|go with|answer)\s+", re.IGNORECASE)
_LISTED = re.compile(r"\s*[(\[]?([A-J])\s*[)\].:]\s*(.*)")
_BOLD = re.compile(r"(?:\*\*|__)\s*[(\[]?([A-J])(?:[)\].:][^*\n]{0,200})?(?:\*\*|__)")


def extract(task: Task, visible: str) -> str | None:
    """The letter that a visible text settles on, or None.

    The last declaration that names a letter or exactly one option's text wins. Two letters, or a letter that the task
    does not have, are no answer. Without any declaration the last line counts if it is a letter ("(C)", "B) Paris"), or
    holds one bold letter.
    """
    text = tidy.tail(visible)
    for _, content in _declared(text):
        if content is None:
            return None
        if tidy.is_void(content):
            continue
        letter, settled = _read(task, content)
        if settled:
            return letter
    return _last_line(task, text, tidy.last_line(tidy.fold(visible[-tidy.LOOK_AT :])))


def _declared(text: str) -> list[tuple[int, str | None]]:
    found: list[tuple[int, str | None]] = [(item.start, item.content) for item in declarations(text)]
    found += [(match.start(), f"({match[1]})") for match in _REVERSED.finditer(text)]
    found += [
        (match.start(), text[match.end() : match.end() + 200].partition("\n")[0]) for match in _CHOSEN.finditer(text)
    ]
    return sorted(found, key=lambda item: item[0], reverse=True)


def _read(task: Task, content: str) -> tuple[str | None, bool]:
    """The letter in a declaration, and whether the declaration settles the matter (with None: not to be guessed)."""
    bare = _stripped(content)
    if lone := _LONE.fullmatch(bare):
        letter = lone[1].upper()
        return (letter if letter in _letters(task) else None), True
    match = _LETTER.match(bare)
    if match and (letter := _stated(task, bare, match)):
        if _RIVAL.match(bare, match.start("round") + 1 if match["round"] else match.end(match.lastgroup or 0)):
            return None, True
        return (letter if letter in _letters(task) else None), True
    named = _named(task, first_sentence(bare))
    return named, named is not None


def _stripped(content: str) -> str:
    before = None
    while before != content:
        before, content = content, _WRAPPED.sub(r"\1", content)
    return _MARKS.sub("", content).strip()


def _stated(task: Task, bare: str, match: re.Match[str]) -> str | None:
    letter = (match["round"] or match["marked"] or match["bare"]).upper()
    if match["bare"] is None or _REASON.match(bare, match.end()) or _RIVAL.match(bare, match.end()):
        return letter
    if letter in _letters(task) and _plain(bare[match.end() :]).startswith(_option(task, letter)):
        return letter
    return letter if letter not in "AI" else None


def _named(task: Task, sentence: str) -> str | None:
    """The letter of the one option whose text stands in a sentence; an option inside a longer one does not count."""
    spoken = f" {_plain(sentence)} "
    found = [letter for letter in _letters(task) if f" {_option(task, letter)} " in spoken]
    longest = [
        letter
        for letter in found
        if not any(other != letter and f" {_option(task, letter)} " in f" {_option(task, other)} " for other in found)
    ]
    if len(longest) != 1:
        return None
    # "not" may belong to the option itself: "Not enough information".
    return None if " not " in spoken.replace(f" {_option(task, longest[0])} ", " ") else longest[0]


def _last_line(task: Task, text: str, raw: str) -> str | None:
    lines = [line for line in text.splitlines() if any(char.isalnum() for char in line)]
    if not lines:
        return None
    bare = _stripped(lines[-1])
    if (lone := _LONE.fullmatch(bare)) and (lone[1].isupper() or len(lines) == 1):
        return lone[1].upper() if lone[1].upper() in _letters(task) else None
    listed = _LISTED.fullmatch(bare)
    if listed and not any(_LISTED.fullmatch(_stripped(line)) for line in lines[-3:-1]):
        told = _plain(listed[2])
        return listed[1] if listed[1] in _letters(task) and told.startswith(_option(task, listed[1])) else None
    if len(lines) == 1 and (named := _whole(task, bare)):
        return named
    bold = {match[1] for match in _BOLD.finditer(raw)}
    return bold.pop() if len(bold) == 1 and bold <= set(_letters(task)) else None


def _whole(task: Task, text: str) -> str | None:
    found = [letter for letter in _letters(task) if _option(task, letter) == _plain(text)]
    return found[0] if len(found) == 1 else None


def _letters(task: Task) -> str:
    return LETTERS[: len(task.choices or ())]


def _option(task: Task, letter: str) -> str:
    return _plain((task.choices or ())[LETTERS.index(letter)])


def _plain(text: str) -> str:
    """Words only, for comparing an option's text with what a model says of it."""
    folded = unicodedata.normalize("NFKC", _stripped(text)).casefold()
    words = re.findall(r"[-+]?\d+(?:[.,/:]\d+)*|\w+|[^\w\s.,;:!?()\[\]]", folded)
    return " ".join(words)


def same(task: Task, a: str, b: str) -> bool:
    """Whether both name the same option of the task, by letter or by text."""
    left = _one(task, a)
    return left is not None and left == _one(task, b)


def _one(task: Task, answer: str) -> str | None:
    bare = _stripped(tidy.fold(answer))
    lone = _LONE.fullmatch(bare)
    if lone and lone[1].upper() in _letters(task):
        return lone[1].upper()
    return _whole(task, bare) or _read(task, bare)[0]


def wanted(task: Task) -> str:
    """The line that tells a model how to end its reply."""
    letters = _letters(task)
    return f"End with one line: Answer: <letter> (one of {', '.join(letters[:-1])} or {letters[-1]})"
