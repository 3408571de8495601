"""A question and its kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from coda_dspy.errors import UserError

Kind = Literal["math", "choice", "text"]
KINDS: tuple[str, ...] = get_args(Kind)
LETTERS = "ABCDEFGHIJ"


@dataclass(frozen=True)
class Task:
    """One question as the conductor sees it.

    Args:
        question: The problem, in words.
        kind: How its answer looks and is compared: `math`, `choice` (one letter) or `text`.
        choices: For `choice` only: 2 to 10 options, without letters.

    Raises:
        UserError: Unknown kind, empty question, or choices that do not fit the kind.
    """

    question: str
    kind: str = "math"
    choices: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UserError(f"kind is {self.kind!r}; choose one of: {', '.join(KINDS)}")
        if not isinstance(self.question, str) or not self.question.strip():
            raise UserError("question is empty; give the problem as text")
        if self.kind == "choice":
            self._check_choices()
        elif self.choices is not None:
            raise UserError(f"choices were given, but kind is {self.kind!r}; use kind='choice'")

    def _check_choices(self) -> None:
        if not self.choices:
            raise UserError("kind='choice' needs choices: a list of 2 to 10 options")
        if not 2 <= len(self.choices) <= len(LETTERS):
            raise UserError(f"choices holds {len(self.choices)} options; allowed are 2 to {len(LETTERS)}")
        if not all(isinstance(choice, str) and choice.strip() for choice in self.choices):
            raise UserError("choices holds an empty option; every option needs text")

    @classmethod
    def of(cls, question: str, kind: str = "math", choices: Sequence[str] | None = None) -> "Task":
        """Build a task from loose arguments, as programs and files give them."""
        if isinstance(choices, str):
            raise UserError("choices is a text; give a list of 2 to 10 options")
        return cls(question, kind, tuple(choices) if choices is not None else None)

    @property
    def text(self) -> str:
        """The question as the engine reads it, with lettered options where there are any."""
        if self.choices is None:
            return self.question.strip()
        options = "\n".join(f"{letter}) {choice}" for letter, choice in zip(LETTERS, self.choices, strict=False))
        return f"{self.question.strip()}\n\n{options}"
