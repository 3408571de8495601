"""Accuracies and differences with their intervals; the arithmetic is scipy's.

The unit is the question: several samples of one question are averaged first, for they are not independent.
"""

import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from math import comb
from statistics import NormalDist
from typing import Any, NamedTuple

from .result import Result

RESAMPLES = 9_999
_SIGMAS = NormalDist().inv_cdf(0.975)  # standard errors on either side in a 95 % interval


class Accuracy(NamedTuple):
    """Share of right answers with its 95 % interval, over `n` questions.

    One sample a question: Wilson's interval. Several: a bootstrap over questions.
    """

    value: float
    low: float
    high: float
    n: int

    @property
    def standard_error(self) -> float:
        """What the interval stands for: unlike sqrt(p (1 - p) / n), not 0 where all answers are right, or none."""
        return (self.high - self.low) / (2 * _SIGMAS)

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}] (n = {self.n})"


class Estimate(NamedTuple):
    """A figure with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


class Difference(NamedTuple):
    """Difference of two accuracies on the same questions.

    Args:
        value: Second minus first.
        low: Lower end of the 95 % bootstrap interval over questions, as `high` is the upper end.
        high: See `low`.
        p_value: Of the exact sign test on the questions on which the two differ (McNemar's, for one sample each).
        n: Questions that both answered.
    """

    value: float
    low: float
    high: float
    p_value: float
    n: int

    @property
    def within_noise(self) -> bool:
        return self.p_value > 0.05

    def __str__(self) -> str:
        interval = f"[{self.low:+.1%}, {self.high:+.1%}]"
        return f"{self.value:+.1%} {interval} (n = {self.n}, paired, p = {self.p_value:.2g})"


def by_question(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The graded results of each question, in the order in which the questions come first."""
    found: defaultdict[str, list[Result]] = defaultdict(list)
    for result in results:
        if result.correct is not None:
            found[result.id].append(result)
    return dict(found)


def accuracy(results: Sequence[Result]) -> Accuracy:
    """Accuracy over at least one graded result; results that nobody can grade do not count."""
    grouped = list(by_question(results).values())
    means = [sum(bool(r.correct) for r in group) / len(group) for group in grouped]
    if all(len(group) == 1 for group in grouped):
        from scipy.stats import binomtest

        interval = binomtest(int(sum(means)), len(means)).proportion_ci(method="wilson")
        return Accuracy(sum(means) / len(means), float(interval.low), float(interval.high), len(means))
    return Accuracy(*_within(mean_of(means), 0.0, 1.0), len(means))


def pass_at(results: Sequence[Result], k: int) -> Estimate | None:
    """pass@k: whether any of k samples is right, by the unbiased estimator 1 - C(n-c, k) / C(n, k).

    `None` where a question has fewer than k samples.
    """
    groups = list(by_question(results).values())
    if not groups or any(len(group) < k for group in groups):
        return None
    values = []
    for group in groups:
        wrong = sum(not result.correct for result in group)
        values.append(1 - comb(wrong, k) / comb(len(group), k))
    return _within(mean_of(values), 0.0, 1.0)


def recall(results: Sequence[Result]) -> Estimate | None:
    """recall@N: share of questions one of whose candidates is right; `None` where candidates were not graded."""
    return _mean_by_question(results, lambda result: result.recalled)


def hit_rate(results: Sequence[Result]) -> Estimate | None:
    """Accuracy of one candidate drawn by chance; `None` where candidates were not graded."""
    return _mean_by_question(results, lambda result: result.hit_rate)


def _mean_by_question(results: Sequence[Result], figure: Callable[[Result], float | None]) -> Estimate | None:
    means = []
    for group in by_question(results).values():
        values = [figure(result) for result in group]
        known = [float(value) for value in values if value is not None]
        if len(known) < len(values):
            return None
        means.append(sum(known) / len(known))
    return _within(mean_of(means), 0.0, 1.0) if means else None


def paired_difference(first: Sequence[Result], second: Sequence[Result]) -> Difference:
    """Accuracy of `second` minus that of `first`, on the questions that both hold; there has to be at least one."""
    from scipy.stats import binomtest

    before, after = by_question(first), by_question(second)
    gains = [_mean(after[name]) - _mean(before[name]) for name in before if name in after]
    value, low, high = _within(mean_of(gains), -1.0, 1.0)
    won, decided = sum(gain > 0 for gain in gains), sum(gain != 0 for gain in gains)
    p_value = float(binomtest(won, decided).pvalue) if decided else 1.0
    return Difference(value, low, high, p_value, len(gains))


def _mean(group: Sequence[Result]) -> float:
    return sum(bool(result.correct) for result in group) / len(group)


def mean_of(values: Sequence[float]) -> Estimate:
    """A mean with its bootstrap interval.

    Where all values are the same, every resample is too; the rule of three says what n of them leave possible.
    """
    import numpy as np

    array = np.asarray(values, dtype=float)
    if np.ptp(array) == 0:
        return Estimate(float(array[0]), float(array[0]) - 3 / len(array), float(array[0]) + 3 / len(array))
    return Estimate(float(array.mean()), *_bootstrapped((array,), np.mean))


def gap_closure(selected: Sequence[float], chance: Sequence[float], found: Sequence[float]) -> Estimate | None:
    """(selected - chance) / (found - chance): what a selector makes of what there is to choose, 0 to 1 (or less).

    Args:
        selected: Accuracy of the selected answer, a question each.
        chance: Accuracy of a candidate drawn by chance, of the same questions.
        found: Whether any candidate is right.

    Returns:
        With a bootstrap interval over questions; `None` where there is no gap to close, or a single question.
    """
    import numpy as np

    arrays = tuple(np.asarray(values, dtype=float) for values in (selected, chance, found))

    def closure(s: Any, c: Any, f: Any, axis: int = -1) -> Any:
        gap = f.mean(axis=axis) - c.mean(axis=axis)
        return np.where(gap > 0, (s.mean(axis=axis) - c.mean(axis=axis)) / np.where(gap > 0, gap, 1.0), np.nan)

    value = float(closure(arrays[0], arrays[1], arrays[2]))
    if np.isnan(value):
        return None
    if len(arrays[0]) < 2:
        return None
    return Estimate(value, *_bootstrapped(arrays, closure))


def closure_of(results: Sequence[Result]) -> Estimate | None:
    """Gap closure of results whose candidates were graded, by question; `None` where they were not."""
    groups = by_question(results).values()
    if any(result.recalled is None or result.hit_rate is None for group in groups for result in group):
        return None
    columns = [[_mean_of(group, part) for group in groups] for part in ("correct", "hit_rate", "recalled")]
    return gap_closure(*columns) if columns[0] else None


def _mean_of(group: Sequence[Result], part: str) -> float:
    return sum(float(getattr(result, part)) for result in group) / len(group)


def _bootstrapped(arrays: tuple[Any, ...], statistic: Callable[..., Any]) -> tuple[float, float]:
    """Ends of the 95 % percentile interval over questions; resamples without a value are left out."""
    import numpy as np
    from scipy.stats import DegenerateDataWarning, bootstrap

    settings: dict[str, Any] = {"paired": True, "vectorized": True, "method": "percentile", "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)  # of resamples without a gap
        found = bootstrap(arrays, statistic, n_resamples=RESAMPLES, **settings)
    low, high = np.nanpercentile(found.bootstrap_distribution, (2.5, 97.5))
    return float(low), float(high)


def _within(estimate: Estimate, least: float, most: float) -> Estimate:
    return Estimate(estimate.value, max(estimate.low, least), min(estimate.high, most))


def mean_tokens(results: Sequence[Result]) -> float | None:
    """Tokens a question; `None` where the engine reports no usage.

    A call whose connection was lost has no usage; where that is all that is missing, the mean is a lower bound.
    """
    if any(result.calls and result.tokens is None and not result.known_tokens for result in results):
        return None
    return sum(result.known_tokens for result in results) / len(results)


def mean_seconds(results: Sequence[Result]) -> float:
    """Seconds a question took, in the company of those that ran beside it."""
    return sum(result.seconds for result in results) / len(results)
