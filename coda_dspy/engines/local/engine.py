"""What DSPy sees: opening a local engine by name, the engine itself, and its async twin."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dspy import lm15

from coda_dspy.engines import catalog, weights
from coda_dspy.engines.local.server import Server, hold, release
from coda_dspy.engines.local.settings import Settings, usable_cores
from coda_dspy.engines.local.wire import PROVIDER, request_body
from coda_dspy.errors import UserError


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
    try:
        path = Path(name).expanduser()
        if path.exists() and not path.is_file():
            raise UserError(f"cannot read the model {path}: it is no regular file")  # a pipe would never end
        with path.open("rb") as file:
            magic = file.read(4)
    except (OSError, ValueError, RuntimeError) as error:  # no such file; no possible name; no such home folder
        raise UserError(f"cannot read the model {name}: {getattr(error, 'strerror', None) or error}") from error
    if magic != b"GGUF":
        raise UserError(f"{path} is no GGUF file (it begins with {magic!r}); the local engine reads GGUF only")
    return path


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
    continues_replies = True  # a trailing assistant message is the beginning of the reply
    takes_effort = False  # llama.cpp has no reasoning effort; asking again with another one would ask the same
    supported_params = frozenset({"temperature", "max_tokens", "top_p", "top_k", "response_format", "stop", "seed"})

    def __init__(self, name: str, label: str, settings: Settings) -> None:
        self.name = name
        self.label = label
        self.settings = settings
        self._server: Server | None = hold(settings)

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
            release(server)

    def _open_server(self) -> Server:
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
