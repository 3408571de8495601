"""The verifier: picks the answer among candidates (Algorithm 1, `verify`).

Three ways: the majority, a judge that rates each answer, a judge that compares them in pairs. Candidates that mean the
same are one class, and a judge sees one representative of each, so its cost grows with the classes.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import dspy

from coda_dspy import answers
from coda_dspy.calling import Reply, ask
from coda_dspy.candidate import Candidate
from coda_dspy.concurrency import fan_out
from coda_dspy.question import current_question, tried
from coda_dspy.sampling import Sample
from coda_dspy.signatures import CompareSolutions, RateSolution
from coda_dspy.voting import AnswerClass, classify, plurality

RATING_ENDING = "End with one line: Rating: <a number from 0 to 10>"
CHOICE_ENDING = "End with one line: Better: 1 or Better: 2"
_RATING = re.compile(r"\brating\s*(?:\([^)\n]*\))?[\s:=*\[]{0,6}(-?\d+(?:\.\d+)?)", re.IGNORECASE)
_CHOICE = re.compile(r"\bbetter[\s:=*\[]{0,6}(?:solution\s*)?([12])\b", re.IGNORECASE)


@dataclass(frozen=True)
class Verdict:
    """What the verifier decided.

    Args:
        candidate: The chosen candidate: the first member of the chosen class.
        classes: All classes, in the order of their first vote.
        trace: DSPy trace entries of the judge's calls.
    """

    candidate: Candidate
    classes: tuple[AnswerClass, ...]
    trace: tuple[object, ...] = ()


class _Ballot(NamedTuple):
    candidates: Sequence[Candidate]
    classes: list[AnswerClass]

    def text(self, index: int) -> str:
        return self.candidates[self.classes[index].members[0]].text


def answer_classes(candidates: Sequence[Candidate]) -> list[AnswerClass]:
    """The candidates of the current question, put together by what their answers mean."""
    task = current_question().task
    return classify([c.answer for c in candidates], lambda a, b: answers.same(task, a, b))


class Verifier(dspy.Module):
    """Picks one class of candidates, by the way that the budget names."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = dspy.Predict(RateSolution)
        self.compare = dspy.Predict(CompareSolutions)

    def forward(self, candidates: Sequence[Candidate]) -> Verdict | None:
        """The verdict on all candidates; `None` if there are none.

        Judges are asked only where candidates disagree. Ties go by votes, and then by the earlier first vote; so does
        everything where the judge's opinion on a class cannot be read, for no opinion is not a bad one.
        """
        ballot = _Ballot(candidates, answer_classes(candidates))
        if not ballot.classes:
            return None
        name = current_question().budget.verifier
        if name == "majority" or len(ballot.classes) == 1:
            return self._verdict(ballot, [0.0] * len(ballot.classes), ())
        judges: dict[str, Callable[[_Ballot], tuple[list[float], tuple[object, ...]]]] = {
            "judge": self._ratings,
            "pairwise": self._points,
        }
        return self._verdict(ballot, *judges[name](ballot))

    def _verdict(self, ballot: _Ballot, scores: list[float], trace: tuple[object, ...]) -> Verdict:
        best = max(scores)
        finalists = [c for c, score in zip(ballot.classes, scores, strict=True) if score == best]
        chosen = plurality(finalists)
        assert chosen is not None  # there is at least one class
        return Verdict(ballot.candidates[chosen.members[0]], tuple(ballot.classes), trace)

    def _ratings(self, ballot: _Ballot) -> tuple[list[float], tuple[object, ...]]:
        """Absolute: one rating a class, the last one that the verdict states."""
        replies = fan_out(lambda i: self._judged(self.rate, i, solution=ballot.text(i)), range(len(ballot.classes)))
        ratings = [_last_number(_RATING, reply) for reply in replies]
        if any(rating is None or not 0 <= rating <= 10 for rating in ratings):
            return [0.0] * len(ratings), _traces(replies)
        return [rating for rating in ratings if rating is not None], _traces(replies)

    def _points(self, ballot: _Ballot) -> tuple[list[float], tuple[object, ...]]:
        """Pairwise in both orders: a point for each order won, none for an unreadable verdict."""
        pairs = [pair for a, b in combinations(range(len(ballot.classes)), 2) for pair in ((a, b), (b, a))]
        replies = fan_out(lambda pair: self._compared(ballot, *pair), pairs)
        points = [0.0] * len(ballot.classes)
        for pair, reply in zip(pairs, replies, strict=True):
            choice = _last_number(_CHOICE, reply)
            if choice is not None:
                points[pair[int(choice) - 1]] += 1
        return points, _traces(replies)

    def _compared(self, ballot: _Ballot, first: int, second: int) -> Reply | None:
        texts = {"first": ballot.text(first), "second": ballot.text(second)}
        return self._judged(self.compare, first, second, **texts)

    def _judged(self, predict: dspy.Predict, attempt: int, plan: int = 0, **texts: str) -> Reply | None:
        inputs = {"question": current_question().task.text, **texts}
        inputs["ending"] = RATING_ENDING if predict is self.rate else CHOICE_ENDING
        return tried(lambda: ask(predict, "judge", Sample("verdict", attempt, plan, "judge"), inputs))


def _last_number(pattern: re.Pattern[str], reply: Reply | None) -> float | None:
    stated = pattern.findall(reply.text) if reply is not None else []
    return float(stated[-1]) if stated else None


def _traces(replies: Sequence[Reply | None]) -> tuple[object, ...]:
    return tuple(entry for reply in replies if reply is not None for entry in reply.trace)
