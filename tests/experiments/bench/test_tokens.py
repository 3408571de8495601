import csv
from pathlib import Path

import pytest
from click.testing import CliRunner

from coda_dspy.evaluation import Result
from coda_dspy.experiments.bench.tokens import Comparison, main, row_of_arm, row_of_comparison


def results(*answers: str, tokens: int) -> list[Result]:
    return [
        Result(f"q{i}", a, "0", a == "0", tokens=tokens, known_tokens=tokens, calls=4) for i, a in enumerate(answers)
    ]


def test_tokens_of_an_arm_are_set_against_its_right_answers() -> None:
    row = row_of_arm("vote", results("0", "1", "0", "2", tokens=100))
    assert (row["tokens a question"], row["tokens a right answer"], row["calls a question"]) == (100, 200, 4.0)


def test_an_arm_without_a_right_answer_has_no_price_for_one() -> None:
    assert row_of_arm("vote", results("1", tokens=100))["tokens a right answer"] == "unknown"


def test_an_arm_is_compared_by_tokens_and_answer_by_answer() -> None:
    found = {"few": results("0", "1", "0", tokens=30), "all": results("0", "0", "0", tokens=120)}
    row = row_of_comparison(Comparison("few", "all"), found)
    assert (row["share of its tokens"], row["same answer"]) == (0.25, "2 of 3")
    assert str(row["accuracy"]).startswith("-33.3%")


def test_on_drawn_answers_the_lossless_exit_answers_as_the_full_run_for_fewer_tokens(tmp_path: Path) -> None:
    shown = CliRunner().invoke(main, ["--limit", "9", "--votes", "5", "--output", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    saved = list(csv.DictReader((tmp_path / "tokens-saved.csv").read_text().splitlines()))
    lossless = [row for row in saved if row["arm"].endswith("lossless") and row["against"].endswith("full")]
    assert [row["same answer"] for row in lossless] == ["9 of 9"] * 2
    assert all(float(row["share of its tokens"]) < 1 for row in lossless)
    arms = {row["arm"]: row for row in csv.DictReader((tmp_path / "tokens.csv").read_text().splitlines())}
    assert float(arms["vote full"]["calls a question"]) == 5
    share = int(arms["vote lossless"]["tokens a question"]) / int(arms["vote full"]["tokens a question"])
    assert float(lossless[0]["share of its tokens"]) == pytest.approx(share, abs=0.01)


def test_an_engine_without_questions_is_refused() -> None:
    assert "belong together" in CliRunner().invoke(main, ["--engine", "local/x"]).output
