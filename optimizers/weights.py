"""What votes and judges weigh, from how often they were right.

For answers of which one is right, and votes that err independently, the best vote gives each vote the logarithm of
p m / (1 - p): p is how often such a vote is right, m how many wrong answers a wrong one in effect chooses among. Two
wrong votes mean the same with probability 1 / m; so m is estimated.
"""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

from coda_dspy.evaluation.selecting import Judgment
from coda_dspy.evaluation.statistics import mean_of
from coda_dspy.learned import Judging, Measured, Share, Voting
from coda_dspy.task import PATHS, Path

STRENGTH = 10  # questions that an accuracy would have to be seen on to count as much as the mean that it shrinks to
_MOST = 20.0


def voting(shares: Mapping[Path, Sequence[float]], wrong_pairs: Sequence[float]) -> dict[str, Any]:
    """What votes weigh, as fields of `Lessons`; none where paths could not be compared.

    A path that has not been seen has the mean accuracy of the others.

    Args:
        shares: Share of right votes of each path, a question each; the same questions for all.
        wrong_pairs: Share of pairs of wrong votes that mean the same, a question each.
    """
    if not shares:
        return {}
    seen = [share for of_path in shares.values() for share in of_path]
    mean = (sum(seen) + 1) / (len(seen) + 2)
    same = _shrunk(wrong_pairs, 0.5, strength=2)
    many = Measured(value=1 / same.value, low=1 / same.high, high=1 / same.low, n=same.n)
    votes = {}
    for path in PATHS:
        found = _shrunk(shares.get(path, ()), mean)
        votes[path] = Voting(accuracy=found, weight=_weight(found.value, many.value))
    return {"votes": votes, "alternatives": many}


def judging(made: Sequence[Judgment]) -> Judging:
    """What a judge weighs: nothing, unless its preferences are surely better than chance.

    A judge that prefers what it reads first comes to no preference in two orders, and so has none that could count.

    Args:
        made: Its judgments; at least one.
    """
    by_question: dict[str, list[bool]] = {}
    for judgment in made:
        if judgment.right is not None:
            by_question.setdefault(judgment.id, []).append(judgment.right)
    drawn = {name: min(max(v, 0.0), 1.0) for name, v in mean_of([j.chance for j in made])._asdict().items()}
    chance = Share(**drawn, n=len({j.id for j in made}))
    found = _shrunk([sum(right) / len(right) for right in by_question.values()], chance.value)
    useful = found.low > chance.value
    weight = _weight(found.value, (1 - chance.value) / chance.value) if useful else 0.0
    return Judging(accuracy=found, chance=chance, weight=weight)


def _shrunk(shares: Sequence[float], mean: float, strength: float = STRENGTH) -> Share:
    """The mean of a Beta posterior, whose prior is worth so many questions at the given mean, and its central 95 %."""
    from scipy.stats import beta

    right, n = sum(shares), len(shares)
    a, b = strength * mean + right, strength * (1 - mean) + n - right
    low, high = beta.ppf((0.025, 0.975), a, b)
    value = a / (a + b)
    return Share(value=value, low=min(float(low), value), high=max(float(high), value), n=n)


def _weight(accuracy: float, alternatives: float) -> float:
    return round(min(max(log(accuracy * alternatives / (1 - accuracy)), 0.0), _MOST), 3)
