"""The answer-count model: how an engine's answers to one question spread, and so when a vote may stop.

The idea is that of "Optimal Bayesian Stopping for Efficient Inference of Consistent LLM Answers" (arXiv 2602.05395):
how an engine's answers are distributed can be learned on earlier questions, and with such a prior a vote may stop
sooner than without. The model is our own. The paper asks for the mode of the distribution, has the ordered answer
probabilities (or candidates for them) as its prior, and keeps three counts: first, second, rest. Here it is the answer
of the full run that is foreseen, for that is what stopping early may lose, and it is computed exactly, from all counts:

- Answers to a question are drawn from a Dirichlet process: the next vote joins a class of m votes among n with
  probability m / (α + n), and is a new answer with α / (α + n) (Ewens' sampling formula). A small α stands for an
  engine that repeats itself, a large one for one that seldom does.
- Questions differ, so α has a distribution of its own: shares of a fixed list of values, fitted by maximum likelihood.
  The votes on a question say where among them its α is likely to lie.
- The probability that the present leader wins the full run is then a sum over how many of the votes to come it gets.
  Each rival is held below it, which truncates the power series (1 - z)^-m of its votes, and so is each class that is
  not there yet, which truncates the sum in exp(α Σ z^i / i).

Whoever stops at 95 % differs from the full run in at most 5 % of the questions, as far as the model is right.
"""

import sys
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from math import comb
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, model_validator

from coda_dspy.voting import AnswerClass, plurality

from .figures import Count, Fraction, Measured, Share, Stated

if TYPE_CHECKING:
    import numpy as np

LONGEST = 128  # votes to come: beyond it the sums take too long between two waves
_MOST_VOTES = 512  # cast so far: beyond it the terms of the sums leave the range of a float


class Concentration(Stated):
    """A value of α, and the share of the questions that it is for."""

    alpha: Annotated[float, Field(ge=0.001, le=100, allow_inf_nan=False)]
    share: Fraction


class AnswerCounts(Stated):
    """How the answers of one engine to questions of one kind spread.

    Args:
        concentrations: The distribution of α over questions.
        distinct: Different answers a question, in the votes that were counted.
        leading: Share of a question's votes that its leading answer has.
        questions: Questions with at least two votes: what it was fitted to.
        votes: Their votes.
    """

    concentrations: Annotated[list[Concentration], Field(min_length=1, max_length=32)]
    distinct: Measured
    leading: Share
    questions: Annotated[Count, Field(ge=1)]
    votes: Annotated[Count, Field(ge=2)]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        total = sum(c.share for c in self.concentrations)
        if abs(total - 1) > 1e-3:  # they are written with four decimals
            raise ValueError(f"the shares of the concentrations add up to {total}; they have to add up to 1")
        return self

    def leader_wins(self, classes: Sequence[AnswerClass], remaining: int, least: int = 1, most: int = 1) -> float:
        """Probability that the present leader is the plurality once all votes are in.

        Where the votes to come weigh differently, it is a lower bound: as if those for the leader weighed least and
        those for its rivals most.

        Args:
            classes: The classes so far.
            remaining: Votes that may still be cast, at most `LONGEST`.
            least: What each of them weighs at least.
            most: What each of them weighs at most.
        """
        import numpy as np

        leader = plurality(classes)
        cast = sum(c.votes for c in classes)
        if leader is None or cast > _MOST_VOTES:
            return 0.0
        alphas = tuple(c.alpha for c in self.concentrations)
        likely = self._shares_given(len(classes), cast)
        favourable = np.zeros(len(alphas))
        for gained in range(remaining + 1):
            ways = float(comb(leader.votes + gained - 1, gained))
            favourable += ways * _held(classes, leader, gained, remaining - gained, alphas, least, most)
        return float(likely @ (favourable / _series(alphas, cast, remaining)))

    def _shares_given(self, distinct: int, cast: int) -> "np.ndarray[Any, Any]":
        """The shares of α for a question with so many distinct answers among so many votes.

        By Ewens' formula only these two tell something of α: its likelihood is α^distinct over
        α (α + 1) … (α + cast - 1).
        """
        import numpy as np

        alphas = np.array([c.alpha for c in self.concentrations])
        weights = np.array([c.share for c in self.concentrations]) * likelihood(alphas, distinct, cast)
        return np.asarray(weights / weights.sum())


def likelihood(alphas: "np.ndarray[Any, Any]", distinct: int, cast: int) -> "np.ndarray[Any, Any]":
    """Likelihood of each α, up to a factor that is the same for all of them and makes the largest 1."""
    import numpy as np

    logs = distinct * np.log(alphas) - np.log(alphas[:, None] + np.arange(cast)).sum(axis=1)
    return np.asarray(np.exp(logs - logs.max()))


def _held(
    classes: Sequence[AnswerClass],
    leader: AnswerClass,
    gained: int,
    rest: int,
    alphas: tuple[float, ...],
    least: int,
    most: int,
) -> "np.ndarray[Any, Any]":
    """For each α, the weight of all ways in which `rest` votes go to others than the leader, and none of them wins."""
    import numpy as np

    bar = (leader.weight + gained * least, leader.votes + gained, -leader.members[0])

    def most_allowed(weight: int, votes: int, first: int) -> int:
        return bisect_left(range(rest + 1), bar, key=lambda y: (weight + y * most, votes + y, -first)) - 1

    product = np.ones(1)
    for rival in classes:
        if rival is not leader:
            allowed = most_allowed(rival.weight, rival.votes, rival.members[0])
            ways = [float(comb(rival.votes + y - 1, y)) for y in range(allowed + 1)]
            product = np.convolve(product, ways)[: rest + 1]
    new = _new_classes(alphas, most_allowed(0, 0, sys.maxsize), rest)
    padded = np.zeros(rest + 1)
    padded[: len(product)] = product
    return np.asarray(new @ padded[::-1])


@lru_cache(maxsize=4096)
def _new_classes(alphas: tuple[float, ...], largest: int, length: int) -> "np.ndarray[Any, Any]":
    """Coefficients of exp(α Σ z^i / i), i up to `largest`: a row for each α, powers 0 to `length`."""
    import numpy as np

    rows = np.zeros((len(alphas), length + 1))
    rows[:, 0] = 1.0
    for power in range(1, length + 1):
        rows[:, power] = np.array(alphas) / power * rows[:, max(power - largest, 0) : power].sum(axis=1)
    return rows


def _series(alphas: tuple[float, ...], cast: int, remaining: int) -> "np.ndarray[Any, Any]":
    """For each α, the weight of all ways in which the remaining votes may fall: the power of (1 - z)^-(α + cast)."""
    import numpy as np

    steps = np.arange(remaining)
    return np.asarray(np.prod((np.array(alphas)[:, None] + cast + steps) / (steps + 1), axis=1))
