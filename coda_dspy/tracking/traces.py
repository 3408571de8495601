"""Record how a question was answered: a trace a question, a span a role, a span with its tokens a call.

The recorder is a DSPy callback of the question's own context, so questions side by side stay apart, one that is not
traced pays nothing, and the store is reached by the tracker's thread alone. (MLflow's `autolog` traces every question
of the process, puts no tokens on the spans of calls, and sends them itself, where nothing keeps what a store refuses.)
"""

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import dspy
from dspy.utils.callback import ACTIVE_CALL_ID, BaseCallback

from coda_dspy.calling import CallMeter
from coda_dspy.evaluation.result import Gradable, Result, is_private
from coda_dspy.ledger import Ledger

from .tracker import Run


@dataclass
class _Span:
    """One step while it runs. `meter` and `first` say which of the step's books are a call's own."""

    id: str
    parent: str | None
    name: str
    kind: str
    inputs: Any
    start: int = field(default_factory=time.time_ns)
    end: int | None = None
    outputs: Any = None
    error: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    meter: CallMeter | None = None
    first: int = 0

    def close(self, outputs: Any, exception: BaseException | None) -> None:
        self.end = time.time_ns()
        self.outputs = _plain(outputs)
        self.error = f"{type(exception).__name__}: {exception}" if exception is not None else None


class Traces:
    """Traces a share of the questions into a run.

    Args:
        run: Where the traces go.
        share: From 0 to 1. A question's name decides whether it is traced, so the same ones are whenever a run goes on.
    """

    def __init__(self, run: Run, share: float) -> None:
        self._run, self._share = run, share

    @contextmanager
    def question(self, question: Gradable, sample: int = 0) -> Iterator["Trace | None"]:
        """Trace what runs inside, on this thread and on those that a fan-out starts; `None` if it is not chosen.

        A question whose text must not be kept is never chosen.
        """
        if is_private(question) or not _chosen(f"{question.id} {sample}", self._share):
            yield None
            return
        trace = Trace(question, sample)
        callbacks = [*dspy.settings.get("callbacks", []), trace.recorder]
        try:
            with dspy.context(callbacks=callbacks):
                yield trace
        finally:
            self._run.trace(trace.content())


class Trace:
    """One question's trace; its `result` is set when it is known.

    Args:
        question: The question.
        sample: Which sample of it.
    """

    def __init__(self, question: Gradable, sample: int) -> None:
        self.result: Result | None = None
        self._question, self._sample = question, sample
        self._root = _Span(_new_id(), None, question.id, "AGENT", question.task.arguments())
        self.recorder = _Recorder(self._root)

    def content(self) -> dict[str, Any]:
        """The trace as plain values."""
        self._root.close({"answer": self.result.answer if self.result else None}, None)
        self._root.error = self.result.error if self.result else "broken off"
        self._root.attributes = {"sample": self._sample} | _verdict(self.result)
        spans = [self._root, *self.recorder.spans]
        _book(spans)
        return {
            "id": uuid4().hex,
            "question": self._question.id,
            "text": self._question.task.text,
            "answer": self.result.answer if self.result else None,
            "correct": self.result.correct if self.result else None,
            "spans": [_described(span, self._root.end or 0) for span in spans],
        }


class _Recorder(BaseCallback):
    """Makes spans of modules and of calls. What lies between them (predictors, adapters) is passed over."""

    def __init__(self, root: _Span) -> None:
        self.spans: list[_Span] = []
        self._root = root
        self._above: dict[str, str] = {}  # DSPy's id of a call: the id of the span that it lies in
        self._open: dict[str, _Span] = {}

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        if isinstance(instance, dspy.Predict):
            self._above[call_id] = self._parent()
            return
        self._begin(call_id, type(instance).__name__, "CHAIN", inputs)

    def on_module_end(self, call_id: str, outputs: Any, exception: Exception | None = None) -> None:
        self._finish(call_id, outputs, exception)

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        meter: CallMeter | None = dspy.settings.get("coda_call")
        span = self._begin(call_id, meter.stage if meter else "other", "CHAT_MODEL", _asked(inputs))
        span.attributes["model"] = str(instance.model)
        if meter is not None:
            span.attributes |= {"stage": meter.stage, **meter.sample._asdict()}
            span.meter, span.first = meter, len(meter.entries)

    def on_lm_end(self, call_id: str, outputs: Any, exception: Exception | None = None) -> None:
        self._finish(call_id, outputs, exception)

    def _begin(self, call_id: str, name: str, kind: str, inputs: Any) -> _Span:
        span = _Span(_new_id(), self._parent(), name, kind, _plain(inputs))
        self._above[call_id] = span.id
        self._open[call_id] = span
        self.spans.append(span)
        return span

    def _finish(self, call_id: str, outputs: Any, exception: Exception | None) -> None:
        span = self._open.pop(call_id, None)
        if span is not None:
            span.close(outputs, exception)

    def _parent(self) -> str:
        return self._above.get(ACTIVE_CALL_ID.get() or "", self._root.id)


def _book(spans: list[_Span]) -> None:
    """Tokens for every call, out of its step's books: what was entered before the step's next call began."""
    ends: dict[int, int | None] = {}
    for span in reversed(spans):
        if span.meter is None:
            continue
        entries = Ledger(span.meter.entries[span.first : ends.get(id(span.meter))]).entries
        ends[id(span.meter)] = span.first
        for name in ("tokens_in", "tokens_out"):
            counts = [getattr(entry, name) for entry in entries]
            span.attributes[name] = "unknown" if None in counts or not counts else sum(counts)
        span.attributes["tries"] = len(entries)
        span.attributes["cached"] = any(entry.cached for entry in entries)
        span.attributes["finish"] = entries[-1].finish if entries else None


def _described(span: _Span, end: int) -> dict[str, Any]:
    """A span as plain values; a call that was left behind when the question ended, ends with it."""
    return {
        "id": span.id,
        "parent": span.parent,
        "name": span.name,
        "kind": span.kind,
        "start": span.start,
        "end": span.end or end,
        "inputs": span.inputs,
        "outputs": span.outputs,
        "error": span.error,
        "attributes": span.attributes,
    }


def _verdict(result: Result | None) -> dict[str, Any]:
    if result is None:
        return {}
    names = ("gold", "correct", "path", "tokens", "billed_tokens", "calls", "votes", "failures")
    return {name: getattr(result, name) for name in names}


def _asked(inputs: Mapping[str, Any]) -> Any:
    """What the engine was told, as messages."""
    request = next((value for value in _values(inputs) if hasattr(value, "messages")), None)
    if request is None:
        return inputs
    return {"messages": [{"role": message.role, "content": message.text or ""} for message in request.messages]}


def _values(inputs: Mapping[str, Any]) -> Iterator[Any]:
    for value in inputs.values():
        yield from value if isinstance(value, tuple | list) else (value,)


def _plain(value: Any) -> Any:
    """What JSON can hold of a value, for people to read."""
    if isinstance(value, dspy.Prediction):
        return {name: _plain(inner) for name, inner in value.items() if name not in ("ledger", "transcript")}
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _chosen(name: str, share: float) -> bool:
    number = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
    return number < share * 2**64


def _new_id() -> str:
    return uuid4().hex[:16]
