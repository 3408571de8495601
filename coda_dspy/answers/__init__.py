"""Find the answer in a reply, and compare answers by what they mean."""

from typing import Protocol

from coda_dspy.answers import choice, code, math, text
from coda_dspy.answers.thinking import strip_thinking
from coda_dspy.task import Task

__all__ = ["AnswerKind", "correct", "extract", "same", "strip_thinking", "wanted"]


class AnswerKind(Protocol):
    """What a kind of answer has to know; each module of this package that is named after a kind is one."""

    def extract(self, task: Task, visible: str) -> str | None:
        """The final answer of a reply's visible text, or None."""

    def same(self, task: Task, a: str, b: str) -> bool:
        """Whether two answers mean the same."""

    def wanted(self, task: Task) -> str:
        """The line that tells a model how to end its reply."""


# Longer texts are no answers; they are compared as they stand.
_LONGEST_COMPARED = 2_000
_KINDS: dict[str, AnswerKind] = {"math": math, "choice": choice, "text": text, "code": code}


def extract(task: Task, reply: str) -> str | None:
    """The final answer in a reply, in readable form, or None where it gives none. Thinking is no part of the answer.

    Example:
        >>> extract(Task("How much is 17 + 25?"), "17 + 25 = 42. **Answer:** $42$")
        '42'
    """
    visible, _ = strip_thinking(reply)
    return _KINDS[task.kind].extract(task, visible)


def same(task: Task, a: str | None, b: str | None) -> bool:
    """Whether two answers mean the same. No answer (None, an empty text, an echoed placeholder) equals nothing.

    Symmetric, and over within seconds whatever the input. Safe to call from many threads.

    Example:
        >>> same(Task("How much is 1/2?"), "0.5", "\\\\frac{1}{2}")
        True
    """
    if a is None or b is None:
        return False
    if task.kind != "code" and max(len(a), len(b)) > _LONGEST_COMPARED:
        return a.strip() == b.strip() != ""
    return _KINDS[task.kind].same(task, a, b)


def correct(task: Task, given: str | None, gold: str) -> bool:
    """Whether an answer is the gold answer, by meaning (`025` is `25`; a letter is its option's text)."""
    return same(task, gold, given)


def wanted(task: Task) -> str:
    """One line that tells a model how to end its reply so that `extract` finds the answer."""
    return _KINDS[task.kind].wanted(task)
