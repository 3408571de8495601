"""Fan-out in threads that keep DSPy's settings, usage, trace and the tracking span of their parent.

`dspy.Parallel` deep-copies the usage tracker and starts orphan traces when it is nested; a copied context does neither
(DESIGN.md, decision 2). Threads are cheap here: all of them wait for the engine, which bounds the calls in flight.
"""

import contextvars
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

MOST_THREADS = 64  # of one fan-out; they nest, and engines allow about as many calls in flight


def fan_out(fn: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Apply `fn` to every item at once and return the results in the order of the items.

    Raises:
        Whatever `fn` raises, as soon as it does. Items that have not started are dropped.
    """
    work = list(items)
    if len(work) <= 1:
        return [fn(item) for item in work]
    pool = ThreadPoolExecutor(max_workers=min(len(work), MOST_THREADS), thread_name_prefix="coda")
    futures = [pool.submit(contextvars.copy_context().run, fn, item) for item in work]
    try:
        ended, _ = wait(futures, return_when=FIRST_EXCEPTION)
        return [future.result() for future in (futures if len(ended) == len(futures) else ended)]
    finally:
        # After a failure or Ctrl-C what has not started is dropped; calls in flight end in their own time.
        pool.shutdown(wait=False, cancel_futures=True)
