"""Votes that weigh what was learned of their paths, and the judges that were found to be better than chance."""

from collections.abc import Sequence
from typing import NamedTuple

from .ballot import Ballot, Scores, Selector


class Weighted(NamedTuple):
    """The weight of each class's votes, of the paths that agree on it, and of the judges that prefer it.

    Args:
        judges: Judges, and what the preference of each weighs.
        corroboration: What it weighs that a class was reached both in words and by program.
    """

    judges: Sequence[tuple[Selector, int]] = ()
    corroboration: int = 0

    def __call__(self, ballot: Ballot) -> Scores:
        """The sum of the weights; a judge that prefers no single class adds nothing.

        Those that weigh most are asked first, and the rest only as long as they could still change the choice.
        """
        places = range(len(ballot.classes))
        values = [float(ballot.classes[i].weight + self.corroboration * ballot.is_corroborated(i)) for i in places]
        trace: tuple[object, ...] = ()
        left = sum(weight for _, weight in self.judges)
        for judge, weight in sorted(self.judges, key=lambda one: one[1], reverse=True):
            if _lead(values) > left:
                break
            left -= weight
            scores = judge(ballot)
            trace += scores.trace
            if scores.preferred is not None:
                values[scores.preferred] += weight
        return Scores(values, trace)


def _lead(values: Sequence[float]) -> float:
    """By how much the best value is ahead of the next."""
    *_, second, first = sorted([*values, float("-inf")])
    return first - second
