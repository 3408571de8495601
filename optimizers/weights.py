"""What votes and judges weigh, from how often they were right.

For answers of which one is right, and votes that err independently, the best vote gives each vote the logarithm of
p m / (1 - p): p is how likely such a vote is right, m how many wrong answers a wrong one in effect chooses among. Two
wrong votes mean the same with probability 1 / m; so m is estimated.

Weights matter where the votes of several paths meet and differ. In Algorithm 2 these are hard questions, so p is that
of hard questions; but it cannot be counted there, for the votes that led there did not agree. Three direct votes that
are each right in 60 of 100 cases are right in fewer than 30 wherever they do not agree; and still each of them says for
its answer what a vote of 60 in 100 says, as that they do not agree is said by the votes themselves. So p comes from a
model that counts every vote, also on questions that were settled (`skills`), at the mean ease of the questions that
matter.
"""

from collections.abc import Collection, Mapping, Sequence
from math import exp, log
from typing import Any

from coda_dspy.evaluation.selecting import Judgment
from coda_dspy.evaluation.statistics import mean_of
from coda_dspy.learned import Judging, Measured, Share, Voting

from .skills import Votes, skills_of

STRENGTH = 10  # questions that an accuracy would have to be seen on to count as much as the mean that it shrinks to
_MOST = 20.0


def voting(votes: Mapping[str, Votes], meet: Collection[str], wrong_pairs: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """What votes weigh, as fields of `Lessons`; none where no votes met that differed.

    A path that has not been seen has the mean skill of the others.

    Args:
        votes: Of each question, by its id.
        meet: Ids of questions on which votes of several paths met.
        wrong_pairs: Pairs of wrong votes on a question: how many mean the same, and how many there are.
    """
    skills = skills_of(list(votes.values()))
    eases = [ease for (name, of), ease in zip(votes.items(), skills.eases, strict=True) if name in meet and _differ(of)]
    if not eases:
        return {}
    ease = sum(eases) / len(eases)
    many = _alternatives(wrong_pairs)
    found = {}
    for path, skill in skills.of_paths.items():
        value, low, high = (1 / (1 + exp(-(odds + ease))) for odds in skill)
        accuracy = Share(value=value, low=low, high=high, n=sum(path in of for of in votes.values()))
        found[path] = Voting(accuracy=accuracy, weight=_weight(value, many.value))
    return {"votes": found, "alternatives": many}


def _differ(votes: Votes) -> bool:
    """Whether some are right and some wrong: elsewhere no weight changes whether the answer is right."""
    return len({right for of_path in votes.values() for right in of_path}) == 2


def _alternatives(wrong_pairs: Sequence[tuple[int, int]]) -> Measured:
    """How many wrong answers there are. Pairs of all questions are put together: votes that end once they agree would
    make the mean over questions too small."""
    told = [pairs for pairs in wrong_pairs if pairs[1]]
    alike = sum(same for same, _ in told) / max(sum(of for _, of in told), 1)
    same = _shrunk([alike] * len(told), 0.5, strength=2)
    return Measured(value=1 / same.value, low=1 / same.high, high=1 / same.low, n=same.n)


def judging(made: Sequence[Judgment]) -> Judging:
    """What a judge weighs: nothing, unless its preferences are surely better than chance.

    One that goes by the place comes to no preference in two orders, and where it does by accident, that says little.
    It is known by contradicting itself in more than half of the cases, for one that guesses does so in half of them.

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
    twice = [float(j.contradicted) for j in made if j.contradicted is not None]
    contradicting = _shrunk(twice, 0.5) if twice else None
    useful = found.low > chance.value and (contradicting is None or contradicting.low <= 0.5)
    weight = _weight(found.value, (1 - chance.value) / chance.value) if useful else 0.0
    return Judging(accuracy=found, chance=chance, weight=weight, contradicting=contradicting)


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
