"""A study outlives its processes: what a killed one leaves behind, and what several do at the same moment."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coda_dspy import Budget
from coda_dspy.evaluation import Result
from coda_dspy.optimizers import BudgetSearch, Space
from coda_dspy.optimizers.budgets import Point, Trial, point_name
from coda_dspy.optimizers.budgets.study import Asked, Study

SPACE = Space({"num_attempts_baseline": (0, 1, 3), "num_attempts_coda": (0, 1), "best_of_n": (1, 2), "n_plans": (1, 2)})
LARGE = Space({"num_attempts_baseline": tuple(range(12)), "num_attempts_coda": (0, 1), "n_plans": tuple(range(1, 9))})
POINT = {"num_attempts_baseline": 1}


def measured(point: Point, part: slice) -> list[Result]:
    cost = 10 * point["num_attempts_baseline"] + 50 * point.get("n_plans", 0)
    right = 2 + min(cost // 20, 6)
    return [Result(str(i), "1", "1", i < right, known_tokens=cost, tokens=cost) for i in range(10)[part]]


def search(storage: Path | str, space: Space = SPACE, seed: int = 0) -> BudgetSearch:
    return BudgetSearch(space, Study(storage, seed=seed), Budget())


def names(trials: list[Trial]) -> list[str]:
    return [point_name(trial.point) for trial in trials]


def left_by_a_killed_process(url: str, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """A point that is being measured, by somebody who was killed before the first beat."""
    with monkeypatch.context() as patched:
        patched.setattr(Asked, "_beat", lambda asked: None)
        asked = Study(url).take(POINT, SPACE)
    assert asked is not None
    return asked


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("coda_dspy.optimizers.budgets.study._BEAT", 0.5)
    monkeypatch.setattr("coda_dspy.optimizers.budgets.search.MOMENT", 0.05)
    return f"sqlite:///{tmp_path}/study.db"


@pytest.mark.parametrize("lock", [lambda path: path.touch(), lambda path: path.symlink_to("run/study.log")])
@pytest.mark.timeout(20)
def test_a_lock_that_a_killed_process_held_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock: Callable[[Path], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    Study(Path("run/study.log"))
    lock(Path("run/study.log.lock"))
    assert Study(Path("run/study.log")).take(POINT, SPACE) is not None


@settings(max_examples=15, deadline=None)
@given(cut=st.floats(0, 1))
def test_a_journal_that_was_torn_anywhere_keeps_every_trial_before(
    tmp_path_factory: pytest.TempPathFactory, cut: float
) -> None:
    path = tmp_path_factory.mktemp("torn") / "study.log"
    whole = search(path).run(measured, 10, 2)
    content = path.read_bytes()
    path.write_bytes(content[: int(cut * len(content))])
    kept = Study(path).ended()
    assert kept == whole[: len(kept)]
    assert search(path).run(measured, 10, 2) == whole
    assert Study(path).ended() == whole


def test_a_journal_that_is_damaged_in_the_middle_is_told_set_aside_and_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "study.log"
    whole = search(path).run(measured, 10, 2)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[2][:5] + b"\n", *lines[3:]]))
    damaged = path.read_bytes()
    assert Study(path).ended() == []
    assert "study.log, line 3 is damaged" in caplog.text and "it is kept as study.log.damaged" in caplog.text
    assert (tmp_path / "study.log.damaged").read_bytes() == damaged
    assert search(path).run(measured, 10, 2) == whole


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("broken_after", [1, 7, 13, 18])
def test_a_search_that_broke_goes_on_to_the_very_same_budgets(tmp_path: Path, seed: int, broken_after: int) -> None:
    def breaks(point: Point, part: slice) -> list[Result]:
        if len(begun) == broken_after and part.start == 0:
            raise KeyboardInterrupt
        begun.update({point_name(point): None})
        return measured(point, part)

    begun: dict[str, None] = {}
    whole = search(tmp_path / "whole.log", LARGE, seed).run(measured, 10, 20)
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "broken.log", LARGE, seed).run(breaks, 10, 20)
    assert search(tmp_path / "broken.log", LARGE, seed).run(measured, 10, 20) == whole
    assert len(set(names(whole))) == 20


@pytest.mark.parametrize("most_to_list", [50_000, 0])
def test_no_sampled_search_ends_while_budgets_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_to_list: int
) -> None:
    every = {point_name(point) for point in SPACE.every(Budget())}
    monkeypatch.setattr("coda_dspy.optimizers.budgets.space._MOST_TO_LIST", most_to_list)
    monkeypatch.setattr("coda_dspy.optimizers.budgets.search.MOST_TO_ENUMERATE", 0)
    found = search(tmp_path / "study.log")
    trials = found.run(measured, 10, 1000)
    assert not found.enumerated
    assert every <= set(names(trials))
    assert len(trials) == len(set(names(trials)))
    assert not most_to_list or len(trials) == found.most(1000)


def test_a_point_that_many_take_at_once_is_measured_by_one(url: str) -> None:
    studies = [Study(url) for _ in range(4)]
    together = threading.Barrier(len(studies))
    points = [{"num_attempts_baseline": 3, "num_attempts_coda": 1, "n_plans": plans} for plans in range(1, 6)]

    def take(study: Study, point: Point) -> bool:
        together.wait()
        return study.take(point, LARGE) is not None

    with ThreadPoolExecutor(len(studies)) as pool:
        for point in points:
            assert sum(pool.map(take, studies, [point] * len(studies))) == 1


def test_workers_suggest_the_same_only_until_one_has_taken_it(url: str) -> None:
    one, other = Study(url), Study(url)
    first = one.suggest(LARGE, Budget(), ())
    assert first is not None and first == other.suggest(LARGE, Budget(), ())
    assert one.take(first, LARGE) is not None
    assert other.take(first, LARGE) is None
    second = other.suggest(LARGE, Budget(), other.taken().names)
    assert second is not None and second != first


def test_what_a_process_took_that_died_before_its_first_beat_is_free_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_by_a_killed_process(url, monkeypatch)
    living = Study(url)
    assert living.taken() == ({"baseline1"}, True)
    assert _waits_until(lambda: living.taken() == (set(), False))


def test_what_a_living_process_measures_stays_its_own(url: str) -> None:
    asked, other = Study(url).take(POINT, SPACE), Study(url)
    assert asked is not None
    assert not _waits_until(lambda: not other.taken().names, seconds=3.0)
    asked.give_up()
    assert other.taken() == (set(), False)


def test_a_search_measures_what_a_dead_worker_left_and_leaves_out_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_by_a_killed_process(url, monkeypatch)
    found = search(url)
    trials = found.run(measured, 10, 100)
    assert len(trials) == len(set(names(trials))) == found.most(100)
    assert "baseline1" in names(trials)


def test_a_search_waits_for_what_another_process_is_measuring(url: str) -> None:
    asked = Study(url).take(POINT, SPACE)
    assert asked is not None
    trial = Trial(POINT, (True,) * 10, (10.0,) * 10)
    found = search(url)
    waiting = threading.Timer(1.0, asked.tell, [trial])
    waiting.start()
    assert trial in found.run(measured, 10, 100)


def test_a_process_that_was_taken_for_dead_does_no_harm_when_it_ends(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = left_by_a_killed_process(url, monkeypatch)
    trials = search(url).run(measured, 10, 100)
    silent.tell(Trial(POINT, (False,) * 10, (1.0,) * 10))
    silent.give_up()
    assert Study(url).ended() == trials


def _waits_until(reached: Callable[[], bool], seconds: float = 20.0) -> bool:
    ends = time.monotonic() + seconds
    while not (found := reached()) and time.monotonic() < ends:
        time.sleep(0.05)
    return found
