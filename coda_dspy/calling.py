"""The one way in which roles call the engine: sampled by place, metered, capped, checked for cuts.

`open_question` starts the books of a question; `ask` is one call of one role under them. Both hang on `dspy.context`,
which the threads of a fan-out copy.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import dspy
from dspy.utils.exceptions import (
    AdapterParseError,
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMError,
    LMNotConfiguredError,
    LMServerError,
    LMTransportError,
    LMUnsupportedModelError,
)

from coda_dspy.adapter import adapter_named
from coda_dspy.answers import strip_thinking
from coda_dspy.budget import Budget
from coda_dspy.engines.secrets import redact
from coda_dspy.errors import CallFailed, EmptyReply, EngineError, EngineFailed, OutOfTokens, Truncated, UserError
from coda_dspy.ledger import Entry, Ledger
from coda_dspy.sampling import Sample, rollout_id
from coda_dspy.task import Task

T = TypeVar("T")

# Retrying these would fail the same way for every question: the run has to stop and say so.
FATAL = (LMAuthError, LMBillingError, LMConfigurationError, LMNotConfiguredError, LMUnsupportedModelError)

# At temperature 0 the samples are the same on purpose; the id still keeps the calls of two runs apart.
warnings.filterwarnings("ignore", message="rollout_id has no effect when temperature=0")


@dataclass
class Question:
    """What all calls of one question share.

    Args:
        task: The question and its kind.
        budget: How much compute it may take.
        ledger: Its bill so far.
        failures: Why steps gave nothing, in the order in which they failed.
        transcript: What every role said, in the order in which the steps ended.
    """

    task: Task
    budget: Budget
    ledger: Ledger = field(default_factory=Ledger)
    failures: list[CallFailed] = field(default_factory=list)
    transcript: list["Step"] = field(default_factory=list)


@dataclass(frozen=True)
class Step:
    """One step of a role: who spoke, at which place of the search, and what was said, or why nothing was."""

    stage: str
    sample: Sample
    text: str
    failure: str | None = None


@dataclass(frozen=True)
class Reply:
    """One usable reply.

    Args:
        text: What the role said, without its thinking.
        thinking: What it thought before; kept for the reader, never voted on and never shown to another role.
        tokens: Tokens in and out that the step took, failed tries included; `None` where unknown.
        trace: DSPy trace entries of the step, for optimizers.
    """

    text: str
    thinking: str = ""
    tokens: int | None = None
    trace: tuple[Any, ...] = ()

    def after(self, earlier: "Reply") -> "Reply":
        """This reply with the tokens and the trace of the step that led to it added to its own."""
        known = earlier.tokens is not None and self.tokens is not None
        tokens = (earlier.tokens or 0) + (self.tokens or 0) if known else None
        return replace(self, tokens=tokens, trace=earlier.trace + self.trace)


@dataclass
class CallMeter:
    """The books of one step while it runs; a metered engine writes an entry for every real try."""

    stage: str
    sample: Sample
    ledger: Ledger
    metered: bool = False
    entries: list[Entry] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.ledger.add(entry)


class _Recorder:
    """Takes the history entry of exactly one call; predictors are shared by threads, their histories are not safe."""

    def __init__(self) -> None:
        self.history: list[dict[str, Any]] = []


@contextmanager
def open_question(task: Task, budget: Budget, adapter: str | None) -> Iterator[Question]:
    """Start the books of one question. `adapter=None` keeps the adapter of `dspy.settings`."""
    question = Question(task, budget)
    overrides: dict[str, Any] = {"coda_question": question}
    if adapter is not None:
        overrides["adapter"] = adapter_named(adapter)
    with dspy.context(**overrides):
        yield question


def current_question() -> Question:
    """The question that is being answered in this context."""
    question: Question | None = dspy.settings.get("coda_question")
    if question is None:
        raise UserError("roles answer within a program; call coda_dspy.Coda or coda_dspy.AdaptiveCoda instead")
    return question


def tried(step: Callable[[], T]) -> T | None:
    """The result of a step, or `None` where it failed; the failure goes into the question's books."""
    try:
        return step()
    except CallFailed as failure:
        current_question().failures.append(failure)
        return None


def ask(predict: dspy.Predict, stage: str, sample: Sample, **inputs: Any) -> Reply:
    """One step of a role: one call, or a few where a cut or failed reply lets the reasoning effort step down.

    Raises:
        CallFailed: No usable reply: `Truncated`, `EmptyReply`, `OutOfTokens`, or `EngineFailed`.
        EngineError: The engine cannot be used at all (refused key, unknown model, wrong settings).
    """
    question = current_question()
    meter = CallMeter(stage, sample, question.ledger)
    failure: CallFailed | None = None
    for effort in question.budget.efforts():
        try:
            text, thinking, trace = _call_once(predict, question, meter, effort, inputs)
            question.transcript.append(Step(stage, sample, text))
            return Reply(text, thinking, Ledger(meter.entries).tokens(), trace)
        except (Truncated, EmptyReply) as error:
            failure = error
        except EngineFailed as error:
            if not error.transient:
                raise
            failure = error
    assert failure is not None  # efforts() is never empty
    question.transcript.append(Step(stage, sample, "", failure.reason))
    raise failure


