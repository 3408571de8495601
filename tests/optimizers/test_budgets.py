from pathlib import Path

import pytest

from coda_dspy import Budget
from coda_dspy.errors import UserError
from coda_dspy.evaluation import Result
from coda_dspy.evaluation.statistics import accuracy
from coda_dspy.optimizers import BudgetSearch, Space, Trial, pick_cheapest
from coda_dspy.optimizers.budgets import budget_at, point_name

SPACE = Space((0, 1, 3), (0, 1, 2), (1, 2))


def measured(point: dict[str, int]) -> list[Result]:
    tokens = 10 * (point["num_attempts_baseline"] + 5 * point.get("best_of_n", 0) * point.get("n_plans", 0))
    right = 2 + (point["num_attempts_baseline"] >= 3) + 2 * point.get("best_of_n", 0)
    return [Result(str(i), "1", "1", i < right, known_tokens=tokens) for i in range(10)]


def test_the_space_holds_each_budget_once_and_none_that_tries_nothing() -> None:
    points = SPACE.points()
    names = [point_name(p) for p in points]
    assert len(set(names)) == len(names) == 1 + (1 + 4) + 4
    assert names[0] == "baseline1"
    assert "baseline0-best0" not in names


@pytest.mark.parametrize("point", SPACE.points(), ids=point_name)
def test_every_point_is_a_valid_budget(point: dict[str, int]) -> None:
    budget = budget_at(Budget(), point)
    assert budget.num_attempts_baseline == point["num_attempts_baseline"]
    assert bool(budget.num_attempts_coda) == bool(point.get("best_of_n"))


def test_a_small_space_is_searched_as_a_whole_and_every_point_once(tmp_path: Path) -> None:
    asked: list[str] = []

    def measure(point: dict[str, int]) -> list[Result]:
        asked.append(point_name(point))
        return measured(point)

    trials = BudgetSearch(SPACE, tmp_path / "study.log").run(measure, max_trials=100)
    assert sorted(asked) == sorted(map(point_name, SPACE.points()))
    assert len(trials) == len(asked)


def test_a_search_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first: list[str] = []
    BudgetSearch(SPACE, tmp_path / "s.log").run(lambda p: (first.append(point_name(p)), measured(p))[1], 4)
    second: list[str] = []
    search = BudgetSearch(SPACE, tmp_path / "s.log")
    trials = search.run(lambda p: (second.append(point_name(p)), measured(p))[1], 100)
    assert len(first) == 4
    assert not set(first) & set(second)
    assert len(trials) == len(SPACE.points())


def test_a_trial_that_died_with_its_process_is_measured_again(tmp_path: Path) -> None:
    def die(point: dict[str, int]) -> list[Result]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        BudgetSearch(SPACE, tmp_path / "s.log").run(die, 100)
    assert len(BudgetSearch(SPACE, tmp_path / "s.log").run(measured, 100)) == len(SPACE.points())


def test_the_search_stops_when_it_should_not_go_on(tmp_path: Path) -> None:
    assert len(BudgetSearch(SPACE, tmp_path / "s.log").run(measured, 100, keep_going=lambda: False)) == 1


def test_a_large_space_is_sampled(tmp_path: Path) -> None:
    large = Space(tuple(range(12)), tuple(range(6)), (1, 2, 3))
    assert len(large.points()) > 64
    assert len(BudgetSearch(large, tmp_path / "s.log").run(measured, 5)) == 5


def test_an_engine_that_reports_no_usage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not report the usage"):
        BudgetSearch(SPACE, tmp_path / "s.log").run(lambda p: [Result("a", answer="1", correct=True, calls=1)], 100)


def trial(right: int, tokens: float, n: int = 20) -> Trial:
    return Trial(
        {"num_attempts_baseline": right}, accuracy([Result(str(i), correct=i < right) for i in range(n)]), tokens
    )


def test_the_cheapest_within_one_standard_error_of_the_best_is_picked() -> None:
    best, close, far = trial(12, 1000), trial(10, 300), trial(5, 50)
    # The best's standard error is sqrt(0.6 · 0.4 / 20) = 0.11: 10 of 20 is within it, 5 of 20 is not.
    assert pick_cheapest([best, close, far]) is close
    assert pick_cheapest([best, far]) is best
