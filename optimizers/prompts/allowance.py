"""The counter that holds an optimizer to its plan."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, RLock
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
    lessons: int = 0
    calls: int = 0
    tokens: int = 0


class Allowance:
    """What may be asked, and what has been; shared by all copies of a program, and by all threads.

    A call starts only if the plan still holds when it, and every other one that is under way, takes the most that it
    can. It waits for the others where that would leave room for it.

    Args:
        planned: The most of everything.
        lessons: The most calls to the teacher.
        keep_going: Asked before each question.
        on_question: Told of every question.
    """

    def __init__(
        self, planned: Planned, lessons: int, keep_going: Callable[[], bool], on_question: Callable[[Result], None]
    ) -> None:
        self.spent = Spent()
        self.error: CodaError | None = None
        self._planned, self._lessons = planned, lessons
        self._keep_going, self._on_question = keep_going, on_question
        self._under_way = self._reserved_calls = self._reserved_tokens = 0
        self._over = self._closed = False
        self._lock = RLock()
        self._changed = Condition(self._lock)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Allowance":
        return self

    def fits(self, questions: int, lessons: int = 0) -> bool:
        """Whether so many more questions and lessons can be begun."""
        with self._lock:
            return (
                not self._over
                and self._keep_going()
                and self.spent.questions + questions <= self._planned.questions
                and self.spent.lessons + lessons <= self._lessons
            )

    def begin(self, questions: int = 0, lessons: int = 0) -> None:
        """A question is about to be asked, or a teacher.

        Raises:
            Ended: It does not fit; from then on nothing does.
        """
        with self._lock:
            if not self.fits(questions, lessons):
                raise self._ended()
            self.spent.questions += questions
            self.spent.lessons += lessons

    def reserve(self, calls: int, tokens: int) -> None:
        """A call is about to be made that takes at most so much.

        Raises:
            Ended: It does not fit, and no other call is under way.
        """
        with self._lock:
            while not self._over and not self._has_room(calls, tokens) and self._under_way:
                self._changed.wait()
            if self._over or not self._has_room(calls, tokens):
                raise self._ended()
            self._under_way += 1
            self._reserved_calls += calls
            self._reserved_tokens += tokens

    def release(self, calls: int, tokens: int) -> None:
        """A call for which so much was reserved is over; what it took has been booked."""
        with self._lock:
            self._under_way -= 1
            self._reserved_calls -= calls
            self._reserved_tokens -= tokens
            self._changed.notify_all()

    def book(self, calls: int, tokens: int) -> None:
        """So much has been taken."""
        with self._lock:
            self.spent.calls += calls
            self.spent.tokens += tokens

    def tell(self, result: Result) -> None:
        """A question has been answered."""
        with self._lock:
            if not self._closed:
                self._on_question(result)

    def fail(self, error: CodaError) -> Ended:
        """The run cannot go on: what to raise, so that DSPy does not take it for the failure of one question."""
        with self._lock:
            self.error = self.error or error
            return self._ended()

    def close(self) -> None:
        """The optimizer has returned: threads that it left behind ask nothing any more and tell nobody."""
        with self._lock:
            self._closed = True
            self._ended()

    def _has_room(self, calls: int, tokens: int) -> bool:
        calls += self.spent.calls + self._reserved_calls
        tokens += self.spent.tokens + self._reserved_tokens
        planned = self._planned
        return (planned.calls is None or calls <= planned.calls) and (
            planned.tokens is None or tokens <= planned.tokens
        )

    def _ended(self) -> Ended:
        self._over = True
        self._changed.notify_all()
        return Ended()
