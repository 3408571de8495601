"""What one question came to, and what its answer depends on."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import dspy

from coda_dspy.engines.connect import is_secret
from coda_dspy.ledger import Ledger
from coda_dspy.task import Task


class Gradable(Protocol):
    """A question to answer; an empty `answer` is one that nobody knows.

    Two more are optional: `private` (its text must not be kept), and for steps of a larger problem `previous` (the id
    of the step before) with `after(programs)` (the question once the earlier steps have been answered).
    """

    @property
    def id(self) -> str: ...
    @property
    def answer(self) -> str: ...
    @property
    def task(self) -> Task: ...
    def grade(self, answer: str | None) -> bool | None: ...


@dataclass(frozen=True)
class Result:
    """What one question came to.

    Args:
        id: The question's id.
        answer: The program's answer; `None` without one.
        gold: The right answer; `None` where nobody knows it.
        correct: Whether both mean the same; `None` without a right answer.
        solution: The text that gave the answer.
        path: `direct`, `code` or `coda`; `None` without an answer.
        tokens: Tokens in and out, calls answered by the cache included; `None` where unknown.
        known_tokens: The same of those calls whose usage is known: a lower bound.
        billed_tokens: The same without calls answered by the cache.
        calls: Number of calls to the engine.
        billed_calls: The same without calls answered by the cache.
        seconds: Wall time of the question, in the company of those that ran beside it.
        stages: Calls, tokens and failures by stage.
        votes: Votes by answer.
        failures: Why steps gave nothing.
        error: Why the question failed as a whole; it counts as wrong.
        session: Which process answered it (see `new_session`).
        asked: Fingerprint of the question, the engine and the program (see `fingerprint`).
        grading: What its verdict depends on (see `grading_key`).
        sample: Which sample of the question it is, from 0.
        recalled: Whether any candidate is right; `None` where candidates were not graded.
        hit_rate: Share of the candidates that are right; `None` where they were not graded.
    """

    id: str
    answer: str | None = None
    gold: str | None = None
    correct: bool | None = None
    solution: str = ""
    path: str | None = None
    tokens: int | None = None
    known_tokens: int = 0
    billed_tokens: int | None = None
    calls: int = 0
    billed_calls: int = 0
    seconds: float = 0.0
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    votes: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    error: str | None = None
    session: str = ""
    asked: str = ""
    grading: str = ""
    sample: int = 0
    recalled: bool | None = None
    hit_rate: float | None = None

    @property
    def replied(self) -> bool:
        """Whether the engine replied at all."""
        return any(row["calls"] > row["failed"] for row in self.stages.values())

    @property
    def truncated(self) -> bool:
        """Whether there is no answer, and a reply was cut off."""
        return self._without_answer and any(row["cut"] for row in self.stages.values())

    @property
    def unparsed(self) -> bool:
        """Whether there is no answer though the engine said something, whole."""
        return self._without_answer and self.replied and not self.truncated

    @property
    def _without_answer(self) -> bool:
        return self.answer is None and self.error is None


def bill_of(ledger: Ledger) -> dict[str, Any]:
    """What a question cost, as fields of its `Result`."""
    return {
        "tokens": ledger.tokens(),
        "known_tokens": ledger.known_tokens(),
        "billed_tokens": ledger.tokens(billed=True),
        "calls": ledger.calls(),
        "billed_calls": ledger.calls(billed=True),
        "stages": ledger.by_stage(),
    }


def is_private(question: Gradable) -> bool:
    """Whether the question's text must not be kept."""
    return bool(getattr(question, "private", False))


def told(question: Gradable, failures: Sequence[str]) -> list[str]:
    """Why steps failed; of private questions the stages alone, for an engine's message may quote what it was sent."""
    return [failure.partition(":")[0] for failure in failures] if is_private(question) else list(failures)


def grading_key(question: Gradable) -> str:
    """What a verdict depends on beside the answer: the right answer, and the tests of a program."""
    content = repr([question.answer, getattr(question, "public_tests", ()), getattr(question, "tests", ())])
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def fingerprint(question: Gradable, program: dspy.Module) -> str:
    """What an answer depends on: the question, the program's prompts and budget, the engine and its settings."""
    lm = getattr(program, "lm", None) or dspy.settings.lm
    engine = [str(getattr(lm, "model", None)), settings_of(lm)]
    adapter = getattr(program, "adapter", None)
    content = [question.task.arguments(), type(program).__name__, adapter, program.dump_state(), engine]
    return hashlib.blake2b(json.dumps(content, default=str).encode(), digest_size=8).hexdigest()


def settings_of(lm: Any) -> dict[str, Any]:
    """An engine's decoding settings, without keys and addresses."""
    kwargs = getattr(lm, "kwargs", {})
    return {name: value for name, value in kwargs.items() if value is not None and not is_secret(name)}
