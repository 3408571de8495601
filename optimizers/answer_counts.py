"""Fit the answer-count model: how an engine's answers to the questions of a pool spread."""

from collections.abc import Sequence

from coda_dspy.evaluation.statistics import Estimate, mean_of
from coda_dspy.learned import AnswerCounts, Concentration, Measured, Share
from coda_dspy.learned.answer_counts import likelihood

# From an engine that all but never changes its answer to one that hardly repeats one.
ALPHAS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
_ROUNDS = 500


def fit_answer_counts(counts: Sequence[Sequence[int]]) -> AnswerCounts | None:
    """The distribution of α that makes the counts likeliest, by expectation-maximization.

    One question more than there are, whose α may be any, keeps a few questions from ruling a value out.

    Args:
        counts: Votes of each answer, a question each. Questions with a single vote tell nothing.

    Returns:
        The model; `None` where there is no question with two votes.
    """
    import numpy as np

    told = [votes for votes in counts if sum(votes) > 1]
    if not told:
        return None
    alphas = np.array(ALPHAS)
    likely = np.array([likelihood(alphas, len(votes), sum(votes)) for votes in told])
    shares = np.full(len(alphas), 1 / len(alphas))
    for _ in range(_ROUNDS):
        of_each = likely * shares
        of_each /= of_each.sum(axis=1, keepdims=True)
        shares = (of_each.sum(axis=0) + 1 / len(alphas)) / (len(told) + 1)
    leading = mean_of([max(votes) / sum(votes) for votes in told])
    return AnswerCounts(
        concentrations=[Concentration(alpha=a, share=round(float(s), 4)) for a, s in zip(ALPHAS, shares, strict=True)],
        distinct=Measured(**_between(mean_of([len(votes) for votes in told]), 1, max(map(sum, told))), n=len(told)),
        leading=Share(**_between(leading, 0, 1), n=len(told)),
        questions=len(told),
        votes=sum(map(sum, told)),
    )


def _between(estimate: Estimate, least: float, most: float) -> dict[str, float]:
    return {name: min(max(value, least), most) for name, value in estimate._asdict().items()}
