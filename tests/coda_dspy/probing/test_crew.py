"""Jobs side by side, until a deadline."""

import threading
import time
from functools import partial

import dspy
import pytest

from coda_dspy.probing.crew import side_by_side


def soon() -> float:
    return time.monotonic() + 30


def test_jobs_run_side_by_side_and_never_more_than_allowed() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def job() -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return 1

    assert sum(result for _, result in side_by_side([partial(job) for _ in range(9)], 3, soon())) == 9
    assert most == 3


def test_a_failure_is_raised_at_once() -> None:
    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        list(side_by_side([fails], 2, soon()))


def test_at_the_deadline_nobody_is_waited_for() -> None:
    held = threading.Event()
    jobs = [held.wait, partial(int, "7")]
    started = time.monotonic()
    assert [result for _, result in side_by_side(jobs, 2, time.monotonic() + 0.1)] == [7]
    assert time.monotonic() - started < 5
    held.set()


def test_what_may_not_start_does_not() -> None:
    assert list(side_by_side([partial(int, "7")], 2, soon(), lambda job: False)) == []


def test_the_settings_of_the_context_are_there() -> None:
    with dspy.context(coda_mark="here"):
        jobs = [lambda: dspy.settings.get("coda_mark")]
        assert [result for _, result in side_by_side(jobs, 1, soon())] == ["here"]
