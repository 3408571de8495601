"""What all calls of one question share: its task, its budget, its bill, and what was said.

It hangs on `dspy.context`, which the threads of a fan-out copy.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import dspy

from coda_dspy.adapter import adapter_named
from coda_dspy.budget import Budget
from coda_dspy.errors import CallFailed, UserError
from coda_dspy.learned import Learned, Lessons
from coda_dspy.ledger import Ledger
from coda_dspy.sampling import Sample
from coda_dspy.task import Task

T = TypeVar("T")


@dataclass(frozen=True)
class Step:
    """One step of a role: who spoke, at which place of the search, and what was said, or why nothing was.

    What a failing program came to when it ran is a step of the role that wrote it.
    """

    stage: str
    sample: Sample
    text: str
    failure: str | None = None


@dataclass
class Question:
    """One question while it is being answered.

    Args:
        task: The question and its kind.
        budget: How much compute it may take.
        lessons: What was learned of the engine on questions of this kind.
        ledger: Its bill so far.
        failures: Why steps gave nothing, in the order in which they failed.
        transcript: What every role said, in the order in which the steps ended.
    """

    task: Task
    budget: Budget
    lessons: Lessons = field(default_factory=Lessons)
    ledger: Ledger = field(default_factory=Ledger)
    failures: list[CallFailed] = field(default_factory=list)
    transcript: list[Step] = field(default_factory=list)

    @property
    def first_path(self) -> str:
        """Which of steps 1 and 2 of Algorithm 2 comes first; the paper's order where nothing was learned."""
        named = self.budget.first_path
        return named if named != "learned" else self.lessons.first_path or "direct"


@contextmanager
def open_question(
    task: Task, budget: Budget, adapter: str | None, learned: Learned | None = None
) -> Iterator[Question]:
    """Start the books of one question. `adapter=None` keeps the adapter of `dspy.settings`."""
    question = Question(task, budget, (learned or Learned()).of(task.kind))
    overrides: dict[str, Any] = {"coda_question": question}
    if adapter is not None:
        overrides["adapter"] = adapter_named(adapter)
    with dspy.context(**overrides):
        yield question


def current_question() -> Question:
    """The question that is being answered in this context."""
    question: Question | None = dspy.settings.get("coda_question")
    if question is None:
        raise UserError("roles answer within a program; call coda_dspy.Coda or coda_dspy.AdaptiveCoda instead")
    return question


def tried(step: Callable[[], T]) -> T | None:
    """The result of a step, or `None` where it failed; the failure goes into the question's books."""
    try:
        return step()
    except CallFailed as failure:
        current_question().failures.append(failure)
        return None
