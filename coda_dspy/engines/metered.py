"""The engine wrapper that every connection goes through: meter, limiter, sampling extras, refused settings.

DSPy retries above the engine and caches above that, so this is the one place that sees every real try exactly once.
"""

import logging
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dspy
from dspy.lm15 import (
    InvalidRequestError,
    LM15Error,
    ProviderError,
    Request,
    Response,
    ServerError,
    TransportError,
    UnsupportedFeatureError,
    Usage,
)
from dspy.lm15 import TimeoutError as EngineTimeout

from coda_dspy.engines.limits import EndpointLimit
from coda_dspy.engines.secrets import redact
from coda_dspy.ledger import Entry

logger = logging.getLogger(__name__)

# Settings that an engine may do without; each is found under these names in a server's refusal. A refusal says that
# the setting is not known or not supported; a complaint about its value is the user's to mend.
_REFUSAL = re.compile(
    r"unknown|unsupported|not support|unrecogni[sz]ed|unexpected|extra (field|input|param)|not permitted|not allowed"
)
_OPTIONAL = {"reasoning": ("reasoning_effort", "reasoning"), "seed": ("seed",), "top_p": ("top_p",)}
_LONGEST_PAUSE = 600.0  # seconds that a server may ask for before the next try; one that asks for years is broken
_MOST_TOKENS = 10**9  # of one call: no context holds as many, so a server that reports more has reported nothing


class MeteredEngine:
    """A DSPy engine around another one.

    Args:
        inner: The engine that does the work: `complete(Request) -> Response`.
        wire_model: The model's name as the server knows it. The LM's own name may carry a fingerprint of the
            endpoint, because DSPy's cache key ignores where a reply came from.
        limit: The endpoint's slots for calls in flight; calls without one wait.
        extras: Sampling settings that DSPy has no field for (`top_k`, `min_p`, `chat_template_kwargs`, …).
        takes_seed: Send a seed derived from the rollout id.

    Attributes:
        refused: Optional settings that the engine turned out not to take; they are not sent any more.
    """

    metered = True
    supports_function_calling = False
    supports_reasoning = False
    supports_response_schema = True
    supported_params = frozenset({"temperature", "max_tokens", "top_p", "stop", "seed", "reasoning_effort"})

    def __init__(
        self,
        inner: Any,
        wire_model: str,
        limit: EndpointLimit,
        extras: Mapping[str, Any] | None = None,
        takes_seed: bool = False,
    ) -> None:
        self.inner = inner
        self.wire_model = wire_model
        self.limit = limit
        self.extras = dict(extras or {})
        self.takes_seed = takes_seed
        self.continues_replies = bool(getattr(inner, "continues_replies", False))
        self.refused: set[str] = set() if getattr(inner, "takes_effort", True) else {"reasoning"}

    def __deepcopy__(self, memo: dict[int, Any]) -> "MeteredEngine":
        return self  # copies of a program share the connection, its limit and what it refused

    @property
    def refusable(self) -> int:
        """How many settings it may still turn out to refuse, each of which costs one more try."""
        return len({*_OPTIONAL, *self.extras} - self.refused)

    def complete(self, request: Request) -> Response:
        """One try, and one more without a setting that the engine turns out to refuse."""
        prepared = self._prepared(request)
        try:
            return self._try(prepared)
        except (InvalidRequestError, UnsupportedFeatureError) as error:
            setting = _refused_setting(prepared, error, self.extras)
            if setting is None:
                raise
            if setting not in self.refused:
                logger.warning("%s refuses %s; going on without it", self.wire_model, setting)
            self.refused.add(setting)
            return self.complete(request)

    def _prepared(self, request: Request) -> Request:
        without = dict.fromkeys(self.refused & set(_OPTIONAL))
        extras = {name: value for name, value in self.extras.items() if name not in self.refused}
        extensions = {**(request.config.extensions or {}), **extras} or None
        return replace(request, model=self.wire_model, config=replace(request.config, **without, extensions=extensions))

    def _try(self, request: Request) -> Response:
        with self.limit.slot():
            started = time.monotonic()
            try:
                response: Response = _plausible(self.inner.complete(request))
            except LM15Error as error:
                _hide_secrets(error)
                if type(error) is ProviderError and error.status == 200:  # a body that is no reply: worth another try
                    error = ServerError(error.message, provider=error.provider, status=200)
                if error.retry_after is not None:
                    error.retry_after = min(error.retry_after, _LONGEST_PAUSE)
                _book_failure(error, time.monotonic() - started)
                raise error from None
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                # The client library stumbled over JSON of another shape, such as a usage that is no number.
                unreadable = ServerError(redact(f"the reply cannot be read: {error}"), status=200)
                _book_failure(unreadable, time.monotonic() - started)
                raise unreadable from None
            _book(response, time.monotonic() - started)
            return response


class AsyncMeteredEngine:
    """The same engine for DSPy's async calls, in a thread of its own."""

    def __init__(self, sync: MeteredEngine) -> None:
        self.sync = sync

    def __deepcopy__(self, memo: dict[int, Any]) -> "AsyncMeteredEngine":
        return self

    async def complete(self, request: Request) -> Response:
        import asyncio

        return await asyncio.to_thread(self.sync.complete, request)

    async def aclose(self) -> None:
        """The connection belongs to the sync engine."""


def _refused_setting(sent: Request, error: LM15Error, extras: Mapping[str, Any]) -> str | None:
    """The optional setting that was sent and that the engine's message refuses."""
    message = error.message.lower()
    if not isinstance(error, UnsupportedFeatureError) and not _REFUSAL.search(message):
        return None
    for name, spellings in _OPTIONAL.items():
        if getattr(sent.config, name, None) is not None and any(spelling in message for spelling in spellings):
            return name
    return next((name for name in extras if name in (sent.config.extensions or {}) and name.lower() in message), None)


def _plausible(response: Response) -> Response:
    """The response; one whose usage is absurd as one without usage."""
    counts = (response.usage.input_tokens, response.usage.output_tokens)
    return replace(response, usage=Usage()) if any((count or 0) > _MOST_TOKENS for count in counts) else response


def _book(response: Response, seconds: float) -> None:
    meter = dspy.settings.get("coda_call")
    if meter is not None:
        usage = response.usage
        # LiteLLM reports zeros where the server reported nothing; no prompt has no tokens.
        known = usage.input_tokens != 0
        meter.add(
            Entry(
                meter.stage,
                usage.input_tokens if known else None,
                usage.output_tokens if known else None,
                cached=False,
                finish=response.finish_reason,
                seconds=seconds,
                tokens_prefix=usage.cache_read_tokens,
            )
        )


def _book_failure(error: LM15Error, seconds: float) -> None:
    meter = dspy.settings.get("coda_call")
    if meter is not None:
        # A server that answered with an error produced nothing; one that went silent, or whose reply cannot be read,
        # may have.
        lost = isinstance(error, TransportError | EngineTimeout) or error.status == 200
        tokens = None if lost else 0
        reason = error.message.strip().splitlines()[0] if error.message.strip() else type(error).__name__
        meter.add(Entry(meter.stage, tokens, tokens, False, None, seconds, error=reason))


def _hide_secrets(error: LM15Error) -> None:
    """Servers echo keys in their refusals, and tracers record exceptions: mend the message at its source.

    The exception of a client library behind it is cut off, for its message is not ours to mend.
    """
    error.__cause__ = error.__context__ = None
    error.message = redact(error.message)
    error.args = tuple(redact(arg) if isinstance(arg, str) else arg for arg in error.args)
