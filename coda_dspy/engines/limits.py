"""How many calls may be in flight at an endpoint: fewer once the server refuses some, more again when it takes them."""

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

from dspy.lm15 import RateLimitError

FEWEST_ROUNDS, MOST_ROUNDS = 1, 64


class EndpointLimit:
    """The slots of one endpoint.

    What is still in flight when a call is refused (429) is what the server takes, so that many slots are left. From
    then on the limit grows by an eighth whenever all slots were used for some rounds without a refusal; after a growth
    that was refused it waits for twice as many rounds, after one that held for half as many.

    Args:
        most: Calls in flight that are never exceeded.

    Attributes:
        allowed: Calls that may be in flight now.
        in_flight: Calls that are.
    """

    def __init__(self, most: int) -> None:
        self.most = self.allowed = most
        self.in_flight = 0
        self._rounds = 4
        self._served = 0  # with all slots in use, since the limit last changed
        self._growing = False  # no call was refused since it last grew
        self._changed = threading.Condition()

    def raise_or_lower(self, most: int) -> None:
        """Another upper limit; what was learned is kept where it does not change."""
        with self._changed:
            if most != self.most:
                self.most = self.allowed = most
                self._changed.notify_all()

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Wait for a slot and hold it for one call."""
        with self._changed:
            while self.in_flight >= self.allowed:
                self._changed.wait()
            self.in_flight += 1
        learn: Callable[[], None] | None = None  # of a call that fails for another reason: nothing
        try:
            yield
            learn = self._count
        except RateLimitError:
            learn = self._shrink
            raise
        finally:
            self._leave(learn)

    def _leave(self, learn: Callable[[], None] | None) -> None:
        with self._changed:
            if learn is not None:
                learn()
            self.in_flight -= 1
            self._changed.notify(max(0, self.allowed - self.in_flight))

    def _shrink(self) -> None:
        self.allowed = max(1, min(self.allowed, self.in_flight - 1))
        self._served = 0
        if self._growing:
            self._rounds = min(MOST_ROUNDS, 2 * self._rounds)
            self._growing = False

    def _count(self) -> None:
        if self.allowed == self.most or self.in_flight < self.allowed:
            return
        self._served += 1
        if self._served < self._rounds * self.allowed:
            return
        if self._growing:
            self._rounds = max(FEWEST_ROUNDS, self._rounds // 2)
        self.allowed = min(self.most, self.allowed + max(1, self.allowed // 8))
        self._served, self._growing = 0, True


_limits: WeakValueDictionary[Hashable, EndpointLimit] = WeakValueDictionary()
_lock = threading.Lock()


def limit_of(endpoint: Hashable, most: int) -> EndpointLimit:
    """The one limit of an endpoint in this process, for as long as anything is connected to it.

    Args:
        endpoint: What tells it apart.
        most: Calls in flight at the same time; whoever connects last decides for all.
    """
    with _lock:
        limit = _limits.get(endpoint)
        if limit is None:
            limit = _limits[endpoint] = EndpointLimit(most)
        limit.raise_or_lower(most)
        return limit
