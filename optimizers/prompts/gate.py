"""Where every call of an optimizer passes: none starts that could exceed the plan."""

from typing import Any

import dspy
from dspy.utils.callback import BaseCallback

from coda_dspy.calling import CallMeter

from .allowance import Allowance

_TEMPLATE_TOKENS = 64  # what a chat template adds to a message, at most


class Gate(BaseCallback):
    """Holds the calls of a program to the plan.

    Args:
        allowance: What may still be asked.
    """

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._open: dict[str, tuple[int, int, int]] = {}  # what was reserved, and the entries of the step before

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        calls, tokens = most_tries(instance), most_tokens(instance, inputs)
        self._allowance.reserve(calls, tokens)
        self._open[call_id] = calls, tokens, len(dspy.settings.get("coda_call").entries)

    def on_lm_end(self, call_id: str, outputs: Any, exception: Exception | None = None) -> None:
        if call_id not in self._open:  # it did not fit
            return
        calls, tokens, before = self._open.pop(call_id)
        meter: CallMeter = dspy.settings.get("coda_call")
        entries = meter.entries[before:]
        if entries:
            self._allowance.book(len(entries), sum(entry.tokens or 0 for entry in entries))
        else:  # a reply from the cache
            self._allowance.book(1, meter.reply_tokens() or 0)
        self._allowance.release(calls, tokens)


def most_tries(lm: Any) -> int:
    """How often one call reaches the engine at most: failures in passing, and settings that it turns out to refuse."""
    return 1 + int(lm.num_retries) + int(getattr(getattr(lm, "engine", None), "refusable", 0))


def most_tokens(lm: Any, inputs: dict[str, Any]) -> int:
    """What a call takes at most, prompt and reply: no token is less than a byte."""
    messages = inputs.get("messages") or ()
    given = len(f"{inputs.get('prompt')}{messages}".encode("utf-8", "replace"))
    settings = lm.kwargs | (inputs.get("kwargs") or {})
    reply = settings.get("max_tokens") or settings.get("max_completion_tokens") or 0
    return given + _TEMPLATE_TOKENS * (1 + len(messages)) + int(reply)
