"""What votes and judges weigh, without gold answers: by how often they agree (Weaver's idea, arXiv 2506.18203).

One of a question's answers is right. Whoever has an opinion names it with a probability of its own, and any other one
with equal parts of the rest; opinions are independent. The likeliest probabilities are found by expectation
maximization (Dawid and Skene's model with one parameter each), from where the votes stand. What the model cannot know:
sources that repeat each other's mistakes look better than they are.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log, sqrt
from typing import NamedTuple

from coda_dspy.learned import JudgeName, Judging, Learned, Lessons, Share, Voting
from coda_dspy.task import PATHS

from .pool import PoolRecord

_PRIOR = 2.0  # opinions, half of them right
_ROUNDS = 200
_MOST = 20.0
_TWO_SIDED = 1.96


class Opinion(NamedTuple):
    """Who named which of a question's answers."""

    source: str
    answer: int


def accuracies(opinions: Sequence[Sequence[Opinion]], answers: int) -> dict[str, Share]:
    """How often each source names the right answer, with a 95 % interval.

    Args:
        opinions: Of each question, those on which all agree included: they tell most.
        answers: How many answers there are to each question, those that nobody named included; at least two.
    """
    counts = Counter(o.source for of in opinions for o in of)
    right = [_normal([1.0 + sum(o.answer == a for o in of) for a in range(answers)]) for of in opinions]
    found: dict[str, float] = {}
    for _ in range(_ROUNDS):
        sums = dict.fromkeys(counts, _PRIOR / 2)
        for of, shares in zip(opinions, right, strict=True):
            for source, answer in of:
                sums[source] += shares[answer]
        found = {source: sums[source] / (n + _PRIOR) for source, n in counts.items()}
        right = [_right(of, answers, found) for of in opinions]
    return {source: _share(p, counts[source]) for source, p in found.items()}


def _right(opinions: Sequence[Opinion], answers: int, accuracy: Mapping[str, float]) -> list[float]:
    """How likely each answer is to be the right one."""
    odds = [1.0] * answers
    for source, named in opinions:
        p = accuracy[source]
        odds = [o * (p if a == named else (1 - p) / (answers - 1)) for a, o in enumerate(odds)]
        odds = _normal(odds)
    return odds


def _normal(values: Sequence[float]) -> list[float]:
    total = sum(values)
    return [value / total for value in values]


def _share(p: float, n: int) -> Share:
    margin = _TWO_SIDED * sqrt(p * (1 - p) / (n + _PRIOR))
    return Share(value=p, low=max(p - margin, 0.0), high=min(p + margin, 1.0), n=n)


def estimated(records: Sequence[PoolRecord], preferred: Mapping[JudgeName, Mapping[int, int]]) -> Learned:
    """Weights for `weighted`, by kind of question; grades and gold answers are not looked at.

    Args:
        records: A pool.
        preferred: For each judge the class that it prefers, by the record's place.
    """
    kinds = {str(record.task["kind"]) for record in records if record.task is not None}
    return Learned.parse({kind: _lessons(kind, records, preferred) for kind in sorted(kinds)})


def _lessons(kind: str, records: Sequence[PoolRecord], preferred: Mapping[JudgeName, Mapping[int, int]]) -> Lessons:
    places = [i for i, r in enumerate(records) if r.task and r.task["kind"] == kind and r.classes]
    named = [len(records[i].classes) for i in places if len(records[i].classes) > 1]
    if not named:
        return Lessons()
    others = max(named) - 1
    found = accuracies([_opinions(records[i], i, preferred) for i in places], others + 1)
    chance = sum(1 / n for n in named) / len(named)  # of a judge, who chooses among the answers that were named
    unseen = Share(value=chance, low=0.0, high=1.0, n=0)
    votes = {path: found.get(path, unseen) for path in PATHS}
    judges = {name: found[name] for name in preferred if name in found}
    by_chance = Share(value=chance, low=chance, high=chance, n=len(named))
    return Lessons(
        votes={path: Voting(accuracy=p, weight=_weight(p.value, others)) for path, p in votes.items()},
        judges={
            name: Judging(
                accuracy=p, chance=by_chance, weight=_weight(p.value, 1 / chance - 1) if p.low > chance else 0.0
            )
            for name, p in judges.items()
        },
    )


def _opinions(record: PoolRecord, place: int, preferred: Mapping[JudgeName, Mapping[int, int]]) -> list[Opinion]:
    votes = [Opinion(record.candidates[i].path, a) for a, members in enumerate(record.classes) for i in members]
    return votes + [Opinion(name, of[place]) for name, of in preferred.items() if place in of]


def _weight(accuracy: float, others: float) -> float:
    return round(min(max(log(accuracy * others / (1 - accuracy)), 0.0), _MOST), 3)
