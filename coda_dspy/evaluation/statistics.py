"""Accuracies and differences with their intervals; the arithmetic is scipy's."""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

from .result import Result


class Accuracy(NamedTuple):
    """Share of right answers with its 95 % Wilson interval, over `n` questions."""

    value: float
    low: float
    high: float
    n: int

    @property
    def standard_error(self) -> float:
        return sqrt(self.value * (1 - self.value) / self.n)

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}] (n = {self.n})"


def accuracy(results: Sequence[Result]) -> Accuracy:
    """Accuracy over at least one result, one sample a question."""
    from scipy.stats import binomtest

    right = sum(bool(result.correct) for result in results)
    interval = binomtest(right, len(results)).proportion_ci(method="wilson")
    return Accuracy(right / len(results), float(interval.low), float(interval.high), len(results))


class Difference(NamedTuple):
    """Difference of two accuracies on the same questions.

    Args:
        value: Second minus first.
        low: Lower end of the 95 % bootstrap interval over questions, as `high` is the upper end.
        high: See `low`.
        p_value: Of the exact sign test on the questions that only one of the two got right (McNemar).
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


def paired_difference(first: Sequence[Result], second: Sequence[Result], seed: int = 0) -> Difference:
    """Accuracy of `second` minus that of `first`, on the questions that both hold; there has to be at least one."""
    import numpy as np
    from scipy.stats import binomtest, bootstrap

    before = {result.id: bool(result.correct) for result in first}
    gains = np.array([int(bool(r.correct)) - int(before[r.id]) for r in second if r.id in before], dtype=float)
    value = float(gains.mean())
    # Where all gains are the same, every resample is too; the rule of three says what n of them leave possible.
    low, high = max(value - 3 / len(gains), -1.0), min(value + 3 / len(gains), 1.0)
    if np.ptp(gains) > 0:
        interval = bootstrap((gains,), np.mean, method="percentile", random_state=seed).confidence_interval
        low, high = float(interval.low), float(interval.high)
    won, decided = int((gains > 0).sum()), int((gains != 0).sum())
    p_value = float(binomtest(won, decided).pvalue) if decided else 1.0
    return Difference(value, low, high, p_value, len(gains))


def mean_tokens(results: Sequence[Result]) -> float | None:
    """Tokens a question; `None` where the engine reports no usage.

    A call whose connection was lost has no usage; where that is all that is missing, the mean is a lower bound.
    """
    if any(result.answer is not None and not result.known_tokens for result in results):
        return None
    return sum(result.known_tokens for result in results) / len(results)


def mean_seconds(results: Sequence[Result]) -> float:
    """Seconds a question took, in the company of those that ran beside it."""
    return sum(result.seconds for result in results) / len(results)
