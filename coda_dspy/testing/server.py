"""A chat server for tests: it speaks the OpenAI protocol and answers what you tell it to, faults included."""

import selectors
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from coda_dspy.testing.protocol import (
    Reply,
    ServerCall,
    completion,
    error_body,
    parse_object,
    stream_events,
    text_of,
    to_json,
)

POLL_SECONDS = 0.005  # how soon the listener sees that it should stop

ReplyFunction = Callable[[ServerCall], str | Reply]


class FakeOpenAIServer:
    """An OpenAI-compatible chat server on 127.0.0.1 and a free port, to be used as a context manager.

    It answers `POST /v1/chat/completions` (plain and streamed) with what `reply` returns, and lists one model at
    `GET /v1/models`. Requests that never reach `reply` (wrong key, too many at once) count only in `rejected`.
    Leaving the context closes every connection; an error that `reply` itself raised is answered with a 400 and raised
    again on leaving. Entered again, the server is back at the same address, like one that died and was started again.

    Args:
        reply: Called once per request, from several threads at once; returns the text or a `Reply`.
        api_key: When set, requests without `Authorization: Bearer KEY` get a 401.
        max_concurrent: When set, requests beyond that many at once get a 429 with `Retry-After: 1`.
        model: The model's name in `GET /v1/models`.

    Attributes:
        tokens_in: Prompt tokens of the replies that a client can be billed for (status 200, with usage, delivered).
        tokens_out: Completion tokens of the same replies.
        max_in_flight: Most requests that were being answered at the same time.
        rejected: Requests refused before they reached `reply`.

    Example:
        >>> import dspy
        >>> from coda_dspy.testing import FakeOpenAIServer
        >>> with FakeOpenAIServer(lambda call: "42") as server:
        ...     lm = dspy.LM("openai/fake", api_base=server.url, api_key="k", cache=False)
        ...     lm("6 times 7?"), server.count, server.tokens_out
        (['42'], 1, 1)
    """

    def __init__(
        self,
        reply: ReplyFunction,
        *,
        api_key: str | None = None,
        max_concurrent: int | None = None,
        model: str = "fake",
    ) -> None:
        self.api_key = api_key
        self.model = model
        self._reply = reply
        self._max_concurrent = max_concurrent
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._listener: _Listener | None = None
        self._loop: threading.Thread | None = None
        self._port = 0  # any that is free, until there is one
        self._failure: Exception | None = None
        self._in_flight = 0
        self.reset()

    def reset(self) -> None:
        """Forget all calls and set every counter to 0; requests in flight go on."""
        with self._lock:
            self._calls: list[ServerCall] = []
            self.tokens_in = self.tokens_out = self.rejected = 0
            self.max_in_flight = self._in_flight

    @property
    def url(self) -> str:
        """The base URL, `http://127.0.0.1:PORT/v1`; after the context it is the address of a server that is gone.

        Raises:
            RuntimeError: The server was never started.
        """
        if not self._port:
            raise RuntimeError("the server is not running; use it as `with FakeOpenAIServer(reply) as server:`")
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def calls(self) -> list[ServerCall]:
        """The requests handed to `reply` so far, in order of arrival (a copy)."""
        with self._lock:
            return list(self._calls)

    @property
    def count(self) -> int:
        """How many requests were handed to `reply`; a retry counts again."""
        with self._lock:
            return len(self._calls)

    def __enter__(self) -> Self:
        self._stopping.clear()
        self._listener = _Listener(self, self._port)
        self._port = self._listener.server_port
        self._loop = threading.Thread(target=self._listener.serve_forever, args=(POLL_SECONDS,), daemon=True)
        self._loop.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listener is None or self._loop is None:
            return
        self._stopping.set()
        self._listener.shutdown()
        self._loop.join()
        self._listener.server_close()
        self._listener.hang_up()
        self._listener = self._loop = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    @contextmanager
    def _slot(self) -> Iterator[bool]:
        """Count a request in and out; yields whether there is room for it."""
        with self._lock:
            room = self._max_concurrent is None or self._in_flight < self._max_concurrent
            self._in_flight += room
            self.rejected += not room
            self.max_in_flight = max(self.max_in_flight, self._in_flight)
        try:
            yield room
        finally:
            with self._lock:
                self._in_flight -= room

    def _refuse(self) -> Reply:
        with self._lock:
            self.rejected += 1
        return Reply.unauthorized()

    def _answer(self, body: dict[str, Any], authorization: str | None) -> tuple[Reply, list[dict[str, Any]]]:
        """The reply to one chat body, after its delay, with the messages it answers."""
        messages = body.get("messages") or []
        if self.api_key is not None and authorization != f"Bearer {self.api_key}":
            return self._refuse(), messages
        # The slot ends before the answer is on its way, so that a client's next request never overlaps this one.
        with self._slot() as room:
            if not room:
                return Reply.rate_limited(), messages
            reply = self._ask(self._record(body, messages))
            stopped = self._stopping.wait(reply.delay) if reply.delay > 0 else False
            return (Reply(None, drop=True) if stopped else reply), messages

    def _record(self, body: dict[str, Any], messages: list[dict[str, Any]]) -> ServerCall:
        prompts = [text_of(message) for message in messages if message.get("role") == "user"]
        with self._lock:
            call = ServerCall(len(self._calls), prompts[-1] if prompts else "", messages, body)
            self._calls.append(call)
        return call

    def _ask(self, call: ServerCall) -> Reply:
        try:
            reply = self._reply(call)
        except Exception as error:  # noqa: BLE001 - the test's own code; its error is raised again on leaving
            self._fail(error)
            return Reply(f"reply() raised {type(error).__name__}: {error}", status=400)
        return Reply(reply) if isinstance(reply, str) else reply

    def _fail(self, error: Exception) -> None:
        with self._lock:
            self._failure = self._failure or error

    def _bill(self, usage: Mapping[str, Any]) -> None:
        with self._lock:
            self.tokens_in += usage.get("prompt_tokens") or 0
            self.tokens_out += usage.get("completion_tokens") or 0


