"""Whether something ends at all, on however busy a machine."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_CPU_SECONDS = 20


@contextmanager
def ends() -> Iterator[None]:
    """Fails what is inside where it computes without end; a hang would otherwise hold up the whole test run."""

    def fail(*_: object) -> None:
        raise AssertionError(f"it has not ended after {_CPU_SECONDS} s of computing")

    before = signal.signal(signal.SIGVTALRM, fail)
    signal.setitimer(signal.ITIMER_VIRTUAL, _CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
