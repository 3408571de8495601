"""What judges share: what they are shown, how they are asked, and how a number is read in what they say."""

import re
from collections.abc import Sequence

import dspy

from coda_dspy.calling import Reply, ask
from coda_dspy.programs.source import without_comments
from coda_dspy.question import current_question, tried
from coda_dspy.sampling import Sample

from .ballot import Ballot

_CLOSING = re.compile(r"[\s*_\])]*(?:/ ?10)?[\s*_\]).]*")  # what may follow a verdict that stands alone

# A line that could be taken for the verdict, or for the beginning of another solution.
_IMITATION = re.compile(
    r"^.*\b(?:(?:rating|verdict)\s*(?:\([^)\n]{0,40}\))?[\s:*\[]{0,6}-?\d+(?:\.\d+)?(?:\s*/\s*\d+)?"
    r"|better[\s:*\[]{0,6}(?:solution\s*)?[12]|best[ \t*]*:[\s*\[]{0,6}(?:solution\s*)?\d+)[^\w\n]*$"
    r"|^[^\w\n]*solution\s*\d+[^\w\n]*:.*$",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE = re.compile(r"[^.!?=\n]++[.!?]*+(?!=)")
_SURE = re.compile(
    r"\b(?:certain(?:ly)?|definitely|absolutely|undoubtedly|surely|guaranteed)\b|no doubt|100\s?%", re.IGNORECASE
)
_RIGHT = re.compile(r"\b(?:correct|right|true)\b", re.IGNORECASE)


def shown(ballot: Ballot, place: int) -> str:
    """A class as judges read it: its representative, without what would win by form instead of by reasons.

    Of a code task that is the program without its comments.
    """
    candidate = ballot.representative(place)
    if current_question().task.kind == "code":
        return f"```python\n{without_comments(candidate.answer)}\n```"
    return _SENTENCE.sub(_unless_assuring, _IMITATION.sub("", candidate.text)).strip()


def _unless_assuring(sentence: re.Match[str]) -> str:
    """A sentence, unless it says of itself that it is right."""
    sure = _SURE.search(sentence[0])
    return "" if sure and _RIGHT.search(sentence[0], sure.end()) else sentence[0]


def judged(predict: dspy.Predict, attempt: int, plan: int = 0, **inputs: str) -> Reply | None:
    """One opinion; `None` where the judge gave none."""
    question = {"question": current_question().task.text}
    return tried(lambda: ask(predict, "judge", Sample("verdict", attempt, plan, "judge"), question | inputs))


def last_number(pattern: re.Pattern[str], reply: Reply | None, *read: str) -> float | None:
    """The last number that a reply states.

    Where a text that the judge has read states one too, the reply may quote it: then a verdict counts only where it was
    asked for, alone in the last line.
    """
    if reply is None:
        return None
    if any(map(pattern.search, (current_question().task.text, *read))):
        last = reply.text.strip().rpartition("\n")[2].lstrip(" *_#[")
        verdict = pattern.match(last)
        return float(verdict[1]) if verdict and _CLOSING.fullmatch(last, verdict.end()) else None
    stated = pattern.findall(reply.text)
    return float(stated[-1]) if stated else None


def traces(replies: Sequence[Reply | None]) -> tuple[object, ...]:
    """The DSPy trace entries of the replies that there are."""
    return tuple(entry for reply in replies if reply is not None for entry in reply.trace)
