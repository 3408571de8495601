"""The local engine: llama.cpp inside this process (xllamacpp), as a DSPy custom engine.

What listens: `xllamacpp.Server` always opens an HTTP listener; no setting of 2026.10 turns it off. Where the system has
Unix sockets the listener is bound to one in a folder that only this user can enter, and the folder is removed as soon
as the model is loaded, so nothing can connect any more. On Windows it is 127.0.0.1 with a random port. Both ask for a
random key that is written down nowhere. Our own calls do not go through it.

What ends a call: every reply is streamed inside, so between two tokens, and between two batches of a long prompt, a
call notices that it is not wanted any more. Ctrl-C in the main thread returns at once. Calls in other threads end after
`cancel_all()`, which whoever started those threads should call when it is interrupted.

A trailing assistant message is continued: the reply is what comes after it, without it.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from dspy import lm15

from coda_dspy.engines import catalog, weights
from coda_dspy.errors import UserError

PROVIDER = "local"

# Prompt tokens between two looks at whether the call is still wanted, and between two tokens of the other slots.
# On two CPU cores 128, 256 and llama.cpp's 512 cost the same within noise; a small batch ends four times sooner.
_BATCH = 128
_CACHE_MIB = 256  # llama.cpp's default of 8 GiB outgrows a laptop
_POLL_SECONDS = 0.2
_EXIT_SECONDS = 30.0

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


def open_local(
    name: str,
    *,
    slots: int = 8,
    context: int = 4096,
    threads: int | None = None,
    progress: weights.Progress | None = None,
) -> LocalEngine:
    """A local engine for a model of the catalog or for a GGUF file; fetches the weights, does not load them yet.

    Args:
        name: A name of the catalog, or a path: one that begins with `/`, `./` or `~`, or ends with `.gguf`.
        slots: How many calls are computed at once; further calls wait.
        context: Tokens of context of each slot, prompt and reply together.
        threads: Threads that compute; by default one for each core this process may use.
        progress: Told about the download, see `weights.fetch`.

    Raises:
        UserError: Unknown name, weights that cannot be had, a missing file, or a file that is no GGUF.

    Example:
        >>> engine = open_local("qwen2.5-coder-0.5b")  # doctest: +SKIP
        >>> lm = dspy.LM(f"local/{engine.label}@{engine.fingerprint}", engine=engine)  # doctest: +SKIP
    """
    if _is_path(name):
        path, label = _own_file(name), Path(name).stem
    else:
        model = catalog.find(name)
        path, label = weights.fetch(model, progress), model.name
    settings = Settings(path.absolute(), slots, context, threads or usable_cores())
    return LocalEngine(name, label, settings)


def _is_path(name: str) -> bool:
    return name.startswith(("/", "./", "../", "~")) or name.lower().endswith(".gguf")


def _own_file(name: str) -> Path:
    path = Path(name).expanduser()
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise UserError(f"cannot read the model {path}: {error.strerror or error}") from error
    if magic != b"GGUF":
        raise UserError(f"{path} is no GGUF file (it begins with {magic!r}); the local engine reads GGUF only")
    return path


def usable_cores() -> int:
    """The cores this process may use: its CPU affinity, and the container's CPU quota where there is one."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return max(1, min(affinity, int(quota) // int(period)))
    except (OSError, ValueError):  # no cgroup v2, or "max"
        return affinity


@dataclass(frozen=True)
class Settings:
    """What one loaded model is: engines with equal settings share it."""

    path: Path
    slots: int = 8
    context: int = 4096
    threads: int = 1


