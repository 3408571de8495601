"""The models that this process has loaded: who holds them, whose turn it is, and how a call ends.

What ends a call: every reply is streamed inside, so between two tokens, and between two batches of a long prompt, a
call notices that it is not wanted any more. Ctrl-C in the main thread returns at once. Calls in other threads end after
`cancel_all()`, which whoever started those threads should call when it is interrupted.
"""

import atexit
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dspy import lm15

from coda_dspy.engines.local.loading import start
from coda_dspy.engines.local.settings import Settings
from coda_dspy.engines.local.wire import PROVIDER, Reply, broken, cancelled

_POLL_SECONDS = 0.2
_EXIT_SECONDS = 30.0


class Server:
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
                self._native = start(self.settings)

    def run(self, body: dict[str, Any], stop: threading.Event) -> Reply:
        reply = Reply(stop)
        _in_reach_of_ctrl_c(lambda: self._call(body, reply), stop)
        return reply

    def _call(self, body: dict[str, Any], reply: Reply) -> None:
        self.load()
        with self._turn(reply.stop):
            try:
                # No local name for the server: whoever closes it must hold the last reference.
                self._native.handle_chat_completions(body, reply.take)
            except ValueError as error:  # a body it cannot read
                raise lm15.InvalidRequestError(str(error), provider=PROVIDER) from error
            except RuntimeError as error:
                raise broken(str(error)) from error

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


def _unless_cancelled(stop: threading.Event) -> None:
    if stop.is_set():
        raise cancelled()


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
    except BaseException:  # Ctrl-C: the call in the other thread must not go on
        stop.set()
        raise
    if failures:
        raise failures[0]


_servers: dict[Settings, Server] = {}
_registry = threading.Lock()


def hold(settings: Settings) -> Server:
    with _registry:
        server = _servers.setdefault(settings, Server(settings))
        server.holders += 1
        return server


def release(server: Server) -> None:
    with _registry:
        server.holders -= 1
        if server.holders:
            return
        if _servers.get(server.settings) is server:  # after close_all, another one may have taken its place
            del _servers[server.settings]
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
