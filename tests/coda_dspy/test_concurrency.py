import threading
import time

import dspy
import pytest

from coda_dspy.concurrency import fan_out


def test_results_come_in_the_order_of_the_items() -> None:
    def slow_first(i: int) -> int:
        time.sleep(0.05 if i == 0 else 0)
        return i

    assert fan_out(slow_first, range(8)) == list(range(8))


def test_threads_see_the_settings_and_the_trace_of_their_parent() -> None:
    trace: list[int] = []
    with dspy.context(marker="here", trace=trace):
        seen = fan_out(lambda i: (dspy.settings.trace.append(i), dspy.settings.get("marker"))[1], range(4))
    assert seen == ["here"] * 4
    assert sorted(trace) == [0, 1, 2, 3]


def test_everything_runs_at_the_same_time() -> None:
    barrier = threading.Barrier(5, timeout=5)
    fan_out(lambda _: barrier.wait(), range(5))


def test_the_first_failure_is_raised() -> None:
    def fail(i: int) -> None:
        if i:
            raise ValueError(str(i))

    with pytest.raises(ValueError, match="1"):
        fan_out(fail, range(3))


def test_two_programs_with_different_engines_never_mix() -> None:
    def named(name: str) -> list[str]:
        with dspy.context(marker=name):
            return fan_out(lambda _: str(dspy.settings.get("marker")), range(20))

    found = fan_out(named, ["a", "b", "c"])
    assert found == [["a"] * 20, ["b"] * 20, ["c"] * 20]
