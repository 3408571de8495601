"""Votes that weigh what was learned of their paths, and the judges that were found to be better than chance."""

from collections.abc import Sequence
from typing import NamedTuple

from .ballot import Ballot, Scores, Selector


class Weighted(NamedTuple):
    """The weight of each class's votes, and of the judges that prefer it.

    Args:
        judges: Judges, and what the preference of each weighs.
    """

    judges: Sequence[tuple[Selector, int]] = ()

    def __call__(self, ballot: Ballot) -> Scores:
        """The sum of the weights; a judge that prefers no single class adds nothing."""
        values = [float(c.weight) for c in ballot.classes]
        trace: tuple[object, ...] = ()
        for judge, weight in self.judges:
            scores = judge(ballot)
            trace += scores.trace
            if scores.preferred is not None:
                values[scores.preferred] += weight
        return Scores(values, trace)
