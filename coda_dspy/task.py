"""A question, its kind, and the ways to an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from coda_dspy.errors import UserError
from coda_dspy.programs.cases import Case, cases_in

Kind = Literal["math", "choice", "text", "code"]
KINDS: tuple[str, ...] = get_args(Kind)
Path = Literal["direct", "code", "coda"]  # ways to an answer
PATHS: tuple[Path, ...] = get_args(Path)
LETTERS = "ABCDEFGHIJ"


@dataclass(frozen=True)
class Task:
    """One question as the conductor sees it.

    Args:
        question: The problem, in words.
        kind: How its answer looks and is compared: `math`, `choice` (one letter), `text` or `code` (a program).
        choices: For `choice` only: 2 to 10 options, without letters.
        tests: For `code` only: public tests, which the conductor may run. Without any, the examples in the question
            are used where they can be read.
        entry_point: For `code` only: the function, or method of `class Solution`, that is asked for; `None` for a
            program from standard input to standard output.
        examples: For `code` only: whether the examples in the question may be used.
        probes: For `code` only: further inputs, without outputs, on which programs are compared with each other.

    Raises:
        UserError: Unknown kind, empty question, or choices that do not fit the kind.
    """

    question: str
    kind: str = "math"
    choices: tuple[str, ...] | None = None
    tests: tuple[Case, ...] = ()
    entry_point: str | None = None
    examples: bool = True
    probes: tuple[Case, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UserError(f"kind is {self.kind!r}; choose one of: {', '.join(KINDS)}")
        if not isinstance(self.question, str) or not self.question.strip():
            raise UserError("question is empty; give the problem as text")
        if self.kind == "choice":
            self._check_choices()
        elif self.choices is not None:
            raise UserError(f"choices were given, but kind is {self.kind!r}; use kind='choice'")
        if self.kind != "code" and (self.tests or self.entry_point):
            raise UserError(f"tests or entry_point were given, but kind is {self.kind!r}; use kind='code'")
        if any(test.form == "functional" for test in self.tests) and self.entry_point is None:
            raise UserError("tests call a function, but entry_point is missing; name the function")
        if self.entry_point is not None and not self.entry_point.isidentifier():
            raise UserError(f"entry_point is {self.entry_point!r}; give the name of a function")

    def _check_choices(self) -> None:
        if not self.choices:
            raise UserError("kind='choice' needs choices: a list of 2 to 10 options")
        if not 2 <= len(self.choices) <= len(LETTERS):
            raise UserError(f"choices holds {len(self.choices)} options; allowed are 2 to {len(LETTERS)}")
        if not all(isinstance(choice, str) and choice.strip() for choice in self.choices):
            raise UserError("choices holds an empty option; every option needs text")

    @classmethod
    def of(
        cls,
        question: str,
        kind: str = "math",
        choices: Sequence[str] | None = None,
        tests: Sequence[Any] = (),
        entry_point: str | None = None,
    ) -> "Task":
        """Build a task from loose arguments, as programs and files give them; tests may be JSON objects."""
        if isinstance(choices, str):
            raise UserError("choices is a text; give a list of 2 to 10 options")
        cases = [t if isinstance(t, Case) else Case.of(t, f"test {n}") for n, t in enumerate(tests or (), start=1)]
        return cls(question, kind, tuple(choices) if choices is not None else None, tuple(cases), entry_point or None)

    def arguments(self) -> dict[str, Any]:
        """The task as arguments of a program; those of other kinds are left out."""
        arguments: dict[str, Any] = {"question": self.question, "kind": self.kind}
        if self.kind == "choice":
            arguments["choices"] = self.choices
        if self.kind == "code":
            arguments |= {"tests": self.tests, "entry_point": self.entry_point}
        return arguments

    @property
    def cases(self) -> tuple[Case, ...]:
        """What a program may be tried on: the public tests, or else the examples in the question."""
        return self.tests or (tuple(cases_in(self.question, self.entry_point)) if self.examples else ())

    @property
    def text(self) -> str:
        """The question as the engine reads it, with lettered options where there are any."""
        if self.choices is None:
            return self.question.strip()
        options = "\n".join(f"{letter}) {choice}" for letter, choice in zip(LETTERS, self.choices, strict=False))
        return f"{self.question.strip()}\n\n{options}"
