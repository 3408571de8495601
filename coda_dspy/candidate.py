"""An answer that can be voted on."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from coda_dspy.solution import Solution
from coda_dspy.task import Path


@dataclass(frozen=True)
class Candidate:
    """An answer that can be voted on, with its text, its origin and its tokens.

    Args:
        answer: The final answer, as it was read in the text.
        text: The execution or synthesis that gave it.
        path: How it was reached: `direct`, `code` or `coda`.
        attempt: Index of its attempt within the path.
        tokens: Tokens in and out of everything that led to it; `None` where the engine did not say.
        plans: The plans behind it, where there are any.
        executions: The texts that a synthesis was made from.
        thinking: What the engine thought before the text.
        trusted: False for a program that fails a public test.
        trace: DSPy trace entries of the calls behind it, for optimizers.
    """

    answer: str
    text: str
    path: Path
    attempt: int
    tokens: int | None
    plans: tuple[str, ...] = ()
    executions: tuple[str, ...] = ()
    thinking: str = ""
    trusted: bool = True
    trace: tuple[Any, ...] = field(default=(), repr=False, compare=False)

    def without_texts(self) -> "Candidate":
        """The same with nothing that the engine said but the answer."""
        return replace(self, text="", plans=(), executions=(), thinking="")

    @classmethod
    def of(cls, solution: Solution, path: Path, attempt: int, plans: tuple[str, ...] = ()) -> "Candidate":
        """The candidate that one execution makes."""
        reply = solution.reply
        return cls(
            solution.answer,
            reply.text,
            path,
            attempt,
            reply.tokens,
            plans,
            thinking=reply.thinking,
            trusted=solution.trusted,
            trace=reply.trace,
        )

    @classmethod
    def of_synthesis(cls, synthesis: Solution, executions: Sequence["Candidate"], attempt: int) -> "Candidate":
        """The candidate that an attempt's synthesis makes, with everything that led to it."""
        tokens = [synthesis.reply.tokens, *(e.tokens for e in executions)]
        return cls(
            synthesis.answer,
            synthesis.reply.text,
            "coda",
            attempt,
            None if None in tokens else sum(t for t in tokens if t is not None),
            plans=tuple(plan for e in executions for plan in e.plans),
            executions=tuple(e.text for e in executions),
            thinking=synthesis.reply.thinking,
            trusted=synthesis.trusted,
            trace=tuple(entry for e in executions for entry in e.trace) + synthesis.reply.trace,
        )
