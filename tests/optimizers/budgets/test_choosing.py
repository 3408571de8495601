import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from coda_dspy.optimizers import Trial, pick
from coda_dspy.optimizers.budgets import PREFERENCES, compared, finalists, front


def trial(right: int, cost: float, n: int = 20, whole: bool = True) -> Trial:
    return Trial({"best_of_n": right}, tuple(i < right for i in range(n)), (cost,) * n, whole)


trials = st.lists(st.builds(trial, st.integers(0, 20), st.integers(1, 1000).map(float)), min_size=1, max_size=8)


def test_the_cheapest_within_one_standard_error_of_the_best_is_picked() -> None:
    best, close, far = trial(12, 1000), trial(10, 300), trial(5, 50)
    # The best's standard error is 0.1005: 10 of 20 is within it, 5 of 20 is not.
    assert pick([best, close, far]) is close
    assert pick([best, far]) is best


@pytest.mark.parametrize("right", [0, 1, 12, 39, 40])
def test_the_standard_error_is_that_of_wilsons_interval_and_never_0(right: int) -> None:
    low, high = binomtest(right, 40).proportion_ci(0.95, method="wilson")
    found = trial(right, 1, n=40).accuracy.standard_error
    assert found == pytest.approx((high - low) / (norm.ppf(0.975) - norm.ppf(0.025)))
    assert found > 0.02


def test_far_from_the_ends_the_standard_error_is_the_usual_one() -> None:
    assert trial(60, 1, n=100).accuracy.standard_error == pytest.approx((0.6 * 0.4 / 100) ** 0.5, rel=0.03)


def test_a_much_cheaper_budget_with_one_more_wrong_answer_is_near_the_best_that_is_always_right() -> None:
    best, close = trial(100, 1000, n=100), trial(99, 10, n=100)
    assert finalists([best, close], 2) == [close, best]


def test_accuracy_takes_the_best_and_among_equals_the_cheaper() -> None:
    best, equal, close = trial(12, 1000), trial(12, 900), trial(11, 10)
    assert pick([best, equal, close], "accuracy") is equal


def test_the_knee_stands_out_over_the_line_between_the_ends() -> None:
    cheap, knee, dear = trial(4, 100), trial(14, 200), trial(16, 1000)
    assert pick([cheap, knee, dear], "knee") is knee


def test_a_front_of_two_has_no_knee_and_the_usual_rule_decides() -> None:
    cheap, dear = trial(4, 100), trial(16, 1000)
    assert pick([cheap, dear], "knee") is pick([cheap, dear])


def test_a_trial_that_the_race_stopped_is_never_picked() -> None:
    whole, stopped = trial(5, 100), trial(8, 10, n=8, whole=False)
    assert all(pick([whole, stopped], prefer) is whole for prefer in ("cheapest", "accuracy", "knee"))


@given(trials)
def test_the_front_grows_in_accuracy_with_its_cost_and_dominates_the_rest(found: list[Trial]) -> None:
    kept = front(found)
    accuracies = [t.accuracy.value for t in kept]
    assert accuracies == sorted(set(accuracies))
    assert [t.cost for t in kept] == sorted(t.cost for t in kept)
    for other in found:
        assert any(t.accuracy.value >= other.accuracy.value and t.cost <= other.cost for t in kept)


@given(trials, st.integers(1, 5), st.sampled_from(PREFERENCES))
def test_the_finalists_hold_what_is_picked_and_the_best_and_are_no_more_than_asked_for(
    found: list[Trial], most: int, prefer: str
) -> None:
    near = finalists(found, most, prefer)
    assert 1 <= len(near) <= most
    assert pick(found, prefer) in near
    assert [t.cost for t in near] == sorted(t.cost for t in near)
    if most > 1:
        assert max(t.accuracy.value for t in found) == near[-1].accuracy.value


def test_a_round_that_is_better_within_noise_and_dearer_is_not_taken() -> None:
    progress = compared(trial(12, 100), trial(13, 200))
    assert not progress.taken and progress.within_noise
    assert "less than its noise" in str(progress) and "the earlier budget is taken" in str(progress)


def test_a_round_that_is_as_good_and_cheaper_is_taken() -> None:
    progress = compared(trial(12, 200), trial(12, 100))
    assert progress.taken and progress.within_noise
    assert progress.noise > 0  # though no question tells the two apart


def test_a_round_that_is_surely_better_is_taken_whatever_it_costs() -> None:
    progress = compared(trial(8, 100), trial(18, 900))
    assert progress.taken and not progress.within_noise


def test_rounds_are_compared_on_the_questions_of_both() -> None:
    assert compared(trial(8, 100, n=20), trial(8, 90, n=8)).gain == 0
