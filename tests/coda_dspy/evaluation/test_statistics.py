import pytest

from coda_dspy.evaluation import Result
from coda_dspy.evaluation.statistics import accuracy, mean_tokens, paired_difference


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
    assert mean_tokens([Result("a", "1", known_tokens=5), Result("b", "1", known_tokens=0)]) is None


def test_a_lost_call_makes_the_mean_a_lower_bound_and_not_unknown() -> None:
    results = [Result("a", "1", tokens=None, known_tokens=5), Result("b", None, known_tokens=0)]
    assert mean_tokens(results) == 2.5
