"""Do jobs side by side until a deadline; a call that does not come back by then is left behind.

Threads of an executor would hold up the end of the process until the last reply is there; these do not.
"""

import contextvars
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

J = TypeVar("J", bound=Callable[[], Any])


def side_by_side(
    jobs: Iterable[J],
    at_a_time: int,
    deadline: float,
    may_start: Callable[[J], bool] = lambda job: True,
) -> Iterator[tuple[J, Any]]:
    """Each job with its result, as they end.

    Args:
        jobs: What to call, in the order in which to start.
        at_a_time: How many at the same time.
        deadline: When to wait no longer, by `time.monotonic()`.
        may_start: Asked before a job is started; once it says no, none is started any more.

    Raises:
        Whatever a job raises, as soon as it does.
    """
    waiting, landed, flying = deque(jobs), queue.SimpleQueue[tuple[J, Future[Any]]](), 0
    while True:
        while waiting and flying < at_a_time and may_start(waiting[0]):
            _start(waiting.popleft(), landed)
            flying += 1
        if not flying:
            return
        try:
            job, future = landed.get(timeout=max(deadline - time.monotonic(), 0.0))
        except queue.Empty:
            return
        flying -= 1
        yield job, future.result()


def _start(job: J, landed: "queue.SimpleQueue[tuple[J, Future[Any]]]") -> None:
    """Run a job in a thread of its own, with the settings of this context."""
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(job())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is taken
            future.set_exception(error)
        landed.put((job, future))

    threading.Thread(target=contextvars.copy_context().run, args=(work,), name="coda-probe", daemon=True).start()
