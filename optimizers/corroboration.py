"""What it weighs that an answer was reached both in words and by program, beside the votes that it has.

Votes of one path repeat its mistakes, so their weights add up to too much, and two paths that agree say more than they
do. How much more is fitted: among the answers to a question, the right one is drawn with odds exp(votes + b x), where
votes is what the votes for an answer weigh, and x whether both paths came to it (a conditional logit). The prior of b
is normal around what is taken where nothing was learned, so that few questions change little.
"""

from collections.abc import Callable, Sequence
from math import exp, sqrt
from typing import NamedTuple

from coda_dspy.evaluation import PoolRecord
from coda_dspy.learned import CORROBORATION, Measured
from coda_dspy.task import Path

_WIDTH = 1.0  # standard deviation of the prior
_MOST = 20.0
_TWO_SIDED = 1.96
_STEPS = 100


class _Answer(NamedTuple):
    votes: float
    both: bool
    right: bool


def corroboration(records: Sequence[PoolRecord], weight: Callable[[Path], float]) -> Measured | None:
    """The likeliest b, at least 0, with its 95 % interval.

    Args:
        records: Of a pool. Those that tell nothing are left out: no answer is right or all are, or both paths came to
            all of them or to none.
        weight: What a vote of a path weighs, in log-odds.

    Returns:
        `None` where no record tells anything.
    """
    questions = [answers for record in records if _tells(answers := _answers(record, weight))]
    if not questions:
        return None
    b = CORROBORATION
    for _ in range(_STEPS):
        slope, curvature = _derivatives(questions, b)
        step = max(min(slope / curvature, 1.0), -1.0)
        b += step
        if abs(step) < 1e-9:
            break
    margin = _TWO_SIDED / sqrt(_derivatives(questions, b)[1])
    low, value, high = (round(min(max(x, 0.0), _MOST), 3) for x in (b - margin, b, b + margin))
    return Measured(value=value, low=low, high=high, n=len(questions))


def _answers(record: PoolRecord, weight: Callable[[Path], float]) -> list[_Answer]:
    found = []
    for members in record.classes:
        paths = [record.candidates[i].path for i in members]
        both = len({path == "code" for path in paths}) == 2
        found.append(_Answer(sum(map(weight, paths)), both, bool(record.grades[members[0]])))
    return found


def _tells(answers: Sequence[_Answer]) -> bool:
    return len({a.right for a in answers}) == len({a.both for a in answers}) == 2


def _derivatives(questions: Sequence[Sequence[_Answer]], b: float) -> tuple[float, float]:
    """Slope and curvature of the posterior's logarithm; the latter with its sign changed, and at least the prior's."""
    slope, curvature = (CORROBORATION - b) / _WIDTH**2, 1 / _WIDTH**2
    for answers in questions:
        of_all, of_right = _share_of_both(answers, b), _share_of_both([a for a in answers if a.right], b)
        slope += of_right - of_all
        curvature += max(of_all * (1 - of_all) - of_right * (1 - of_right), 0.0)
    return slope, curvature


def _share_of_both(answers: Sequence[_Answer], b: float) -> float:
    """The probability that the answer that is drawn among these is one that both paths came to."""
    most = max(a.votes + b * a.both for a in answers)
    odds = [exp(a.votes + b * a.both - most) for a in answers]
    return sum(o for o, a in zip(odds, answers, strict=True) if a.both) / sum(odds)
