import csv
from pathlib import Path

from coda_dspy.experiments.bench.measuring import Spread, publish


def test_a_spread_is_the_median_the_least_and_the_most() -> None:
    assert Spread.of([5.0, 1.0, 2.0]) == (2.0, 1.0, 5.0)
    assert str(Spread.of([1.25, 1.0, 2.0, 1.25])) == "1.25 (1–2)"


def test_figures_are_written_for_people_and_as_plain_numbers(tmp_path: Path) -> None:
    rows = [{"side": name, "ratio": Spread(2 / 3, 0.5, 0.75), "calls": 21} for name in ("ours", "theirs")]
    publish("overhead", rows, ["2 rounds."], tmp_path)
    text = (tmp_path / "overhead.md").read_text()
    assert "| ours | 0.667 (0.5–0.75) | 21 |\n| theirs |" in text
    assert text.endswith("\n\n2 rounds.\n")
    (first, _) = csv.DictReader((tmp_path / "overhead.csv").read_text().splitlines())
    assert first == {
        "side": "ours",
        "ratio": str(2 / 3),
        "ratio low": "0.5",
        "ratio high": "0.75",
        "calls": "21",
    }