class LocalEngine:
    """A DSPy engine (`complete(Request) -> Response`) on a model in this process.

    The model is loaded by the first call, or by `load()`; all engines of the process with the same settings share it.
    Calls may come from any number of threads.

    Attributes:
        name: What it was opened with.
        label: A short name for people and for the `dspy.LM`'s model name.
        settings: Path, slots, context and threads.
    """

    supports_function_calling = False
    supports_reasoning = False
    supports_response_schema = True
    supported_params = frozenset({"temperature", "max_tokens", "top_p", "top_k", "response_format", "stop", "seed"})

    def __init__(self, name: str, label: str, settings: Settings) -> None:
        self.name = name
        self.label = label
        self.settings = settings
        self._server: _Server | None = _hold(settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> LocalEngine:
        return self  # DSPy copies programs, and with them their LMs; the model stays one

    @property
    def fingerprint(self) -> str:
        """The first 12 hex digits of the weights' sha256, for the model's name: DSPy's cache ignores the engine."""
        return weights.sha256_of(self.settings.path)[:12]

    def load(self) -> None:
        """Load the model now instead of at the first call.

        Raises:
            UserError: xllamacpp is missing, or llama.cpp refuses the file.
        """
        self._open_server().load()

    def complete(self, request: lm15.Request, stop: threading.Event | None = None) -> lm15.Response:
        """Answer one request; waits while all slots are busy.

        Args:
            request: DSPy's canonical request.
            stop: When it is set, the call ends at the next token.

        Raises:
            dspy.lm15.ContextLengthError: The prompt is longer than a slot's context.
            dspy.lm15.InvalidRequestError: llama.cpp refuses the request.
            dspy.lm15.UnsupportedFeatureError: Tools, images, logprobs or an unknown extension.
            dspy.lm15.ServerError: llama.cpp failed; DSPy tries again.
            dspy.lm15.ProviderError: The call was cancelled.
            UserError: The model cannot be loaded.
        """
        body = request_body(request)
        reply = self._open_server().run(body, stop or threading.Event())
        return reply.response(request)

    def close(self) -> None:
        """Give the model back. It is unloaded, and calls in flight end, when no other engine holds it."""
        server, self._server = self._server, None
        if server is not None:
            _release(server)

    def _open_server(self) -> _Server:
        if self._server is None:
            raise lm15.ConfigurationError(f"the local engine {self.label} is closed", provider=PROVIDER)
        return self._server

    def dump_state(self) -> dict[str, Any]:
        """What `load_state` needs; no weights."""
        return {"name": self.name, "slots": self.settings.slots, "context": self.settings.context}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> LocalEngine:
        """The engine that `dump_state` described, with this machine's threads."""
        return open_local(state["name"], slots=state["slots"], context=state["context"])


class AsyncLocalEngine:
    """The same engine for `lm.acall`: each call runs in a thread, and ends when its task is cancelled."""

    def __init__(self, engine: LocalEngine) -> None:
        self.engine = engine
        # asyncio's own pool has cores + 4 threads, which on a small machine are fewer than the slots.
        self._pool = ThreadPoolExecutor(engine.settings.slots, thread_name_prefix="coda-local")

    def __deepcopy__(self, memo: dict[int, Any]) -> AsyncLocalEngine:
        return self

    async def complete(self, request: lm15.Request) -> lm15.Response:
        """See `LocalEngine.complete`."""
        stop = threading.Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self.engine.complete, request, stop)
        except asyncio.CancelledError:
            stop.set()
            raise

    async def aclose(self) -> None:
        """End this engine's threads. The model stays with the sync engine, whose `close` gives it back."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def dump_state(self) -> dict[str, Any]:
        """The sync engine's state."""
        return self.engine.dump_state()

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> AsyncLocalEngine:
        """The engine that `dump_state` described; it shares the model with its sync twin."""
        return cls(LocalEngine.load_state(state))


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
class _Reply:
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
            raise _cancelled() if self.stop.is_set() else _broken("llama.cpp ended the reply without a reason")

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


def _cancelled() -> lm15.ProviderError:
    # Not one of the classes that DSPy tries again.
    return lm15.ProviderError("the call was cancelled", code="cancelled", provider=PROVIDER)


def _unless_cancelled(stop: threading.Event) -> None:
    if stop.is_set():
        raise _cancelled()


def _broken(message: str) -> lm15.ServerError:
    return lm15.ServerError(message, provider=PROVIDER)


class _Server:
    """One loaded model, shared by the engines that hold it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.holders = 0
        self._native: Any = None
        self._loading = threading.Lock()
        # llama.cpp would queue further calls itself, but what waits in there cannot be cancelled.
        self._slots = threading.BoundedSemaphore(settings.slots)
        self._changed = threading.Condition()
        self._calls: list[threading.Event] = []
        self._closed = False

    def load(self) -> None:
        with self._loading:
            if self._native is None and not self._closed:
                self._native = _start(self.settings)

    def run(self, body: dict[str, Any], stop: threading.Event) -> _Reply:
        reply = _Reply(stop)
        _in_reach_of_ctrl_c(lambda: self._call(body, reply), stop)
        return reply

    def _call(self, body: dict[str, Any], reply: _Reply) -> None:
        self.load()
        with self._turn(reply.stop):
            try:
                # No local name for the server: whoever closes it must hold the last reference.
                self._native.handle_chat_completions(body, reply.take)
            except ValueError as error:  # a body it cannot read
                raise lm15.InvalidRequestError(str(error), provider=PROVIDER) from error
            except RuntimeError as error:
                raise _broken(str(error)) from error

    @contextmanager
    def _turn(self, stop: threading.Event) -> Iterator[None]:
        """One of the slots, for the length of a call."""
        with self._changed:
            if self._closed:
                raise lm15.ConfigurationError("the local engine is closed", provider=PROVIDER)
            self._calls.append(stop)
        try:
            while not self._slots.acquire(timeout=_POLL_SECONDS):
                _unless_cancelled(stop)
            try:
                _unless_cancelled(stop)
                yield
            finally:
                self._slots.release()
        finally:
            with self._changed:
                self._calls.remove(stop)
                self._changed.notify_all()

    def cancel(self) -> None:
        with self._changed:
            for stop in self._calls:
                stop.set()

    def close(self) -> None:
        """End the calls in flight, then unload."""
        self.cancel()
        with self._changed:
            self._closed = True
            # A call ends after its current batch. Leaving, or unloading, in the middle of one crashes the process.
            self._changed.wait_for(lambda: not self._calls, _EXIT_SECONDS)
        with self._loading:
            self._native = None  # its destructor joins llama.cpp's threads


def _in_reach_of_ctrl_c(call: Callable[[], None], stop: threading.Event) -> None:
    """Run `call`. From the main thread, run it in another: Python sees Ctrl-C only between its own instructions."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    failures: list[BaseException] = []
    done = threading.Event()

    def work() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            failures.append(error)
        finally:
            done.set()

    threading.Thread(target=work, daemon=True, name="coda-local-main").start()
    try:
        while not done.wait(_POLL_SECONDS):  # a wait without a limit cannot be interrupted on Windows
            pass
    except BaseException:
        stop.set()
        raise
    if failures:
        raise failures[0]


