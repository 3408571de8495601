"""A pairwise judge: compares classes two by two, in both orders."""

import re
from itertools import combinations

import dspy

from coda_dspy.calling import Reply
from coda_dspy.concurrency import fan_out
from coda_dspy.signatures import CompareSolutions

from .ballot import Ballot, Scores
from .judging import judged, last_number, traces

ENDING = "End with one line: Better: 1 or Better: 2"
_CHOICE = re.compile(r"\bbetter[\s:=*\[]{0,6}(?:solution\s*)?([12])\b", re.IGNORECASE)


class Pairwise(dspy.Module):
    """A point for each order won, none for a verdict that cannot be read."""

    def __init__(self) -> None:
        super().__init__()
        self.compare = dspy.Predict(CompareSolutions)

    def forward(self, ballot: Ballot) -> Scores:
        """The points of each class over all pairs."""
        pairs = [pair for a, b in combinations(range(len(ballot.classes)), 2) for pair in ((a, b), (b, a))]
        replies = fan_out(lambda pair: self._compared(ballot, *pair), pairs)
        points = [0.0] * len(ballot.classes)
        for pair, reply in zip(pairs, replies, strict=True):
            choice = last_number(_CHOICE, reply, *map(ballot.text, pair))
            if choice is not None:
                points[pair[int(choice) - 1]] += 1
        return Scores(points, traces(replies))

    def _compared(self, ballot: Ballot, first: int, second: int) -> Reply | None:
        texts = {"first": ballot.text(first), "second": ballot.text(second)}
        return judged(self.compare, first, second, **texts, ending=ENDING)
