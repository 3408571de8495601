import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, bootstrap, hypergeom

from coda_dspy.evaluation import Result
from coda_dspy.evaluation.statistics import accuracy, mean_tokens, paired_difference, pass_at


def results(pattern: str) -> list[Result]:
    return [Result(str(i), None, "1", letter == "+", tokens=10) for i, letter in enumerate(pattern)]


def test_the_wilson_interval_is_the_published_one() -> None:
    score = accuracy(results("+" * 8 + "-" * 2))
    assert score.value == pytest.approx(0.8)
    # Wilson interval of 8 of 10 at z = 1.96: (p + z²/2n ± z·sqrt(pq/n + z²/4n²)) / (1 + z²/n)
    assert (score.low, score.high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))


def test_a_clear_paired_gain_is_not_noise() -> None:
    difference = paired_difference(results("-" * 20 + "+" * 10), results("+" * 28 + "-" * 2))
    assert difference.value == pytest.approx(18 / 30)
    assert not difference.within_noise


@pytest.mark.parametrize("second", ["+-+-", "-+-+", "++++"])
def test_a_small_difference_is_noise(second: str) -> None:
    assert paired_difference(results("+-+-"), results(second)).within_noise


def test_a_gain_on_every_question_is_not_noise_and_on_too_few_it_is() -> None:
    assert not paired_difference(results("-" * 16), results("+" * 16)).within_noise
    assert paired_difference(results("-" * 3), results("+" * 3)).within_noise


def test_only_questions_that_both_answered_are_compared() -> None:
    assert paired_difference(results("++"), results("++--")).n == 2


def test_an_engine_that_reports_no_usage_has_unknown_tokens() -> None:
    results = [Result("a", "1", tokens=5, known_tokens=5, calls=1), Result("b", None, known_tokens=0, calls=1)]
    assert mean_tokens(results) is None


def test_a_lost_call_makes_the_mean_a_lower_bound_and_not_unknown() -> None:
    results = [Result("a", "1", tokens=None, known_tokens=5), Result("b", None, known_tokens=0)]
    assert mean_tokens(results) == 2.5


def sampled(rows: list[str]) -> list[Result]:
    """One question a row, one sample a letter."""
    return [Result(str(q), None, "1", c == "+", sample=k) for q, row in enumerate(rows) for k, c in enumerate(row)]


@given(st.integers(0, 12), st.integers(1, 12), st.integers(1, 12))
def test_pass_at_k_is_one_minus_the_chance_to_draw_only_wrong_samples(right: int, n: int, k: int) -> None:
    right, k = min(right, n), min(k, n)
    found = pass_at(sampled(["+" * right + "-" * (n - right)]), k)
    assert found is not None
    assert found.value == pytest.approx(1 - hypergeom(n, right, k).pmf(0))


def test_pass_at_k_needs_k_samples_of_every_question() -> None:
    assert pass_at(sampled(["++", "+"]), 2) is None


def test_with_several_samples_the_interval_is_a_bootstrap_over_questions() -> None:
    rows = ["++++", "----", "+---", "++--", "++++", "----", "----", "+++-"]
    means = np.array([row.count("+") / 4 for row in rows])
    expected = bootstrap((means,), np.mean, method="percentile", random_state=0, n_resamples=9_999).confidence_interval
    found = accuracy(sampled(rows))
    assert found.value == pytest.approx(means.mean())
    assert (found.low, found.high) == (pytest.approx(expected.low, abs=0.01), pytest.approx(expected.high, abs=0.01))
    assert found.n == 8


@given(st.integers(0, 30), st.integers(1, 30))
def test_wilsons_interval_is_the_librarys(right: int, n: int) -> None:
    right = min(right, n)
    expected = binomtest(right, n).proportion_ci(method="wilson")
    found = accuracy(results("+" * right + "-" * (n - right)))
    assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_the_sign_test_is_the_librarys() -> None:
    first, second = results("+" * 3 + "-" * 12 + "+" * 5), results("-" * 3 + "+" * 12 + "+" * 5)
    assert paired_difference(first, second).p_value == pytest.approx(binomtest(12, 15).pvalue)


def test_what_nobody_can_grade_does_not_count() -> None:
    ungraded = Result("x", "5", None, None)
    assert accuracy([*results("++-"), ungraded]).n == 3
