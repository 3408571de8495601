"""What judges share: how they are asked, and how a number is read in what they say."""

import re
from collections.abc import Sequence

import dspy

from coda_dspy.calling import Reply, ask
from coda_dspy.question import current_question, tried
from coda_dspy.sampling import Sample

_CLOSING = re.compile(r"[\s*_\])]*(?:/ ?10)?[\s*_\]).]*")  # what may follow a verdict that stands alone


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
