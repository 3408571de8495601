"""Between DSPy's canonical request and reply and what llama.cpp's chat endpoint takes and says.

A trailing assistant message is continued: the reply is what comes after it, without it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dspy import lm15

PROVIDER = "local"

# What a request may carry in `Config.extensions`, under llama.cpp's own names and one that other servers use.
EXTENSIONS = frozenset(
    {
        "seed",
        "top_k",
        "min_p",
        "typical_p",
        "repeat_penalty",
        "repetition_penalty",
        "repeat_last_n",
        "presence_penalty",
        "frequency_penalty",
        "grammar",
        "chat_template_kwargs",
    }
)


def request_body(request: lm15.Request) -> dict[str, Any]:
    """The request as llama.cpp's chat endpoint takes it.

    What is not given keeps llama.cpp's own default (temperature 0.8, top_k 40, top_p 0.95, min_p 0.05).

    Raises:
        dspy.lm15.UnsupportedFeatureError: The request asks for something this engine has not.
    """
    config = request.config
    extensions = dict(config.extensions or {})
    _refuse_unsupported(request, extensions)
    if "repetition_penalty" in extensions:
        extensions["repeat_penalty"] = extensions.pop("repetition_penalty")
    body: dict[str, Any] = {"messages": _messages(request), "cache_prompt": True, **extensions}
    # Progress is asked for because llama.cpp then calls back during a long prompt too, where the call can be ended.
    body |= {"stream": True, "stream_options": {"include_usage": True}, "return_progress": True}
    for name in ("max_tokens", "temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty"):
        value = getattr(config, name)
        if value is not None:
            body[name] = value
    if config.stop:
        body["stop"] = list(config.stop)
    if config.response_format:
        body["response_format"] = _response_format(dict(config.response_format))
    return body


def _refuse_unsupported(request: lm15.Request, extensions: Mapping[str, Any]) -> None:
    wanted = [f"config.extensions.{name}" for name in sorted(set(extensions) - EXTENSIONS)]
    wanted += ["tools"] * bool(request.tools)
    wanted += ["config.logprobs"] * (request.config.logprobs is not None)
    wanted += ["config.probabilities"] * (request.config.probabilities == "required")
    if wanted:
        raise _unsupported(wanted[0])


def _unsupported(feature: str) -> lm15.UnsupportedFeatureError:
    return lm15.UnsupportedFeatureError(f"the local engine has no {feature}", feature=feature, provider=PROVIDER)


def _response_format(wanted: dict[str, Any]) -> dict[str, Any]:
    if wanted["type"] != "json_schema":
        return wanted
    return {"type": "json_schema", "json_schema": {"name": wanted.get("name", "reply"), "schema": wanted["schema"]}}


def _messages(request: lm15.Request) -> list[dict[str, str]]:
    messages = []
    if request.system is not None:
        parts = (lm15.TextPart(request.system),) if isinstance(request.system, str) else request.system
        messages.append({"role": "system", "content": _text(parts, "system")})
    for number, message in enumerate(request.messages):
        # Chat templates of local models know no developer role.
        role = "system" if message.role == "developer" else message.role
        messages.append({"role": role, "content": _text(message.parts, f"messages[{number}]")})
    return messages


def _text(parts: tuple[Any, ...], where: str) -> str:
    """The parts' text. Earlier thinking is left out, as the models' own templates do."""
    texts = []
    for part in parts:
        if isinstance(part, lm15.TextPart):
            texts.append(part.text)
        elif not isinstance(part, lm15.ThinkingPart):
            raise _unsupported(f"{part.type} part in {where}")
    return "\n".join(texts)


@dataclass
class Reply:
    """What llama.cpp has said so far in one call."""

    stop: threading.Event
    id: str | None = None
    text: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    finish: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None

    def take(self, chunk: dict[str, Any]) -> bool:
        """Called by llama.cpp with each piece; True ends the call. An exception here would be swallowed there."""
        self.error = chunk.get("error")
        self.id = chunk.get("id") or self.id
        self.usage = chunk.get("usage") or self.usage
        self.timings = chunk.get("timings") or self.timings
        for choice in chunk.get("choices", ()):
            delta = choice.get("delta") or {}
            self.text.append(delta.get("content") or "")
            self.thinking.append(delta.get("reasoning_content") or "")
            self.finish = choice.get("finish_reason") or self.finish
        return self.error is not None or self.stop.is_set()

    def response(self, request: lm15.Request) -> lm15.Response:
        """The whole reply.

        Raises:
            dspy.lm15.LM15Error: There is none; the class says whether trying again makes sense.
        """
        self._check()
        parts: list[Any] = [lm15.ThinkingPart(text)] if (text := "".join(self.thinking)) else []
        return lm15.Response(
            id=self.id,
            model=request.model,
            message=lm15.Message.assistant([*parts, lm15.TextPart("".join(self.text))]),
            finish_reason="length" if self.finish == "length" else "stop",
            usage=self._usage(),
            provider_data={"timings": self.timings} if self.timings else None,
            adaptations=_dropped(request),
        )

    def _check(self) -> None:
        if self.error is not None:
            raise _as_lm_error(self.error)
        if self.finish is None:
            raise cancelled() if self.stop.is_set() else broken("llama.cpp ended the reply without a reason")

    def _usage(self) -> lm15.Usage:
        """llama.cpp counts cached tokens among the prompt's, as OpenAI does. What it does not say stays unknown."""
        return lm15.Usage(
            input_tokens=self.usage.get("prompt_tokens"),
            output_tokens=self.usage.get("completion_tokens"),
            total_tokens=self.usage.get("total_tokens"),
            cache_read_tokens=(self.usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        )


def _dropped(request: lm15.Request) -> tuple[lm15.Adaptation, ...]:
    reasoning = request.config.reasoning
    if reasoning is None:
        return ()
    reason = "llama.cpp has no reasoning effort; the model's chat template decides"
    return (lm15.Adaptation("config.reasoning", "dropped", reason, asked=reasoning.effort),)


def _as_lm_error(error: Mapping[str, Any]) -> lm15.LM15Error:
    """llama.cpp's error object as DSPy's class for it, so that DSPy's retry rules hold."""
    message, kind, status = str(error.get("message")), str(error.get("type")), int(error.get("code") or 500)
    if kind == "exceed_context_size_error":
        return lm15.ContextLengthError(message, provider=PROVIDER, provider_code=kind, status=status)
    if status >= 500 and kind != "not_supported_error":
        return lm15.ServerError(message, provider=PROVIDER, provider_code=kind, status=status)
    return lm15.InvalidRequestError(message, provider=PROVIDER, provider_code=kind, status=status)


def cancelled() -> lm15.ProviderError:
    # Not one of the classes that DSPy tries again.
    return lm15.ProviderError("the call was cancelled", code="cancelled", provider=PROVIDER)


def broken(message: str) -> lm15.ServerError:
    return lm15.ServerError(message, provider=PROVIDER)
