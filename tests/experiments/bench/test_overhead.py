import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from coda_dspy.experiments.bench import overhead, sides
from coda_dspy.experiments.bench.overhead import Spent, main, measure, rows_of


def test_wall_time_is_set_against_the_calls_that_wait_for_one_another_and_cpu_against_ours() -> None:
    ours, theirs = [Spent(0.18, 0.042, 21), Spent(0.15, 0.063, 21)], [Spent(0.5, 0.048, 24), Spent(0.4, 0.288, 24)]
    one, two = rows_of(0.05, {"coda_dspy": ours, "optillm": theirs})
    assert one["wall / critical path"] == pytest.approx((1.1, 1.0, 1.2))
    assert two["wall / critical path"] == pytest.approx((2.25, 2.0, 2.5))  # it has four steps
    assert two["CPU ms a call"] == pytest.approx((7.0, 2.0, 12.0))
    assert two["CPU a call / ours"] == pytest.approx((2.5, 1.0, 4.0))
    assert (one["calls"], two["calls"]) == (21, 24)


@pytest.mark.timeout(300)  # processes of its own, which import DSPy
def test_a_side_that_cannot_begin_is_left_out_and_ours_makes_all_its_calls() -> None:
    pythons = {"coda_dspy": sys.executable, "coda_dspy judged": sys.executable, "its_hub": "false"}
    spent = measure(0.001, pythons, rounds=1)
    assert {name: [one.calls for one in rounds] for name, rounds in spent.items()} == {
        "coda_dspy": [sides.CALLS],
        "coda_dspy judged": [sides.CALLS + 3],  # a rating for each attempt
    }


def test_what_is_left_out_is_said_with_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(overhead, "measure", lambda *arguments: {"coda_dspy": [Spent(0.2, 0.04, 21)]})
    shown = CliRunner().invoke(main, ["--peer-python", "its_hub=/no/python", "--output", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    text = (tmp_path / "overhead.md").read_text()
    assert "optillm is left out: no --peer-python optillm=PYTHON was given." in text
    assert "its_hub is left out: /no/python could not answer a first question" in text
    assert text.count("| coda_dspy | ") == 3  # 20, 50 and 200 ms


def test_an_unknown_peer_is_refused() -> None:
    assert "the peers are optillm and its_hub" in CliRunner().invoke(main, ["--peer-python", "x=y"]).output
