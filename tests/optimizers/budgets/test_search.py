import multiprocessing
from collections import Counter
from pathlib import Path

import pytest

from coda_dspy import Budget
from coda_dspy.errors import UserError
from coda_dspy.evaluation import Result
from coda_dspy.optimizers import BudgetSearch, Prices, Space
from coda_dspy.optimizers.budgets import Point, point_name
from coda_dspy.optimizers.budgets.study import Study

SPACE = Space({"num_attempts_baseline": (0, 1, 3), "num_attempts_coda": (0, 1), "best_of_n": (1, 2), "n_plans": (1, 2)})
LARGE = Space({"num_attempts_baseline": tuple(range(12)), "num_attempts_coda": (0, 1), "n_plans": tuple(range(1, 9))})
PAPERS = "baseline3-coda1-best3-plans2-coding3-refine2"
ALL = {point_name(p) for p in SPACE.points(Budget()) or []} | {PAPERS}


def measured(point: Point, part: slice = slice(0, 10)) -> list[Result]:
    runs = point.get("best_of_n", 1) * point.get("num_attempts_coda", 0)
    cost = 10 * (point["num_attempts_baseline"] + 5 * runs * point.get("n_plans", 0))
    right = 2 + (point["num_attempts_baseline"] >= 3) + 2 * runs
    return [Result(str(i), "1", "1", i < right, known_tokens=cost, tokens=cost) for i in range(10)[part]]


def search(tmp_path: Path, space: Space = SPACE) -> BudgetSearch:
    return BudgetSearch(space, Study(tmp_path / "study.log"), Budget())


