"""One long comparison: all classes in one prompt (GenSelect, arXiv 2507.17797)."""

import re
from collections import Counter
from collections.abc import Sequence
from random import Random

import dspy

from coda_dspy.calling import Reply
from coda_dspy.concurrency import fan_out
from coda_dspy.question import current_question
from coda_dspy.sampling import Sample, rollout_id
from coda_dspy.signatures import SelectSolution
from coda_dspy.voting import ranked

from .ballot import Ballot, Scores
from .contenders import contenders, values_of
from .judging import judged, last_number, shown, traces

MOST_SHOWN = 8
CALLS = 4
ENDING = "End with one line: Best: <the number of the best solution>"
_BEST = re.compile(r"\bbest[ \t*]*:[\s*\[]{0,6}(?:solution\s*)?(\d+)\b", re.IGNORECASE)


class GenSelect(dspy.Module):
    """Calls that each name the best of all solutions, and vote.

    Every second call reads the solutions in the reverse order of the one before, so that a judge that goes by the place
    votes for both ends alike. Two calls that agree are enough; otherwise there are four.
    """

    def __init__(self) -> None:
        super().__init__()
        self.select = dspy.Predict(SelectSolution)

    def forward(self, ballot: Ballot) -> Scores:
        """How many calls named each class."""
        if not contenders(ballot):
            return Scores([0.0] * len(ballot.classes))
        places = ranked(ballot.classes)[:MOST_SHOWN]
        orders = [order for pair in range(CALLS // 2) for order in _mirrored(places, pair)]
        named, trace = self._named(ballot, orders[:2], 0)
        agree = named[0] == named[1]
        contradicted = None if None in named else not agree
        if not agree:
            more, more_trace = self._named(ballot, orders[2:], 2)
            named, trace = named + more, trace + more_trace
        votes = Counter(place for place in named if place is not None)
        return Scores(values_of(ballot, votes, places), trace, contradicted)

    def _named(
        self, ballot: Ballot, orders: Sequence[Sequence[int]], first: int
    ) -> tuple[list[int | None], tuple[object, ...]]:
        """The class that each call names, and the trace of the calls."""
        replies = fan_out(lambda call: self._asked(ballot, orders[call], first + call), range(len(orders)))
        texts = [shown(ballot, place) for place in orders[0]]
        numbers = [last_number(_BEST, reply, *texts) for reply in replies]
        named = [
            order[int(number) - 1] if number is not None and 1 <= number <= len(order) else None
            for number, order in zip(numbers, orders, strict=True)
        ]
        return named, traces(replies)

    def _asked(self, ballot: Ballot, order: Sequence[int], call: int) -> Reply | None:
        solutions = "\n\n".join(f"Solution {n}:\n{shown(ballot, place)}" for n, place in enumerate(order, start=1))
        return judged(self.select, call, solutions=solutions, ending=ENDING)


def _mirrored(places: Sequence[int], pair: int) -> tuple[list[int], list[int]]:
    """An order that the question and the call decide, and its reverse."""
    order = list(places)
    Random(f"{current_question().task.text}{rollout_id(0, Sample('verdict', pair, step='order'))}").shuffle(order)
    return order, order[::-1]
