"""From a name to an engine: `local/<name>`, any name that LiteLLM knows, or an engine object."""

import hashlib
import json
import os
import re
import urllib.request
from collections.abc import Callable
from importlib import import_module
from typing import Any
from uuid import uuid4

import dspy

from coda_dspy.engines.limits import limit_of
from coda_dspy.engines.metered import AsyncMeteredEngine, MeteredEngine
from coda_dspy.engines.secrets import remember_password_of, remember_secret
from coda_dspy.errors import EngineError, UserError

LOCAL = "local/"
_LM_SETTINGS = ("temperature", "max_tokens", "top_p", "stop", "seed", "cache", "num_retries")
# These would carry a key or an address into the profile, or take the call out of the conductor's hands.
_SECRET = re.compile(r"key|token$|secret|password|header|auth|api_|base_url")
# These would have somebody else answer, or be told (what DSPy's own client does not take goes to LiteLLM's).
_ELSEWHERE = re.compile(r"url|endpoint|credential|_provider|fallback|callback|mock|client|proxy|logger|hook|litellm")
_OF_CONNECT = ("engine", "max_concurrency", "timeout", "progress")
_NOT_OURS = ("n", "stream", "model", "model_list", "messages", "rollout_id", *_OF_CONNECT)
_NUMBERS = {"temperature": (0, 2), "top_p": (0, 1)}
_MOST_CONNECTIONS = 10_000  # connections are opened as they are needed: the endpoint's limit is the only one
_COUNTS = {"max_tokens": (1, 1_000_000), "num_retries": (0, 100)}


def connect(
    engine: Any,
    api_base: str | None = None,
    *,
    api_key: str | None = None,
    max_concurrency: int = 256,
    timeout: float = 1800.0,
    progress: Callable[[int, int, str], None] | None = None,
    **decoding: Any,
) -> dspy.LM:
    """Connect to an engine.

    Example:
        >>> import dspy, coda_dspy
        >>> from coda_dspy.testing import ScriptedEngine
        >>> lm = coda_dspy.connect(ScriptedEngine(lambda call: "Answer: 4"))
        >>> with dspy.context(lm=lm):
        ...     coda_dspy.AdaptiveCoda()(question="2 + 2?").answer
        '4'

    Args:
        engine: `local/<catalog name>`, `local//path/model.gguf`, a LiteLLM name such as `hosted_vllm/Qwen/Qwen3-8B`,
            or an object with `complete(Request) -> Response`.
        api_base: Address of an OpenAI-compatible server. A name without a provider is then taken as a model there.
        api_key: Key for the server. By default it comes from the provider's environment variable.
        max_concurrency: Calls in flight at this endpoint at the same time, by everything in the process; the last
            connection decides. While the server refuses calls (429) there are fewer.
        timeout: Seconds without a byte from the server before a call counts as lost.
        progress: `(done bytes, total bytes, source)`, called while weights are fetched.
        decoding: `temperature`, `top_p`, `max_tokens`, `stop`, `seed`, `num_retries`, `cache`; anything else
            (`top_k`, `min_p`, `chat_template_kwargs`, …) is sent to the server as it is.

    Returns:
        A `dspy.LM` whose every call is metered.

    Raises:
        EngineError: The name means nothing to anyone.
        UserError: The weights of a local engine are missing and cannot be fetched.
    """
    check_decoding(decoding)
    if max_concurrency < 1:
        raise EngineError(f"max_concurrency is {max_concurrency}; it has to be at least 1")
    settings = {name: decoding.pop(name) for name in _LM_SETTINGS if name in decoding}
    settings.setdefault("num_retries", 4)
    remember_secret(api_key)
    remember_password_of(api_base)
    if not isinstance(engine, str):
        return _custom(engine, decoding, max_concurrency, settings)
    if engine.startswith(LOCAL):
        return _local(engine, decoding, max_concurrency, progress, settings)
    return _remote(engine, api_base, api_key, timeout, decoding, max_concurrency, settings)


def is_secret(name: str) -> bool:
    """Whether a setting of this name may hold a key or an address."""
    return _SECRET.search(name.lower()) is not None


def check_decoding(decoding: dict[str, Any]) -> None:
    """Refuse settings that are none of decoding: keys, headers, addresses; and values that nothing can mean.

    Raises:
        UserError: There is one.
    """
    for name in decoding:
        if is_secret(name) or _ELSEWHERE.search(name.lower()) or name in _NOT_OURS:
            raise UserError(
                f"{name} is no decoding setting; keys come from the environment, the address from api_base, "
                "and settings such as top_p or top_k go here"
            )
    for name in decoding.keys() & {*_NUMBERS, *_COUNTS}:
        _check_number(name, decoding[name])


def _check_number(name: str, value: Any) -> None:
    least, most = (_NUMBERS | _COUNTS)[name]
    kind, what = (int, "whole number") if name in _COUNTS else (int | float, "number")
    if isinstance(value, bool) or not isinstance(value, kind) or not least <= value <= most:
        raise UserError(f"decoding setting {name} is {value!r}; it has to be a {what} from {least} to {most}")


