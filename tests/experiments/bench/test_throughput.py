import pytest

from coda_dspy.experiments.bench.throughput import Run, row_of, run, shares


def test_shares_are_the_busy_time_over_the_allowed_time() -> None:
    full = shares([0.0, 0.0, 5.0, 5.0], latency=5.0, capacity=2, until=10.0)
    half = shares([0.0, 5.0], latency=5.0, capacity=2, until=10.0)
    first = shares([0.0, 0.0], latency=5.0, capacity=2, until=10.0)
    assert full == pytest.approx([1.0] * 10)
    assert half == pytest.approx([0.5] * 10)
    assert first == pytest.approx([1.0] * 5 + [0.0] * 5)


def test_the_tenths_are_those_of_the_median_round_and_failures_of_all_rounds() -> None:
    runs = [Run([share] * 10, 30, refused, failed=1) for share, refused in ((0.5, 1), (1.0, 5), (0.75, 3))]
    row = row_of(8, 0.2, runs)
    assert row["share used"] == (0.75, 0.5, 1.0)
    assert row["calls in flight, by tenths"] == "6 6 6 6 6 6 6 6 6 6"
    assert (row["refused"], row["questions failed"]) == ((3, 1, 5), 3)


@pytest.mark.timeout(300)  # processes of its own, which import DSPy
def test_a_run_counts_the_calls_of_the_server_and_loses_no_question() -> None:
    found = run(capacity=3, rate=300.0, questions=3, at_once=2)
    assert (found.calls, found.failed, len(found.used)) == (3 * 21, 0, 10)
    assert found.refused > 0
