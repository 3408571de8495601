"""A living interpreter in the sandbox, seen from the host: requests out, replies in, as JSON lines."""

import contextlib
import json
import math
import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from coda_dspy.sandbox.closing import Closing
from coda_dspy.sandbox.collecting import Collector
from coda_dspy.sandbox.descriptors import Bag
from coda_dspy.sandbox.errors import SandboxLost
from coda_dspy.sandbox.jail.protocol import Descriptors
from coda_dspy.sandbox.launching import Launcher, Order
from coda_dspy.sandbox.limits import Limits

Tools = Mapping[str, Callable[..., Any]]
Fields = list[dict[str, Any]] | None

_GRACE = 1.0
_PART = 1 << 16
_LONGEST_REPLY = 64 << 20
_KINDS = ("result", "final", "syntax", "error", "tool")


class Session(Closing):
    """One interpreter. Not for several threads at once.

    Raises:
        SandboxLost: It does not start.
    """

    def __init__(self, launcher: Launcher, limits: Limits, lifetime: float) -> None:
        self._limits = limits
        self._buffer = b""
        self._bag = Bag()
        requests, replies, status = self._bag.pipe(), self._bag.pipe(), self._bag.pipe()
        null = self._bag.hold(os.open(os.devnull, os.O_WRONLY))
        order = Order("session", "", {}, limits, lifetime)
        payload, nothing = self._bag.data(order.payload()), self._bag.data(b"")
        given = Descriptors(payload, nothing, null, null, status.write, (requests.read, replies.write))
        try:
            self._running = launcher.launch(order, given)
        except BaseException:  # also Ctrl-C: nobody else knows of these descriptors yet
            self._bag.close()
            raise
        self._bag.close_now(*given.all())
        self._requests, self._replies, self._status = requests.write, replies.read, status.read
        os.set_blocking(self._requests, False)
        self._lock = threading.Lock()
        self.closed = False

    def execute(
        self,
        code: str,
        variables: Mapping[str, Any],
        tools: Tools = MappingProxyType({}),
        fields: Fields = None,
        seconds: float | None = None,
    ) -> dict[str, Any]:
        """Run one piece of code.

        Args:
            code: Its text; the value of a last expression is the result.
            variables: Names to set first; JSON values.
            tools: Functions of the host. Their arguments come from the program: hostile input.
            fields: What `SUBMIT` takes; None: one value.
            seconds: Another limit for this piece alone.

        Returns:
            The reply: `type` (`result`, `final`, `syntax` or `error`), `value` or `error`, and `stdout`.

        Raises:
            SandboxLost: The session ended, hung beyond its limit, or talked nonsense; it is closed then.
            ValueError: The variables are no JSON values.
        """
        seconds = self._limits.seconds if seconds is None else seconds
        request = {"code": code, "variables": dict(variables), "tools": list(tools), "output_fields": fields}
        data = json.dumps({**request, "seconds": seconds})
        try:
            return self._exchange(data, tools, seconds)
        except BaseException:  # also Ctrl-C: the reply that is still to come would be taken for the next one's
            self.close()
            raise

    def _exchange(self, data: str, tools: Tools, seconds: float) -> dict[str, Any]:
        left = seconds + _GRACE
        while True:
            begun = time.monotonic()
            self._send(data, begun + left)
            reply = self._receive(begun + left)
            if reply["type"] != "tool":
                return reply
            left -= time.monotonic() - begun  # a tool's time is the host's own
            if left <= 0:
                raise SandboxLost(f"no result within {seconds:g} seconds; the session is lost")
            data = _answer(reply, tools)

    def _send(self, data: str, end: float) -> None:
        rest = memoryview(data.encode() + b"\n")
        while rest:
            self._await(self._requests, select.POLLOUT, end)
            try:
                rest = rest[os.write(self._requests, rest[:_PART]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise SandboxLost("the session's process ended") from error

    def _receive(self, end: float) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            self._await(self._replies, select.POLLIN, end)
            part = os.read(self._replies, _PART)
            if not part:
                raise SandboxLost("the session's process ended")
            self._buffer += part
            if len(self._buffer) > _LONGEST_REPLY:
                raise SandboxLost(f"a reply of more than {_LONGEST_REPLY >> 20} MB")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return _checked(line)

    def _await(self, descriptor: int, event: int, end: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(math.ceil(max(0.0, end - time.monotonic()) * 1000)):
            raise SandboxLost("no reply within its limit of time; the session is lost")

    def close(self) -> None:
        """End the session and wait until it is gone. A second call does nothing."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
        collector = Collector(self._running, self._status, (), lambda: math.inf)
        try:
            collector.kill()
            collector.wait()
            self._running.finished()
        finally:
            with contextlib.suppress(OSError):
                self._bag.close()


def _checked(line: bytes) -> dict[str, Any]:
    """A reply in the shape that was agreed on. It comes from the program's own process, so it is checked."""
    try:
        reply = json.loads(line)
        kind = reply["type"]
        shapes = {"tool": ("name", "args", "kwargs"), "result": ("value", "stdout"), "final": ("value", "stdout")}
        if kind not in _KINDS or any(name not in reply for name in shapes.get(kind, ("error", "stdout"))):
            raise ValueError("a part is missing")
        if kind == "tool" and not (isinstance(reply["args"], list) and isinstance(reply["kwargs"], dict)):
            raise ValueError("the arguments have another shape")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SandboxLost(f"a malformed reply: {error}") from error
    return dict(reply)


def _answer(reply: dict[str, Any], tools: Tools) -> str:
    """Call the tool that was asked for; what it raises is told to the program."""
    try:
        value = tools[reply["name"]](*reply["args"], **reply["kwargs"])
        return json.dumps({"value": value})
    except Exception as error:  # noqa: BLE001 - a tool may raise anything
        return json.dumps({"error": f"{type(error).__name__}: {error}"})
