"""One question of a data set, with its answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import coda_dspy.answers as answers
from coda_dspy.errors import UserError
from coda_dspy.programs import passes
from coda_dspy.programs.cases import Case
from coda_dspy.task import Task

_SLOT = re.compile(r"^# <program of (\S+)>$", re.MULTILINE)


@dataclass(frozen=True)
class Question:
    """One question of a data set.

    Args:
        id: Its name within the set.
        question: The problem, in words.
        answer: The right answer as text: a number, the letter of a choice, or words. Empty where it is not known.
        kind: `math`, `choice`, `text` or `code`, as in `coda_dspy.task.Task`.
        choices: For `choice` only: 2 to 10 options, without letters.
        meta: Whatever else the file says of the question, such as its level and topic.
        public_tests: For `code` only: tests that the conductor may run.
        tests: For `code` only: hidden tests, which only score.
        entry_point: For `code` only: the function that is asked for; `None` for a program on standard input.
        private: Whether its text has to stay out of logs and results, because its authors ask for that.
        integer: For `math` only: whether only the whole number itself is right (AIME), not an expression of its value.
        previous: For a step of a larger problem: the id of the step that is answered before it (see `after`).
    """

    id: str
    question: str
    answer: str
    kind: str = "math"
    choices: tuple[str, ...] | None = None
    meta: dict[str, Any] = field(default_factory=dict, hash=False)
    public_tests: tuple[Case, ...] = ()
    tests: tuple[Case, ...] = ()
    entry_point: str | None = None
    private: bool = False
    integer: bool = False
    previous: str | None = None

    @property
    def task(self) -> Task:
        """What the conductor is given: everything but the answer.

        Raises:
            UserError: The parts do not fit together (see `Task`); never for questions that `load` returned.
        """
        return Task.of(self.question, self.kind, self.choices, self.public_tests, self.entry_point)

    def grade(self, answer: str | None) -> bool | None:
        """Whether an answer is right: a program by all tests, public and hidden; `None` where nobody knows."""
        if self.kind == "code":
            cases = [*self.public_tests, *self.tests]
            if not cases:
                return None  # no tests, no verdict
            return answer is not None and passes(answer, cases, self.entry_point)
        if self.integer and not _is_integer(answer):
            return False
        return answers.correct(self.task, answer, self.answer) if self.answer else None

    def after(self, programs: Sequence[str]) -> "Question":
        """This step of a problem, behind the programs that answered its earlier steps.

        Args:
            programs: One for each earlier step that was asked, the first step's first; "" where there was none.

        Returns:
            The question with these programs in its statement, and before the program when it is tested.

        Raises:
            UserError: There are more or fewer programs than earlier steps.
        """
        steps = list(dict.fromkeys(_SLOT.findall(self.question)))
        if not steps:  # it follows another one, but does not build on its answer
            return self
        if len(steps) != len(programs):
            raise UserError(
                f"{self.id} comes after {len(steps)} steps; give {len(steps)} programs, not {len(programs)}"
            )
        given = dict(zip(steps, programs, strict=True))

        def filled(text: str) -> str:
            return _SLOT.sub(lambda slot: given.get(slot[1], slot[0]), text)

        public, hidden = (
            tuple(replace(case, before=filled(case.before)) for case in cases)
            for cases in (self.public_tests, self.tests)
        )
        return replace(self, question=filled(self.question), public_tests=public, tests=hidden)


def _is_integer(answer: str | None) -> bool:
    """Whether an answer is written as a whole number; leading zeros and thousands separators do not matter."""
    return answer is not None and re.fullmatch(r"[+-]?\d+", answer.strip().replace(",", "")) is not None


def slot_of(id: str) -> str:
    """The line that stands in the place of a step's program until `Question.after` puts it there."""
    return f"# <program of {id}>"