class _Listener(ThreadingHTTPServer):
    """The socket side: one daemon thread a connection, all of which can be hung up at once."""

    request_queue_size = 256

    def __init__(self, owner: FakeOpenAIServer, port: int) -> None:
        self.owner = owner
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    def server_bind(self) -> None:
        # HTTPServer's own version looks the host name up, which can take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.socket.getsockname()[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """Close the connections that clients keep alive."""
        with self._open_lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about clients that went away; keep anything else for the end of the context."""
        error = sys.exception()
        if isinstance(error, Exception) and not isinstance(error, OSError):
            self.owner._fail(error)


class _Handler(BaseHTTPRequestHandler):
    """One connection: reads requests and writes what the owner answers."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def do_GET(self) -> None:
        if self.path.rstrip("/") != "/v1/models":
            self._send(404, error_body(404, f"no such path: {self.path}"))
            return
        entry = {"id": self.server.owner.model, "object": "model", "created": 0, "owned_by": "coda_dspy"}
        self._send(200, to_json({"object": "list", "data": [entry]}))

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.rstrip("/") != "/v1/chat/completions":
            self._send(404, error_body(404, f"no such path: {self.path}"))
            return
        body = parse_object(content)
        if body is None:
            self._send(400, error_body(400, "the request body is not a JSON object"))
            return
        reply, messages = self.server.owner._answer(body, self.headers.get("Authorization"))
        if reply.drop or self._client_left():
            self.close_connection = True
        else:
            self._deliver(reply, body, messages)

    def _deliver(self, reply: Reply, body: dict[str, Any], messages: list[dict[str, Any]]) -> None:
        if reply.raw is not None or reply.status != 200:
            content = reply.raw if reply.raw is not None else error_body(reply.status, reply.text or "error")
            self._send(reply.status, content, reply.headers)
            return
        usage = reply.usage_for(messages)
        # Billed before it is sent: whoever holds the answer must find it counted.
        if usage is not None:
            self.server.owner._bill(usage)
        model = str(body.get("model", self.server.owner.model))
        if body.get("stream"):
            self._send_stream(stream_events(reply, usage, model), reply.headers)
        else:
            self._send(200, to_json(completion(reply, usage, model)), reply.headers)

    def _send(self, status: int, content: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        fields = {"Content-Type": "application/json", "Content-Length": str(len(content)), **(headers or {})}
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _send_stream(self, events: Iterator[str], headers: Mapping[str, str]) -> None:
        self.send_response(200)
        for name, value in {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        for event in events:
            data = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def _client_left(self) -> bool:
        """Whether the client closed the connection while it waited."""
        # Not select.select: a process that has many files open gets descriptors that it cannot take.
        with selectors.DefaultSelector() as selector:
            selector.register(self.connection, selectors.EVENT_READ)
            readable = bool(selector.select(0))
        return readable and self.connection.recv(1, socket.MSG_PEEK) == b""

    def log_message(self, format: str, *args: Any) -> None:
        """No log lines."""
