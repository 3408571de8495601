"""A fake server in a process of its own, so that its work is not counted as ours.

Every reply takes the same time and depends on no prompt. The model named `varied` answers differently every time, so
that candidates disagree.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from coda_dspy.testing import FakeOpenAIServer, Reply, ServerCall

VARIED = "varied"
# About as long as a small model's reply; every role can read it, and the peers' raters too.
TEXT = "1. Think of it. (high)\n" + "Add the one to the other, step by step. " * 20 + "\nRating: [[1]]\nAnswer: {}"


class Served(NamedTuple):
    """What a server saw.

    Args:
        starts: When it began with each call that it took, in seconds of the system's monotonic clock.
        refused: Calls that it refused because too many were in flight.
    """

    starts: list[float]
    refused: int


class ServerProcess:
    """A running server.

    Args:
        process: Where it runs.
        url: Its address.
    """

    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self.process = process
        self.url = url

    def served(self) -> Served:
        """What it saw since this was last asked."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        return Served(*json.loads(self.process.stdout.readline()))


@contextmanager
def serving(latency: float, most: int | None = None) -> Iterator[ServerProcess]:
    """A server whose every reply takes `latency` seconds, and which refuses calls beyond `most` at a time."""
    command = [sys.executable, "-m", __name__, str(latency), *([str(most)] if most is not None else [])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield ServerProcess(process, process.stdout.readline().strip())
        finally:
            process.terminate()


def main() -> None:
    latency, *most = sys.argv[1:]
    starts: list[float] = []

    def reply(call: ServerCall) -> Reply:
        starts.append(time.monotonic())
        return Reply(TEXT.format(call.index if call.body["model"] == VARIED else 4), delay=float(latency))

    with FakeOpenAIServer(reply, max_concurrent=int(most[0]) if most else None) as server:
        print(server.url, flush=True)
        for _ in sys.stdin:
            print(json.dumps(Served(starts, server.rejected)), flush=True)
            starts.clear()
            server.reset()


if __name__ == "__main__":
    main()