def engine_name(lm: dspy.LM) -> str:
    """The engine's name as the user gave it, without the fingerprint that keeps cache entries apart."""
    return str(lm.model).split("@", 1)[0]


def _lm(name: str, metered: MeteredEngine, fingerprint: str, settings: dict[str, Any]) -> dspy.LM:
    label = f"{name}@{fingerprint}" if fingerprint else name
    return dspy.LM(label, engine=metered, async_engine=AsyncMeteredEngine(metered), **settings)


def _custom(engine: Any, extras: dict[str, Any], concurrency: int, settings: dict[str, Any]) -> dspy.LM:
    if not callable(getattr(engine, "complete", None)):
        raise EngineError(f"engine is a {type(engine).__name__}; give a name or an object with complete(Request)")
    # Engines of one name share DSPy's cache; one that has no name is given its own.
    name = str(getattr(engine, "label", f"custom/{type(engine).__name__.lower()}-{uuid4().hex[:12]}"))
    takes_seed = bool(getattr(engine, "takes_seed", False))
    metered = MeteredEngine(engine, name, limit_of(id(engine), concurrency), extras, takes_seed)
    return _lm(name, metered, _fingerprint(None, extras), settings)


def _local(name: str, extras: dict[str, Any], concurrency: int, progress: Any, settings: dict[str, Any]) -> dspy.LM:
    from coda_dspy.engines.local import open_local

    engine = open_local(name.removeprefix(LOCAL), progress=progress)
    engine.load()  # a broken file is told here, not in the middle of the first question
    metered = MeteredEngine(engine, name, limit_of(engine.settings, concurrency), extras, takes_seed=True)
    return _lm(name, metered, _fingerprint(engine.fingerprint, extras), settings)


def _remote(
    name: str,
    api_base: str | None,
    api_key: str | None,
    timeout: float,
    extras: dict[str, Any],
    concurrency: int,
    settings: dict[str, Any],
) -> dspy.LM:
    if not name or name.endswith("/"):
        raise EngineError(f"engine {name!r} is no name: nothing stands behind the provider")
    if "/" not in name and api_base:
        name = f"hosted_vllm/{name}"
    inner = _native(name, api_base, api_key, timeout) or _through_litellm(name, api_base, api_key, timeout)
    limit = limit_of(api_base.rstrip("/") if api_base else name.split("/")[0], concurrency)
    return _lm(name, MeteredEngine(inner, name, limit, extras), _fingerprint(api_base, extras), settings)


def _native(name: str, api_base: str | None, api_key: str | None, timeout: float) -> Any:
    """DSPy's own HTTP client, which keeps usage in the cache and costs a tenth of LiteLLM's time; `None` if unknown."""
    from dspy.clients.engines.lm15_engine import LM15Engine
    from dspy.lm15 import RouterConfig, UnknownModelError, UnsupportedFeatureError

    try:
        provider = LM15Engine(RouterConfig(env={})).resolve(name).provider
    except (UnknownModelError, UnsupportedFeatureError):
        return None
    if provider.startswith("azure"):
        return None
    # Self-hosted servers mostly take any key, but the client insists on one.
    api_key = api_key or os.environ.get(f"{name.split('/')[0].upper()}_API_KEY") or ("none" if api_base else None)
    # Looking for a proxy goes through the whole environment, for every call: a sixth of what a call costs us.
    # (By name: mypy would take an import from there for all that there is of DSPy.)
    transport = import_module("dspy._vendor.lm15.transports").StdlibTransport(
        read_timeout=timeout, max_connections=_MOST_CONNECTIONS, trust_env=bool(urllib.request.getproxies())
    )
    return LM15Engine(
        RouterConfig(
            api_keys={provider: api_key} if api_key else None,
            base_urls={provider: api_base} if api_base else None,
            transport=transport,
        )
    )


def _through_litellm(name: str, api_base: str | None, api_key: str | None, timeout: float) -> Any:
    import litellm
    from dspy.clients.engines.litellm_engine import LiteLLMEngine

    litellm.suppress_debug_info = True
    try:
        litellm.get_llm_provider(name, api_base=api_base)
    except litellm.exceptions.BadRequestError as error:
        raise EngineError(
            f"engine {name!r} is unknown. Use local/<name> (see `coda engines`), a LiteLLM name such as "
            "openai/gpt-4o-mini or ollama_chat/qwen3, or a model's name together with --api-base URL"
        ) from error
    options = {"api_base": api_base, "api_key": api_key, "timeout": timeout}
    return LiteLLMEngine(**{key: value for key, value in options.items() if value is not None})


def _fingerprint(source: str | None, extras: dict[str, Any]) -> str:
    """What DSPy's cache key would miss: the endpoint (or the weights) and the sampling extras."""
    if source is None and not extras:
        return ""
    content = json.dumps([source, extras], sort_keys=True, default=str).encode()
    return hashlib.blake2b(content, digest_size=5).hexdigest()
