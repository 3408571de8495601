"""A complete text and the answer that was read in it: what an execution and a synthesis have in common."""

from dataclasses import dataclass

from coda_dspy.calling import Reply


@dataclass(frozen=True)
class Solution:
    """One way to an answer.

    Args:
        answer: The answer; for a code task, the program.
        reply: The text that gave it.
        trusted: False for a program that fails a public test: it votes only where no other one passes.
    """

    answer: str
    reply: Reply
    trusted: bool = True