class Asking:
    """Measures, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, point: Point, part: slice) -> list[Result]:
        results = measured(point, part)
        self.asked[point_name(point)] += len(results)
        return results


def test_a_small_space_is_searched_as_a_whole_with_the_papers_settings_and_every_point_once(tmp_path: Path) -> None:
    asking = Asking()
    trials = search(tmp_path).run(asking, 10, max_trials=100)
    assert set(asking.asked) == ALL
    assert max(asking.asked.values()) == 10
    assert {point_name(t.point) for t in trials} == ALL


def test_three_trials_suffice_for_the_plain_engine_the_vote_and_the_paper(tmp_path: Path) -> None:
    names = [point_name(t.point) for t in search(tmp_path).run(measured, 10, max_trials=3)]
    assert names == ["baseline1", "baseline3-coda0", PAPERS]


def test_the_papers_settings_can_be_left_out(tmp_path: Path) -> None:
    found = BudgetSearch(SPACE, Study(tmp_path / "study.log"), Budget(), paper=False)
    assert {point_name(t.point) for t in found.run(measured, 10, 100)} == ALL - {PAPERS}


def test_a_search_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first, second = Asking(), Asking()
    search(tmp_path).run(first, 10, 4)
    trials = search(tmp_path).run(second, 10, 100)
    assert len(first.asked) == 4
    assert not set(first.asked) & set(second.asked)
    assert {point_name(t.point) for t in trials} == ALL


def test_a_search_that_ended_gives_the_same_trials_again(tmp_path: Path) -> None:
    first = search(tmp_path).run(measured, 10, 100)
    again = search(tmp_path).run(lambda point, part: pytest.fail("asked again"), 10, 100)
    assert again == first


def test_a_trial_that_died_with_its_process_is_measured_again(tmp_path: Path) -> None:
    def die(point: Point, part: slice) -> list[Result]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(tmp_path).run(die, 10, 100)
    assert {point_name(t.point) for t in search(tmp_path).run(measured, 10, 100)} == ALL


def test_the_search_stops_when_it_should_not_go_on(tmp_path: Path) -> None:
    assert len(search(tmp_path).run(measured, 10, 100, keep_going=lambda: False)) == 1


def test_a_trial_without_time_is_left_for_later(tmp_path: Path) -> None:
    assert search(tmp_path).run(lambda point, part: None, 10, 100) == []
    assert {point_name(t.point) for t in search(tmp_path).run(measured, 10, 100)} == ALL


def test_a_large_space_is_sampled_after_the_plain_engine_the_vote_and_the_paper(tmp_path: Path) -> None:
    found = search(tmp_path, LARGE)
    assert not found.enumerated
    names = [point_name(t.point) for t in found.run(measured, 10, 12)]
    assert len(set(names)) == 12
    assert names[0] == "baseline1"
    assert names[1] == "baseline11-coda0"
    assert names[2] == "baseline3-coda1-plans2-coding3-refine2"


def test_a_trial_that_others_dominate_is_stopped_early(tmp_path: Path) -> None:
    def hopeless_with_coda(point: Point, part: slice) -> list[Result]:
        coda = bool(point.get("num_attempts_coda"))
        return [Result(str(i), "1", "1", not coda, known_tokens=9 if coda else 1) for i in range(40)[part]]

    asked: Counter[str] = Counter()

    def measure(point: Point, part: slice) -> list[Result]:
        results = hopeless_with_coda(point, part)
        asked[point_name(point)] += len(results)
        return results

    trials = search(tmp_path).run(measure, 40, 100)
    for trial in trials:
        coda = bool(trial.point.get("num_attempts_coda"))
        assert trial.whole is not coda
        assert asked[point_name(trial.point)] == len(trial.right) == (8 if coda else 40)


def test_the_rungs_of_a_trial_are_told(tmp_path: Path) -> None:
    told: list[int] = []
    search(tmp_path).run(lambda p, part: measured(p, part), 10, 1, on_rung=lambda t: told.append(len(t.right)))
    assert told == [8, 10]


def test_an_engine_that_reports_no_usage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not report the usage"):
        search(tmp_path).run(lambda p, part: [Result("a", answer="1", correct=True, calls=1)], 10, 100)


def test_with_prices_cost_is_money(tmp_path: Path) -> None:
    stages = {"direct": {"tokens_in": 1_000_000, "tokens_out": 500_000}}
    result = Result("a", "1", "1", True, tokens=1_500_000, calls=1, stages=stages)
    (trial,) = search(tmp_path).run(lambda p, part: [result], 1, 1, prices=Prices(0.1, 0.4))
    assert trial.cost == pytest.approx(0.1 + 0.2)


def _work(url: str, folder: str, die: bool) -> None:
    """A worker of its own process; one dies in the middle of its second trial."""
    begun = 0

    def measure(point: Point, part: slice) -> list[Result]:
        nonlocal begun
        begun += part.start == 0
        if die and begun == 2:
            raise SystemExit(9)
        with Path(folder, "asked").open("a") as file:
            file.write(f"{point_name(point)} {part.start}\n")
        return measured(point, part)

    BudgetSearch(SPACE, Study(url), Budget()).run(measure, 10, 100)


def test_workers_that_share_a_database_share_the_work_and_one_may_die(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    Study(url)  # made once, before workers race for it
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_work, args=(url, str(tmp_path), die)) for die in (True, False)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    asked = (tmp_path / "asked").read_text().split("\n")[:-1]
    assert len(asked) == len(set(asked))
    names = {line.split()[0] for line in asked}
    assert len(ALL - names) <= 1  # what the dead one had taken; it is free again once its beats have been missed

    monkeypatch.setattr("coda_dspy.optimizers.budgets.study._BEAT", 0.5)
    trials = BudgetSearch(SPACE, Study(url), Budget()).run(measured, 10, 100)
    assert {point_name(t.point) for t in trials} == ALL


def test_a_database_that_cannot_be_used_is_told_without_its_password() -> None:
    with pytest.raises(UserError, match="cannot be used") as caught:
        Study("postgresql://me:verysecret@127.0.0.1:1/nothing")
    assert "verysecret" not in str(caught.value)
