"""The one way in which roles call the engine: sampled by place, metered, capped, checked for cuts."""

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import dspy
from dspy.utils.exceptions import (
    AdapterParseError,
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMError,
    LMNotConfiguredError,
    LMUnsupportedModelError,
    is_retryable_lm_error,
)

from coda_dspy.answers import strip_thinking
from coda_dspy.engines.secrets import redact
from coda_dspy.errors import CallFailed, EmptyReply, EngineError, EngineFailed, OutOfTokens, Truncated, UserError
from coda_dspy.ledger import Entry, Ledger
from coda_dspy.question import Question, Step, current_question
from coda_dspy.sampling import Sample, rollout_id

# Retrying these would fail the same way for every question: the run has to stop and say so.
FATAL = (LMAuthError, LMBillingError, LMConfigurationError, LMNotConfiguredError, LMUnsupportedModelError)

# At temperature 0 the samples are the same on purpose; the id still keeps the calls of two runs apart.
warnings.filterwarnings("ignore", message="rollout_id has no effect when temperature=0")


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


class _Recorder:
    """Takes the history entry of exactly one call; predictors are shared by threads, their histories are not safe."""

    def __init__(self) -> None:
        self.history: list[dict[str, Any]] = []


@dataclass
class CallMeter:
    """The books of one step while it runs; a metered engine writes an entry for every real try."""

    stage: str
    sample: Sample
    ledger: Ledger
    entries: list[Entry] = field(default_factory=list)
    recorder: _Recorder = field(default_factory=_Recorder)

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.ledger.add(entry)

    def reply_tokens(self) -> int | None:
        """Tokens in and out of the last reply, also of one that no entry tells of yet; `None` where unknown."""
        if not self.recorder.history:
            return None
        tokens_in, tokens_out, _ = _usage(self.recorder.history[-1]["response"])
        return tokens_in + tokens_out if tokens_in is not None and tokens_out is not None else None


def ask(
    predict: dspy.Predict, stage: str, sample: Sample, inputs: Mapping[str, str], tries: int = 1, begun: str = ""
) -> Reply:
    """One step of a role.

    A reply that is cut off or empty is thrown away. The reasoning effort then steps down where the engine takes one,
    and after that the step is tried again, on a fresh sample.

    Args:
        predict: The role's predictor.
        stage: Whose budget and whose entry in the ledger it is.
        sample: The place of the step in the search.
        inputs: The values of the signature's input fields.
        tries: How often to try, each time from the highest effort down.
        begun: How the reply begins, for an engine that continues a begun reply.

    Raises:
        CallFailed: No usable reply: `Truncated`, `EmptyReply`, `OutOfTokens`, or `EngineFailed`.
        EngineError: The engine cannot be used at all (refused key, unknown model, wrong settings).
    """
    question = current_question()
    meter = CallMeter(stage, sample, question.ledger)
    failure: CallFailed | None = None
    for retry, effort in product(range(tries), question.budget.efforts(stage)):
        if effort != question.budget.reasoning_effort[stage] and _takes_no_effort(predict):
            continue  # the same call again, as the engine sees it
        meter.sample = sample._replace(retry=retry)
        try:
            with dspy.context(coda_begun=begun if _continues_replies(predict) else ""):
                text, thinking, trace = _call_once(predict, question, meter, effort, inputs)
        except CallFailed as error:
            failure = error
            if isinstance(error, OutOfTokens) or (isinstance(error, EngineFailed) and not error.transient):
                break
        else:
            question.transcript.append(Step(stage, meter.sample, text))
            return Reply(text, thinking, Ledger(meter.entries).tokens(), trace)
    assert failure is not None  # there is at least one try and one effort
    question.transcript.append(Step(stage, meter.sample, "", failure.reason))
    raise failure


def _takes_no_effort(predict: dspy.Predict) -> bool:
    return "reasoning" in getattr(_engine_of(predict), "refused", ())


def _continues_replies(predict: dspy.Predict) -> bool:
    return bool(getattr(_engine_of(predict), "continues_replies", False))


def _engine_of(predict: dspy.Predict) -> Any:
    return getattr(predict.lm or dspy.settings.lm, "engine", None)


