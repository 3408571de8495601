import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coda_dspy.optimizers.budgets import Trial
from coda_dspy.optimizers.budgets.racing import is_dominated, rungs


def trial(right: str, cost: float, whole: bool = True) -> Trial:
    return Trial({"best_of_n": 1}, tuple(letter == "x" for letter in right), (cost,) * len(right), whole)


def test_rungs_double_and_end_with_all_questions() -> None:
    assert list(rungs(40)) == [8, 16, 32, 40]
    assert list(rungs(8)) == list(rungs(8)) == [8]
    assert list(rungs(3)) == [3]


@given(st.integers(1, 500))
def test_rungs_grow_and_never_pass_the_end(questions: int) -> None:
    found = list(rungs(questions))
    assert found == sorted(set(found))
    assert found[-1] == questions


def test_a_dearer_trial_that_is_surely_worse_is_dominated() -> None:
    assert is_dominated(trial(".....xxx", 200, whole=False), trial("xxxxxxxx", 100, whole=False), 40)


def test_a_cheaper_trial_is_never_dominated_by_a_dearer_one() -> None:
    assert not is_dominated(trial("........", 100, whole=False), trial("xxxxxxxx", 200), 8)


def test_a_trial_that_differs_by_chance_goes_on() -> None:
    assert not is_dominated(trial("..xxxxxx", 200, whole=False), trial("xxxxxxxx", 100, whole=False), 40)


def test_a_trial_that_can_no_longer_catch_up_is_dominated() -> None:
    # 3 of 8 so far; with all two of the rest it would have 5, and the rival has 6 of 10.
    assert is_dominated(trial("xxx.....", 200, whole=False), trial("xxxxxx....", 100), 10)
    assert not is_dominated(trial("xxxx....", 200, whole=False), trial("xxxxxx....", 100), 10)


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.floats(1, 100))
def test_no_trial_is_dominated_by_its_equal(right: list[bool], cost: float) -> None:
    same = Trial({}, tuple(right), (cost,) * len(right))
    assert not is_dominated(same, same, len(right))


@pytest.mark.parametrize("skill", [0.3, 0.6])
def test_a_trial_as_good_as_its_rival_is_seldom_stopped(skill: float) -> None:
    drawn = random.Random(7)
    stopped = 0
    for _ in range(400):
        right = [[drawn.random() < skill for _ in range(40)] for _ in range(2)]
        rival = Trial({}, tuple(right[0]), (1.0,) * 40, whole=False)
        for rung in (8, 16, 32):
            if is_dominated(Trial({}, tuple(right[1][:rung]), (2.0,) * rung, whole=False), rival, 40):
                stopped += 1
                break
    assert stopped / 400 < 0.12  # three looks at 5 % each
