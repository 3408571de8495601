"""An answer that can be voted on."""

from dataclasses import dataclass, field
from typing import Any, Literal

Path = Literal["direct", "code", "coda"]


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
    trace: tuple[Any, ...] = field(default=(), repr=False, compare=False)
