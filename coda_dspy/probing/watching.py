"""Between the meter and the engine: count every real try, stop at the plan's limit, keep what was said word for word.

The conductor throws a cut reply away; a probe has to look into it.
"""

import copy
import threading
from typing import Any

import dspy
from dspy.lm15 import LM15Error, ProviderError, Request, Response, TransportError
from dspy.lm15 import TimeoutError as EngineTimeout

from coda_dspy.engines.metered import MeteredEngine
from coda_dspy.errors import UserError

MOST_LOST = 6  # tries in a row without any answer, after which the server counts as dead


class Allowance:
    """How many tries there may be, and how many there were. The plan grants them once it knows what is missing."""

    def __init__(self) -> None:
        self.most = self.made = self.lost = 0
        self._retries = 0
        self._lock = threading.Lock()

    def grant(self, planned: int, retries: int, refusals: int) -> None:
        """Allow tries.

        Args:
            planned: Calls of the plan.
            retries: Further ones, for calls that fail in passing.
            refusals: Further ones, for settings that the engine turns out to refuse.
        """
        self.most, self._retries = planned + retries + refusals, retries

    def take(self) -> bool:
        """One try; False where the plan is spent."""
        with self._lock:
            if self.made >= self.most:
                return False
            self.made += 1
            return True

    def retry(self) -> bool:
        """One of the further tries for calls that fail in passing; False where they are spent."""
        with self._lock:
            self._retries -= 1
            return self._retries >= 0

    def heard(self, lost: bool) -> None:
        """A try has ended; `lost` if nobody answered it."""
        with self._lock:
            self.lost = self.lost + 1 if lost else 0

    @property
    def dead(self) -> bool:
        """Whether nobody has answered for so long that there is no use in going on."""
        return self.lost >= MOST_LOST


class WatchedEngine:
    """An engine that counts its tries, and puts its replies into the list `coda_heard` of the context."""

    def __init__(self, inner: Any, allowance: Allowance) -> None:
        self.inner = inner
        self.allowance = allowance

    def complete(self, request: Request) -> Response:
        """One try."""
        if not self.allowance.take():
            raise ProviderError(f"the plan's {self.allowance.most} calls are spent")
        try:
            response: Response = self.inner.complete(request)
        except LM15Error as error:
            self.allowance.heard(lost=isinstance(error, TransportError | EngineTimeout))
            raise
        self.allowance.heard(lost=False)
        heard = dspy.settings.get("coda_heard")
        if heard is not None:
            heard.append(response)
        return response


def watched(lm: dspy.LM, allowance: Allowance) -> dspy.LM:
    """The same engine under watch: without DSPy's cache, which would answer for it, and without retries of DSPy's own.

    Limits and refused settings stay shared with the original.

    Raises:
        UserError: The engine was not connected by `coda_dspy.connect`.
    """
    engine = metered(lm)
    double = copy.copy(engine)
    double.inner = WatchedEngine(engine.inner, allowance)
    return lm.copy(engine=double, cache=False, num_retries=0)


def metered(lm: dspy.LM) -> MeteredEngine:
    """The engine behind an LM.

    Raises:
        UserError: It was not connected by `coda_dspy.connect`.
    """
    if not isinstance(lm.engine, MeteredEngine):
        raise UserError("a probe counts every call, so it needs an engine that coda_dspy.connect(...) returned")
    return lm.engine
