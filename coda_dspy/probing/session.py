"""What the checks of one probe share: the engine, the questions, and what was found so far."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import NamedTuple

from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.evaluation import Gradable

from .calls import Asker, Call
from .plan import ProbePlan


class Found(NamedTuple):
    """What a unit of work came to: its calls, and the wall time of all together."""

    calls: Sequence[Call]
    seconds: float


@dataclass(frozen=True)
class Unit:
    """A piece of work that is saved as a whole.

    Args:
        key: Its name within the probe: `CHECK/…`.
        calls: The calls it makes at most.
        cap: The cap of a reply of these.
        work: Makes them.
    """

    key: str
    calls: int
    cap: int
    work: Callable[[], Sequence[Call]]

    @property
    def check(self) -> str:
        """What it measures."""
        return self.key.partition("/")[0]

    def __call__(self) -> Found:
        started = time.monotonic()
        calls = self.work()
        return Found(calls, round(time.monotonic() - started, 3))


@dataclass
class Session:
    """One probe while it runs.

    Args:
        asker: Asks the engine, under watch.
        program: Whose roles are asked, with their prompts.
        plan: How much is asked.
        questions: The questions, kind by kind.
        sandbox_problem: Why no program can run here; "" where one can.
        context_limit: The context limit that the engine says without being asked.
        found: What the units came to, by key.
    """

    asker: Asker
    program: AdaptiveCoda
    plan: ProbePlan
    questions: Mapping[str, Sequence[Gradable]]
    sandbox_problem: str = ""
    context_limit: int | None = None
    found: dict[str, Found] = field(default_factory=dict)

    @property
    def mixed(self) -> list[Gradable]:
        """All questions, the kinds taking turns: whatever there is time for is a mix of them."""
        return [question for question in chain(*zip_longest(*self.questions.values())) if question is not None]

    def cap(self, stage: str) -> int:
        """The cap of a reply of a stage."""
        return self.plan.budget.max_tokens[stage]

    @property
    def followed(self) -> list[Gradable]:
        """The questions that are followed through all roles and efforts."""
        return self.mixed[: self.plan.followed]

    def call(self, check: str, question: Gradable) -> Call | None:
        """The one call of a check on a question, if the engine replied."""
        found = self.found.get(f"{check}/{question.id}")
        return next((call for call in found.calls if call.failure is None), None) if found else None

    def paired(self, first: str, second: str, questions: Sequence[Gradable]) -> list[tuple[Gradable, Call, Call]]:
        """The questions to which the engine replied in both checks, with the two calls."""
        both = ((question, self.call(first, question), self.call(second, question)) for question in questions)
        return [(question, one, other) for question, one, other in both if one is not None and other is not None]

    def calls_of(self, check: str) -> list[Call]:
        """All calls of a check to which the engine replied."""
        # A copy, for it grows while units that are being worked on look into it.
        units = [found for key, found in list(self.found.items()) if key.partition("/")[0] == check]
        return [call for found in units for call in found.calls if call.failure is None]