def _start(settings: Settings) -> Any:
    """Load the model into a new `xllamacpp.Server`."""
    library = _library()
    params = _params(library, settings)
    with tempfile.TemporaryDirectory(prefix="coda-", ignore_cleanup_errors=True) as folder:
        params.hostnames = [_listener(folder)]
        try:
            return library.Server(params)
        except (RuntimeError, ValueError) as error:
            raise UserError(f"llama.cpp cannot load {settings.path}: {_why_not(settings)}") from error


def _library() -> ModuleType:
    # Read when llama.cpp's OpenMP starts: its threads would spin at each barrier, and one other busy process on the
    # machine then makes them about ten times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        import xllamacpp
    except ModuleNotFoundError as error:
        raise UserError("the local engine needs llama.cpp: pip install 'coda-dspy[local]'") from error
    except ImportError as error:
        raise UserError(f"xllamacpp does not start: {error}. It needs libgomp.so.1 and AVX2") from error
    return xllamacpp


def _params(library: ModuleType, settings: Settings) -> Any:
    params = library.CommonParams()
    params.model.path = str(settings.path)
    params.n_parallel = settings.slots
    params.n_ctx = settings.slots * settings.context  # shared out evenly among the slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    params.n_batch = params.n_ubatch = _BATCH
    params.cache_ram_mib = _CACHE_MIB
    params.fit_params = False  # fitting to a GPU's memory costs 40 % of the loading time, and small models fit
    params.verbosity = 0  # nothing of its own on the terminal
    params.ui = params.endpoint_slots = False
    params.n_threads_http = 1
    params.api_keys = [secrets.token_hex(32)]
    return params


def _listener(folder: str) -> str:
    """Where the listener that cannot be switched off is bound: in a private folder that is removed at once."""
    path = str(Path(folder) / "s.sock")
    usable = hasattr(socket, "AF_UNIX") and len(os.fsencode(path)) < 100  # the system's limit is 104 or 108
    return path if usable else "127.0.0.1"


_PROBE = """
import secrets, sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
params.api_keys, params.verbosity, params.warmup = [secrets.token_hex(32)], 1, False
xllamacpp.Server(params)
"""


def _why_not(settings: Settings) -> str:
    """llama.cpp's own reason. It says it on the terminal only, hence once more in a process whose terminal we are."""
    slots, context = str(settings.slots), str(settings.slots * settings.context)
    command = [sys.executable, "-c", _PROBE, str(settings.path), context, slots]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "it does not say why"
    marks = ("error loading model: ", " E ")
    found = [line.split(mark, 1)[1] for mark in marks for line in done.stderr.splitlines() if mark in line]
    return found[0].strip() if found else "it does not say why; fewer slots or less context need less memory"


_servers: dict[Settings, _Server] = {}
_registry = threading.Lock()


def _hold(settings: Settings) -> _Server:
    with _registry:
        server = _servers.setdefault(settings, _Server(settings))
        server.holders += 1
        return server


def _release(server: _Server) -> None:
    with _registry:
        server.holders -= 1
        if server.holders:
            return
        _servers.pop(server.settings, None)
    server.close()


def cancel_all() -> None:
    """End every call in flight in this process, at its next token; they raise `dspy.lm15.ProviderError`."""
    with _registry:
        servers = list(_servers.values())
    for server in servers:
        server.cancel()


@atexit.register
def close_all() -> None:
    """Unload every model; at exit, before llama.cpp's own clean-up could run under a call."""
    with _registry:
        servers = list(_servers.values())
        _servers.clear()
    for server in servers:
        server.close()
