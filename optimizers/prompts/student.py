"""A program as DSPy's optimizers see it."""

from collections.abc import Sequence
from typing import Any

import dspy

from coda_dspy.evaluation import Gradable

from ..metrics import Grader, shortened, to_example
from .search import Search

_FAILURES_SHOWN = 3
_MOST_FAILURE = 200  # characters


class Student(dspy.Module):
    """A program of which an optimizer sees the roles that take part, and whose every question is counted.

    Args:
        search: The search; all copies of the student share it.
        roles: The predictors that may be changed; all of them by default.
    """

    def __init__(self, search: Search, roles: frozenset[str] | None = None) -> None:
        super().__init__()
        self.search = search
        self.program = search.program.deepcopy()
        self.roles = roles
        self.samples = False

    def named_parameters(self) -> list[tuple[str, Any]]:
        """The predictors of the roles, under their names within the program."""
        found = self.program.named_predictors()
        return [(name, predict) for name, predict in found if self.roles is None or name in self.roles]

    def set_lm(self, lm: dspy.LM) -> None:
        """How an optimizer asks for samples: stages that are greedy are then sampled at its temperature.

        On this copy alone, whose answers do not count when prompts are compared.
        """
        super().set_lm(lm)
        budget = self.program.budget
        sampled = {stage: given or lm.kwargs["temperature"] for stage, given in budget.temperature.items()}
        budget.load_state(budget.replace(temperature=sampled).dump_state())
        self.samples = True

    def forward(self, graded_by: Grader, **arguments: Any) -> dspy.Prediction:
        """Answer the question of an example of `as_examples`."""
        result = self.search.ask(self.program, graded_by.question, noted=not self.samples).result
        failures = [shortened(failure, _MOST_FAILURE) for failure in result.failures[:_FAILURES_SHOWN]]
        return dspy.Prediction(answer=result.answer, failures=failures)


def as_examples(questions: Sequence[Gradable]) -> list[dspy.Example]:
    """Questions as a student takes them: who grades them is an input."""
    return [to_example(question).with_inputs(*question.task.arguments(), "graded_by") for question in questions]
