"""An absolute judge: rates each class alone."""

import re

import dspy

from coda_dspy.concurrency import fan_out
from coda_dspy.signatures import RateSolution

from .ballot import Ballot, Scores
from .judging import judged, last_number, shown, traces

ENDING = "End with one line: Rating: <a number from 0 to 10>"
_RATING = re.compile(r"\brating\s*(?:\([^)\n]{0,40}\))?[\s:=*\[]{0,6}(-?\d+(?:\.\d+)?)", re.IGNORECASE)


class Judge(dspy.Module):
    """One rating a class, from 0 to 10: the last one that the verdict states."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = dspy.Predict(RateSolution)

    def forward(self, ballot: Ballot) -> Scores:
        """The ratings; all equal where one of them cannot be read, for no opinion is not a bad one."""
        places = range(len(ballot.classes))
        texts = [shown(ballot, i) for i in places]
        replies = fan_out(lambda i: judged(self.rate, i, solution=texts[i], ending=ENDING), places)
        ratings = [last_number(_RATING, reply, text) for reply, text in zip(replies, texts, strict=True)]
        if any(rating is None or not 0 <= rating <= 10 for rating in ratings):
            return Scores([0.0] * len(ratings), traces(replies))
        return Scores([rating for rating in ratings if rating is not None], traces(replies))
