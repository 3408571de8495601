"""The OpenAI chat protocol as the fake server speaks it: what is asked, what is answered, and their bodies."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

STREAM_PIECE = 16  # characters an event: short, so that clients really have to put a stream together

# What OpenAI's own error bodies carry as (type, code); a client may tell faults apart by either.
ERROR_KINDS: dict[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    500: ("server_error", None),
}


@dataclass(frozen=True)
class ServerCall:
    """One chat request as the server received it.

    Args:
        index: 0 for the first request handed to `reply`, then 1, 2, ...
        prompt: Text of the last user message.
        messages: All messages, as sent.
        body: The whole request body.
    """

    index: int
    prompt: str
    messages: list[dict[str, Any]]
    body: dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """What the server answers to one request.

    Args:
        text: The reply's text; the error message where `status` is not 200.
        finish_reason: `"stop"`, or `"length"` for a reply cut off at its token limit.
        status: HTTP status.
        headers: Further response headers.
        reasoning: Thinking, sent beside the text as `reasoning_content`.
        delay: Seconds to wait before answering.
        usage: `"words"` counts whitespace words of prompt and reply, a mapping is sent as it is, `None` sends none.
        raw: A body to send as it is, instead of one made from the fields above.
        drop: Close the connection without an answer.
    """

    text: str | None
    finish_reason: str = "stop"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    reasoning: str | None = None
    delay: float = 0.0
    usage: Mapping[str, Any] | Literal["words"] | None = "words"
    raw: bytes | None = None
    drop: bool = False

    @classmethod
    def rate_limited(cls, retry_after: float = 1) -> "Reply":
        """429: too many requests, come back in `retry_after` seconds."""
        return cls("rate limit reached", status=429, headers={"Retry-After": f"{retry_after:g}"})

    @classmethod
    def server_error(cls) -> "Reply":
        """500: the server failed."""
        return cls("internal error", status=500)

    @classmethod
    def unauthorized(cls) -> "Reply":
        """401: the key is refused."""
        return cls("incorrect API key", status=401)

    @classmethod
    def context_overflow(cls) -> "Reply":
        """400: the prompt is longer than the model's context."""
        body = error_body(400, "this model's maximum context length is 10 tokens", "context_length_exceeded")
        return cls(None, status=400, raw=body)

    @classmethod
    def cut(cls, text: str) -> "Reply":
        """A reply that ran into its token limit."""
        return cls(text, finish_reason="length")

    @classmethod
    def empty(cls) -> "Reply":
        """A reply without any text."""
        return cls("")

    @classmethod
    def malformed(cls) -> "Reply":
        """200 with a body that is no JSON."""
        return cls(None, raw=b'{"choices": [{"message": {"cont')

    @classmethod
    def half(cls) -> "Reply":
        """200 with a body that ends in the middle, where the connection is closed."""
        return cls(None, raw=b'{"choices": [{"mess', headers={"Content-Length": "500", "Connection": "close"})

    def usage_for(self, messages: list[dict[str, Any]]) -> dict[str, Any] | None:
        """The usage block to send for a prompt; `None` where none is sent."""
        if self.usage != "words":
            return None if self.usage is None else dict(self.usage)
        thought = count_words(self.reasoning)
        prompt, completion = sum(count_words(text_of(m)) for m in messages), count_words(self.text) + thought
        usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
        usage["total_tokens"] = prompt + completion
        if thought:
            usage["completion_tokens_details"] = {"reasoning_tokens": thought}
        return usage


def completion(reply: Reply, usage: dict[str, Any] | None, model: str) -> dict[str, Any]:
    """A reply as the body of a chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason, "logprobs": None}
    body = {"id": "fake", "object": "chat.completion", "created": 0, "model": model, "choices": [choice]}
    return body if usage is None else {**body, "usage": usage}


def stream_events(reply: Reply, usage: dict[str, Any] | None, model: str) -> Iterator[str]:
    """A reply as the events of a stream: thinking, text, finish reason, usage, end."""
    frame = {"id": "fake", "object": "chat.completion.chunk", "created": 0, "model": model}

    def event(delta: dict[str, Any], finish_reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return json.dumps({**frame, "choices": [choice]})

    yield event({"role": "assistant"})
    for name, text in (("reasoning_content", reply.reasoning or ""), ("content", reply.text or "")):
        for start in range(0, len(text), STREAM_PIECE):
            yield event({name: text[start : start + STREAM_PIECE]})
    yield event({}, reply.finish_reason)
    if usage is not None:
        yield json.dumps({**frame, "choices": [], "usage": usage})
    yield "[DONE]"


def error_body(status: int, message: str, code: str | None = None) -> bytes:
    """An error body as OpenAI words it."""
    kind, usual_code = ERROR_KINDS.get(status, ("server_error", None))
    return to_json({"error": {"message": message, "type": kind, "code": code or usual_code, "param": None}})


def parse_object(content: bytes) -> dict[str, Any] | None:
    """A JSON object, or `None` where the bytes are not one."""
    try:
        value = json.loads(content)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def text_of(message: Mapping[str, Any]) -> str:
    """A message's text, whether it came as a string or as parts."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(str(part.get("text") or "") for part in content)


def count_words(text: str | None) -> int:
    """Whitespace words, the fake server's tokens."""
    return len((text or "").split())


def to_json(value: object) -> bytes:
    """JSON bytes."""
    return json.dumps(value).encode()