def _call_once(
    predict: dspy.Predict, question: Question, meter: CallMeter, effort: str | None, inputs: Mapping[str, str]
) -> tuple[str, str, tuple[Any, ...]]:
    """One call: the role's text, its thinking, and DSPy's trace of it."""
    _check_cap(meter.stage, question)
    lm = predict.lm or dspy.settings.lm
    if lm is None:
        raise UserError(
            "no engine is set; use coda_dspy.connect(...) with dspy.configure(lm=...) or dspy.context(lm=...)"
        )
    config = _config(lm, question, meter, effort)
    recorder = meter.recorder = _Recorder()
    trace: list[Any] = []
    callers = [*(dspy.settings.caller_modules or []), recorder]
    before, started = len(meter.entries), time.monotonic()
    try:
        with dspy.context(caller_modules=callers, coda_call=meter, trace=trace):
            prediction = predict(**inputs, config=config)
    except AdapterParseError as error:
        _book_reply(lm, meter, before, recorder, started)
        _check_complete(meter, recorder, config)
        raise EmptyReply(meter.stage) from error
    except LMError as error:
        _book_failure(meter, before, error, started)
        raise _translated(meter.stage, error) from error
    _book_reply(lm, meter, before, recorder, started)
    _check_complete(meter, recorder, config)
    output = next(iter(predict.signature.output_fields))
    return _encodable(prediction[output]), _encodable(_thinking(recorder)), tuple(trace)


def _config(lm: Any, question: Question, meter: CallMeter, effort: str | None) -> dict[str, Any]:
    config: dict[str, Any] = {
        "rollout_id": rollout_id(lm.kwargs.get("rollout_id") or 0, meter.sample),
        "temperature": question.budget.temperature[meter.stage],
        "max_tokens": question.budget.max_tokens[meter.stage],
    }
    if getattr(getattr(lm, "engine", None), "takes_seed", False):
        config["seed"] = config["rollout_id"] % 2**31
    if effort is not None:
        config["reasoning_effort"] = effort
    return config


def _check_cap(stage: str, question: Question) -> None:
    cap = question.budget.max_total_tokens
    if cap is None:
        return
    if any(entry.finish is not None and entry.tokens is None for entry in question.ledger.entries):
        raise UserError("max_total_tokens cannot be kept: the engine does not report usage; use none")
    used = question.ledger.known_tokens()
    if used >= cap:
        raise OutOfTokens(stage, used, cap)


def _book_reply(lm: Any, meter: CallMeter, before: int, recorder: _Recorder, started: float) -> None:
    """Write the entry of a reply that no metered engine has seen: a cache hit, or an LM that is not ours."""
    if any(entry.error is None for entry in meter.entries[before:]) or not recorder.history:
        return
    history = recorder.history[-1]
    tokens_in, tokens_out, prefix = _usage(history["response"])
    metered = getattr(getattr(lm, "engine", None), "metered", False)
    cached = bool(metered) or (not history["usage"] and tokens_out is not None)
    seconds = time.monotonic() - started
    meter.add(Entry(meter.stage, tokens_in, tokens_out, cached, _finish(history), seconds, tokens_prefix=prefix))


def _book_failure(meter: CallMeter, before: int, error: LMError, started: float) -> None:
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


def _translated(stage: str, error: LMError) -> Exception:
    message = (redact(str(error)).strip() or type(error).__name__).splitlines()[0]
    if isinstance(error, LMNotConfiguredError):
        return EngineError("the engine needs a key: set its provider's environment variable, or name one (api_key)")
    if isinstance(error, FATAL) or error.status == 404:
        return EngineError(f"the engine refuses to work: {message}")
    return EngineFailed(stage, message, transient=is_retryable_lm_error(error))


def _thinking(recorder: _Recorder) -> str:
    if not recorder.history or not recorder.history[-1]["outputs"]:
        return ""
    output = recorder.history[-1]["outputs"][0]
    if isinstance(output, dict):
        return str(output.get("reasoning_content") or "")
    return strip_thinking(str(output))[1]


def _encodable(text: object) -> str:
    """Lone surrogates, which no file and no later prompt can hold, become question marks."""
    return str(text).encode("utf-8", "replace").decode("utf-8")
