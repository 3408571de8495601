"""What judges share: how they are asked, and how a number is read in what they say."""

import re
from collections.abc import Sequence

import dspy

from coda_dspy.calling import Reply, ask
from coda_dspy.question import current_question, tried
from coda_dspy.sampling import Sample


def judged(predict: dspy.Predict, attempt: int, plan: int = 0, **inputs: str) -> Reply | None:
    """One opinion; `None` where the judge gave none."""
    question = {"question": current_question().task.text}
    return tried(lambda: ask(predict, "judge", Sample("verdict", attempt, plan, "judge"), question | inputs))


def last_number(pattern: re.Pattern[str], reply: Reply | None) -> float | None:
    """The last number that a reply states."""
    stated = pattern.findall(reply.text) if reply is not None else []
    return float(stated[-1]) if stated else None


def traces(replies: Sequence[Reply | None]) -> tuple[object, ...]:
    """The DSPy trace entries of the replies that there are."""
    return tuple(entry for reply in replies if reply is not None for entry in reply.trace)
