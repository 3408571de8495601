"""A pairwise judge: compares the leading classes two by two, in both orders."""

import re

import dspy

from coda_dspy.calling import Reply
from coda_dspy.concurrency import fan_out
from coda_dspy.signatures import CompareSolutions

from .ballot import Ballot, Scores
from .contenders import contenders, values_of
from .judging import judged, last_number, shown, traces

ENDING = "End with one line: Better: 1 or Better: 2"
_CHOICE = re.compile(r"\bbetter[\s:=*\[]{0,6}(?:solution\s*)?([12])\b", re.IGNORECASE)


class Pairwise(dspy.Module):
    """A tournament among at most three classes between which the vote is open.

    Whoever leads the vote meets the next one, and the winner the one after that: calls go where the outcome is open,
    and none to pairs that cannot win any more. Only a verdict that both orders give is one: a judge that goes by the
    place, or that cannot be read, decides nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.compare = dspy.Predict(CompareSolutions)

    def forward(self, ballot: Ballot) -> Scores:
        """1 more for each comparison that a class won, 1 less for each that it lost."""
        places = contenders(ballot)
        points = dict.fromkeys(places, 0.0)
        contradicted: list[bool] = []
        trace: tuple[object, ...] = ()
        champion = places[0] if places else 0
        for rival in places[1:]:
            replies = fan_out(lambda pair: self._compared(ballot, *pair), [(champion, rival), (rival, champion)])
            trace += traces(replies)
            texts = shown(ballot, champion), shown(ballot, rival)
            first, second = (last_number(_CHOICE, reply, *texts) for reply in replies)
            if first is None or second is None:
                continue
            contradicted.append(first == second)
            if first == second:
                continue
            winner, loser = (champion, rival) if first == 1 else (rival, champion)
            points[winner] += 1
            points[loser] -= 1
            champion = winner
        return Scores(values_of(ballot, points, places), trace, any(contradicted) if contradicted else None)

    def _compared(self, ballot: Ballot, first: int, second: int) -> Reply | None:
        texts = {"first": shown(ballot, first), "second": shown(ballot, second)}
        return judged(self.compare, first, second, **texts, ending=ENDING)
