"""The named failures of the conductor.

Two families: `UserError` is something the person at the keyboard can mend (the CLI prints it and exits with 2);
`CallFailed` is one call to the engine that gave nothing usable (its attempt is lost, the question goes on).
"""

from typing import Any


class CodaError(Exception):
    """Base of every error that coda_dspy raises on purpose."""


class UserError(CodaError):
    """Bad input. The message says what is wrong and what to do; the CLI exits with 2."""


class EngineError(UserError):
    """The engine cannot be used at all: unknown name, unreachable server, refused key."""


class EngineSilent(EngineError):
    """The engine never answered one question: it is gone, or it cannot take that question.

    Its `ledger` is the bill of that question: calls were made all the same.
    """

    def __init__(self, message: str, ledger: Any) -> None:
        super().__init__(message)
        self.ledger = ledger


class CallFailed(CodaError):
    """One call to the engine gave nothing usable; its tokens are in the ledger all the same."""

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage = stage
        self.reason = reason


class Truncated(CallFailed):
    """The reply was cut off at its token limit. A cut reply is a failed attempt, never a vote."""

    def __init__(self, stage: str, used: int | None, cap: int | None) -> None:
        super().__init__(stage, f"cut off after {used if used is not None else 'unknown'} tokens (limit {cap})")
        self.used = used
        self.cap = cap


class EmptyReply(CallFailed):
    """The reply holds no text outside its thinking."""

    def __init__(self, stage: str) -> None:
        super().__init__(stage, "empty reply")


class OutOfTokens(CallFailed):
    """The question's `max_total_tokens` is spent; no further call is launched."""

    def __init__(self, stage: str, used: int, cap: int) -> None:
        super().__init__(stage, f"the question's budget is spent: {used} of {cap} tokens")
        self.used = used
        self.cap = cap


class EngineFailed(CallFailed):
    """The engine answered with an error, or not at all, also after its retries."""

    def __init__(self, stage: str, reason: str, transient: bool) -> None:
        super().__init__(stage, reason)
        self.transient = transient


class NoAnswer(CallFailed):
    """The reply is complete, but no final answer can be read in it."""

    def __init__(self, stage: str) -> None:
        super().__init__(stage, "no final answer in the reply")