def _call_once(
    predict: dspy.Predict,
    question: Question,
    meter: CallMeter,
    effort: str | None,
    inputs: dict[str, Any],
) -> tuple[str, str, tuple[Any, ...]]:
    _check_cap(meter.stage, question)
    lm = predict.lm or dspy.settings.lm
    if lm is None:
        raise UserError(
            "no engine is set; use coda_dspy.connect(...) with dspy.configure(lm=...) or dspy.context(lm=...)"
        )
    engine = getattr(lm, "engine", None)
    meter.metered = bool(getattr(engine, "metered", False))
    config = _config(lm, question.budget, meter, effort)
    if getattr(engine, "takes_seed", False):
        config["seed"] = config["rollout_id"] % 2**31
    recorder, trace = _Recorder(), []  # type: ignore[var-annotated]
    callers = [*(dspy.settings.caller_modules or []), recorder]
    before, started = len(meter.entries), time.monotonic()
    try:
        with dspy.context(caller_modules=callers, coda_call=meter, trace=trace):
            prediction = predict(**inputs, config=config)
    except AdapterParseError as error:
        _settle(meter, before, recorder, started)
        raise _unreadable(meter, recorder, config) from error
    except LMError as error:
        _record_failure(meter, before, error, started)
        raise _translated(meter.stage, error) from error
    _settle(meter, before, recorder, started)
    _check_complete(meter, recorder, config)
    output = next(iter(predict.signature.output_fields))
    return str(prediction[output]), _thinking(recorder), tuple(trace)


def _config(lm: Any, budget: Budget, meter: CallMeter, effort: str | None) -> dict[str, Any]:
    config: dict[str, Any] = {
        "rollout_id": rollout_id(lm.kwargs.get("rollout_id") or 0, meter.sample),
        "temperature": budget.temperature[meter.stage],
        "max_tokens": budget.max_tokens[meter.stage],
    }
    if effort is not None:
        config["reasoning_effort"] = effort
    return config


def _check_cap(stage: str, question: Question) -> None:
    cap = question.budget.max_total_tokens
    used = question.ledger.known_tokens()
    if cap is not None and used >= cap:
        raise OutOfTokens(stage, used, cap)


def _settle(meter: CallMeter, before: int, recorder: _Recorder, started: float) -> None:
    """Write the entry of a reply that no metered engine has seen: a cache hit, or an LM that is not ours."""
    if any(entry.error is None for entry in meter.entries[before:]) or not recorder.history:
        return
    history = recorder.history[-1]
    tokens_in, tokens_out, prefix = _usage(history["response"])
    cached = meter.metered or (not history["usage"] and tokens_out is not None)
    seconds = time.monotonic() - started
    meter.add(Entry(meter.stage, tokens_in, tokens_out, cached, _finish(history), seconds, tokens_prefix=prefix))


def _record_failure(meter: CallMeter, before: int, error: LMError, started: float) -> None:
    if len(meter.entries) == before:
        seconds = time.monotonic() - started
        meter.add(Entry(meter.stage, None, None, False, None, seconds, redact(str(error))))


def _usage(response: Any) -> tuple[int | None, int | None, int | None]:
    """Tokens in, out, and from the engine's prefix cache, of a native or a LiteLLM response."""
    usage: Any = getattr(response, "usage", None)
    if hasattr(usage, "input_tokens"):
        return usage.input_tokens, usage.output_tokens, usage.cache_read_tokens
    get = usage.get if isinstance(usage, dict) else lambda key: getattr(usage, key, None)
    return get("prompt_tokens"), get("completion_tokens"), None


def _finish(history: dict[str, Any]) -> str | None:
    response = history["response"]
    finish = getattr(response, "finish_reason", None)
    if finish is None and getattr(response, "choices", None):
        finish = response.choices[0].finish_reason
    return None if finish is None else str(finish)


def _check_complete(meter: CallMeter, recorder: _Recorder, config: dict[str, Any]) -> None:
    if recorder.history and _finish(recorder.history[-1]) == "length":
        _, used, _ = _usage(recorder.history[-1]["response"])
        raise Truncated(meter.stage, used, config["max_tokens"])


def _unreadable(meter: CallMeter, recorder: _Recorder, config: dict[str, Any]) -> CallFailed:
    try:
        _check_complete(meter, recorder, config)
    except Truncated as error:
        return error
    return EmptyReply(meter.stage)


def _translated(stage: str, error: LMError) -> Exception:
    message = redact(str(error))
    if isinstance(error, FATAL):
        return EngineError(f"the engine refuses to work: {message}")
    transient = isinstance(error, LMServerError | LMTransportError)
    return EngineFailed(stage, message, transient)


def _thinking(recorder: _Recorder) -> str:
    if not recorder.history or not recorder.history[-1]["outputs"]:
        return ""
    output = recorder.history[-1]["outputs"][0]
    if isinstance(output, dict):
        return str(output.get("reasoning_content") or "")
    return strip_thinking(str(output))[1]
