"""The counter that holds an optimizer to its plan."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import RLock
from typing import Any

from coda_dspy.errors import CodaError
from coda_dspy.evaluation import Result

from .interface import Planned

LESSON_TOKENS = 8192  # what one proposal of a teacher may take, prompt and reply together


class Ended(BaseException):
    """Ends an optimizer from within a question. No `Exception`, for DSPy's optimizers go on after those."""


@dataclass
class Spent:
    """What was asked so far."""

    questions: int = 0
    calls: int = 0
    tokens: int = 0
    lessons: int = 0


class Allowance:
    """What may be asked, and what has been; shared by all copies of a program, and by all threads.

    Nothing starts that could exceed the plan if it took as much as the largest of its kind so far.

    Args:
        planned: The most of everything.
        lessons: The most calls to the teacher.
        calls_each: The most calls of one question.
        tokens_each: Tokens of one question, as measured before.
        keep_going: Asked before each question.
        on_question: Told of every question.
    """

    def __init__(
        self,
        planned: Planned,
        lessons: int,
        calls_each: int | None,
        tokens_each: float | None,
        keep_going: Callable[[], bool],
        on_question: Callable[[Result], None],
    ) -> None:
        self.spent = Spent()
        self.error: CodaError | None = None
        self._planned, self._lessons, self._calls_each = planned, lessons, calls_each or 0
        self._largest, self._largest_lesson = int(tokens_each or 0), LESSON_TOKENS
        self._keep_going, self._on_question = keep_going, on_question
        self._running = 0
        self._over = self._closed = False
        self._lock = RLock()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Allowance":
        return self

    def fits(self, questions: int, lessons: int = 0) -> bool:
        """Whether so much more can be asked, beside what is being asked now."""
        with self._lock:
            if self._over or not self._keep_going():
                return False
            more, planned, spent = questions + self._running, self._planned, self.spent
            calls = spent.calls + more * self._calls_each + lessons
            tokens = spent.tokens + more * self._largest + lessons * self._largest_lesson
            return (
                spent.questions + questions <= planned.questions
                and spent.lessons + lessons <= self._lessons
                and (planned.calls is None or calls <= planned.calls)
                and (planned.tokens is None or tokens <= planned.tokens)
            )

    def begin(self) -> None:
        """A question is about to be asked.

        Raises:
            Ended: It does not fit; from then on nothing does.
        """
        with self._lock:
            self._end_unless(self.fits(1))
            self._running += 1
            self.spent.questions += 1

    def done(self, result: Result | None) -> None:
        """A question is over; `None` for one that broke off."""
        with self._lock:
            self._running -= 1
            if result is None:
                return
            self.spent.calls += result.calls
            self.spent.tokens += result.known_tokens
            self._largest = max(self._largest, result.known_tokens)
            self._calls_each = max(self._calls_each, result.calls)  # calls that failed and were made again count
            if not self._closed:
                self._on_question(result)

    def teach(self) -> None:
        """The teacher is about to be called.

        Raises:
            Ended: The call does not fit.
        """
        with self._lock:
            self._end_unless(self.fits(0, 1))
            self.spent.lessons += 1
            self.spent.calls += 1

    def taught(self, tokens: int | None) -> None:
        """The teacher has replied."""
        with self._lock:
            self.spent.tokens += tokens or 0
            self._largest_lesson = max(self._largest_lesson, tokens or 0)

    def fail(self, error: CodaError) -> Ended:
        """The run cannot go on: what to raise, so that DSPy does not take it for the failure of one question."""
        with self._lock:
            self.error, self._over = self.error or error, True
        return Ended()

    def close(self) -> None:
        """The optimizer has returned: threads that it left behind ask nothing any more and tell nobody."""
        with self._lock:
            self._over = self._closed = True

    def _end_unless(self, fits: bool) -> None:
        if not fits:
            self._over = True
            raise Ended
