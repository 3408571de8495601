"""An engine for tests that answers by a script, inside this process: no server, no weights."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any
from uuid import uuid4

import dspy
from dspy.lm15 import LM15Error, Message, Request, Response, TextPart, ThinkingPart, Usage

from coda_dspy.sampling import Sample
from coda_dspy.testing.protocol import Reply


@dataclass(frozen=True)
class ScriptedCall:
    """One call as a script sees it.

    Args:
        index: How many calls the engine took before. Calls of a fan-out arrive in any order; `sample` does not change.
        stage: Who asks (`plan`, `execute`, …); `other` for calls from outside a program.
        sample: The call's place in the search.
        prompt: The text of the last user message.
        request: The whole request.
    """

    index: int
    stage: str
    sample: Sample
    prompt: str
    request: Request


Script = Callable[[ScriptedCall], "str | Reply | Response | LM15Error"]


class ScriptedEngine:
    """An engine that answers by a script.

    Example:
        >>> import coda_dspy
        >>> engine = ScriptedEngine(lambda call: "1. Add." if call.stage == "plan" else "Answer: 4")
        >>> coda = coda_dspy.Coda(lm=coda_dspy.connect(engine))
        >>> coda(question="What is 2 + 2?").answer
        '4'

    Args:
        script: From a call to a text, a `Reply` (with `finish_reason` and `reasoning`), a whole
            `dspy.lm15.Response`, or an error to raise, such as
            `dspy.lm15.ServerError("busy")`.
        label: The engine's name. Engines of the same name share DSPy's cache, so each has one of its own by default.
    """

    def __init__(self, script: Script, label: str | None = None) -> None:
        self.script = script
        self.label = label or f"scripted/{uuid4().hex[:12]}"
        self.calls: list[ScriptedCall] = []
        self._lock = Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> "ScriptedEngine":
        return self

    def complete(self, request: Request) -> Response:
        """Answer one request; tokens are counted in words."""
        call = self._note(request)
        reply = self.script(call)
        if isinstance(reply, LM15Error):
            raise reply
        if isinstance(reply, Response):
            return reply
        return _response(request, Reply(reply) if isinstance(reply, str) else reply)

    def _note(self, request: Request) -> ScriptedCall:
        meter = dspy.settings.get("coda_call")
        stage, sample = (meter.stage, meter.sample) if meter is not None else ("other", Sample("other"))
        with self._lock:
            call = ScriptedCall(len(self.calls), stage, sample, request.messages[-1].text or "", request)
            self.calls.append(call)
        return call

    def count(self, stage: str) -> int:
        """How many calls a stage made."""
        return sum(call.stage == stage for call in self.calls)


def _response(request: Request, reply: Reply) -> Response:
    text = reply.text or ""
    parts: list[Any] = [ThinkingPart(reply.reasoning)] if reply.reasoning else []
    asked = sum(len((message.text or "").split()) for message in request.messages)
    answered = len(text.split()) + len((reply.reasoning or "").split())
    return Response(
        id=None,
        model=request.model,
        message=Message.assistant([*parts, TextPart(text)]),
        finish_reason=reply.finish_reason,
        usage=Usage(input_tokens=asked, output_tokens=answered, total_tokens=asked + answered),
    )
