"""What every prompt optimizer is to its users: a plan that holds, and a compiled copy."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import dspy

from coda_dspy.errors import CodaError
from coda_dspy.evaluation import Gradable, Result
from coda_dspy.program import Conductor


class OptimizerFailed(CodaError):
    """An optimizer broke off on an error of its own. The program that it was given is as it was."""


class Planned(NamedTuple):
    """What an optimizer asks at most.

    Args:
        questions: Questions that the program answers, repeated ones counted each time.
        calls: Calls to the engine and to the teacher, those that the cache answers included; `None` where the program
            does not tell how many a question takes.
        tokens: Tokens in and out of both; `None` where nobody has measured what a question takes.
    """

    questions: int
    calls: int | None
    tokens: int | None

    def __str__(self) -> str:
        parts = [(self.questions, "questions"), (self.calls, "calls"), (self.tokens, "tokens")]
        return "at most " + ", ".join(f"{number:,} {name}" for number, name in parts if number is not None)


class PromptOptimizer(Protocol):
    """Finds better prompts for a program."""

    @property
    def name(self) -> str:
        """Its name on the command line and in records."""

    def plan(
        self,
        program: Conductor,
        train: Sequence[Gradable],
        validation: Sequence[Gradable],
        teacher: dspy.LM | None,
    ) -> Planned:
        """What `compile` will ask at most.

        Raises:
            UserError: The budget does not suffice for three proposals, or the optimizer has no use for a teacher.
        """

    def compile(
        self,
        program: Conductor,
        train: Sequence[Gradable],
        validation: Sequence[Gradable],
        *,
        teacher: dspy.LM | None = None,
        seed: int = 0,
        keep_going: Callable[[], bool] = lambda: True,
        on_question: Callable[[Result], None] = lambda result: None,
    ) -> Conductor:
        """A copy of a program with the best prompts that were found; the program stays as it is.

        Args:
            program: Any algorithm.
            train: Questions to learn from. Those whose text is private are left out.
            validation: Questions to choose on.
            teacher: The model that proposes instructions; by default the program's own engine.
            seed: Seed of every random choice.
            keep_going: Asked before each question. Once it says no, the search ends with the best so far.
            on_question: Told of every question as it ends; never by two threads at once.

        Raises:
            UserError: As for `plan`, or the engine cannot be used at all.
            OptimizerFailed: The optimizer itself broke off.
        """
