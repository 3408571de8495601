"""The model that proposes instructions: counted, on samples of its own, and never without a limit."""

from typing import Any

import dspy
from dspy.utils.callback import BaseCallback

from coda_dspy.calling import CallMeter
from coda_dspy.engines import engine_name, redact
from coda_dspy.ledger import Entry, Ledger
from coda_dspy.sampling import Sample

from .allowance import Allowance
from .gate import most_tokens, most_tries
from .interface import OptimizerFailed

_MOST_REPLY = 4096  # tokens, where the teacher has no limit of its own
_TEMPERATURE = 1.0  # where it has none of its own: a second proposal should not be the first one again


def counted(teacher: dspy.LM, allowance: Allowance) -> dspy.LM:
    """A copy of the teacher whose calls are counted; the original stays as it is."""
    changes: dict[str, Any] = {"callbacks": [*teacher.callbacks, _Counter(allowance)]}
    if teacher.kwargs.get("temperature") is None:
        changes["temperature"] = _TEMPERATURE
    if not (teacher.kwargs.get("max_tokens") or teacher.kwargs.get("max_completion_tokens")):
        changes["max_tokens"] = _MOST_REPLY
    return teacher.copy(**changes)


def self_taught(engine: dspy.LM, teacher: dspy.LM | None) -> str | None:
    """The warning that an engine reflects on itself; `None` where another model does."""
    if teacher is not None and teacher.model != engine.model:
        return None
    name = engine_name(engine)
    return f"{name} proposes its own instructions, which small models do badly; give a larger one with --teacher"


def most_reply(teacher: dspy.LM) -> int:
    """Tokens of a teacher's reply, at most."""
    return int(teacher.kwargs.get("max_tokens") or teacher.kwargs.get("max_completion_tokens") or _MOST_REPLY)


class LessonMeter(CallMeter):
    """The books of calls from outside the program: the teacher's tokens go into the allowance."""

    def __init__(self, allowance: Allowance) -> None:
        super().__init__("teacher", Sample("teacher"), Ledger())
        self._allowance = allowance

    def add(self, entry: Entry) -> None:
        self._allowance.book(1, entry.tokens or 0)


class _Counter(BaseCallback):
    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._open: dict[str, tuple[int, int]] = {}

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        most = most_tries(instance), most_tokens(instance, inputs)
        self._allowance.begin(lessons=1)
        self._allowance.reserve(*most)
        self._open[call_id] = most

    def on_lm_end(self, call_id: str, outputs: Any, exception: Exception | None = None) -> None:
        """Optimizers go on without a teacher that fails, and nobody would know."""
        if call_id in self._open:
            self._allowance.release(*self._open.pop(call_id))
        if isinstance(exception, Exception):
            reason = redact(str(exception)).strip() or type(exception).__name__
            raise self._allowance.fail(OptimizerFailed(f"the teacher gave no reply: {reason.splitlines()[0]}"))
