"""Votes: classes of answers that mean the same, strict majority, plurality, and when no vote can matter any more.

The stated rule for ties (Algorithm 2, step 3): among classes with the same number of votes, the one whose first vote
comes first wins. Votes are ordered by the step that cast them (of Algorithm 2) and then by attempt, never by which call
happened to return first, so the answer does not depend on timing.

Votes may weigh more or less than each other (`verifier="weighted"`); then weight decides, and votes count among classes
of the same weight. Elsewhere each vote weighs 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

Same = Callable[[str, str], bool]
IsSettled = Callable[["Sequence[AnswerClass]", int], bool]
CONFIDENCE = 0.95


@dataclass(frozen=True)
class AnswerClass:
    """Answers that mean the same.

    Args:
        answer: The answer as its first member gave it.
        members: Positions of the members among all votes, ascending; never empty.
        weight: What its votes weigh together; their number, where votes only count.
    """

    answer: str
    members: tuple[int, ...]
    weight: int

    @property
    def votes(self) -> int:
        return len(self.members)


def classify(answers: Sequence[str | None], same: Same, weights: Sequence[int] | None = None) -> list[AnswerClass]:
    """Put answers that mean the same into one class, in the order of their first vote.

    `None` is no vote. Each answer joins the first class that has a member of the same meaning. Classes never merge
    afterwards, even where `same` is not transitive: a vote changes one count by one, which early exit relies on. Each
    vote weighs 1 unless `weights` says otherwise.
    """
    weights = [1] * len(answers) if weights is None else weights
    groups: list[list[int]] = []
    for position, answer in enumerate(answers):
        if answer is None:
            continue
        for group in groups:
            if _belongs(answer, group, answers, same):
                group.append(position)
                break
        else:
            groups.append([position])
    return [AnswerClass(str(answers[group[0]]), tuple(group), sum(weights[i] for i in group)) for group in groups]


def _belongs(answer: str, group: list[int], answers: Sequence[str | None], same: Same) -> bool:
    distinct = dict.fromkeys(str(answers[member]) for member in group)
    return answer in distinct or any(same(answer, other) for other in distinct)


def plurality(classes: Sequence[AnswerClass]) -> AnswerClass | None:
    """The class with most votes; ties go to the one whose first vote comes first. `None` without votes."""
    return max(classes, key=_rank, default=None)


def ranked(classes: Sequence[AnswerClass]) -> list[int]:
    """Places of the classes, from the one that leads the vote down."""
    return sorted(range(len(classes)), key=lambda place: _rank(classes[place]), reverse=True)


def _rank(c: AnswerClass, more: int = 0, weight: int = 1) -> tuple[int, int, int]:
    """What decides between classes, once this one has got some more votes of a weight."""
    return c.weight + more * weight, c.votes + more, -c.members[0]


def strict_majority(classes: Sequence[AnswerClass], attempts: int) -> AnswerClass | None:
    """The class that holds more than half of the attempts (Algorithm 2, steps 1 and 2), or `None`.

    An attempt without a readable answer counts among the attempts, so two failures and one answer are no majority.

    Args:
        classes: The classes.
        attempts: What the votes of all attempts weigh together: the number of attempts, where votes only count.
    """
    leader = plurality(classes)
    return leader if leader is not None and 2 * leader.weight > attempts else None


def plurality_is_settled(classes: Sequence[AnswerClass], remaining: int, weight: int = 1) -> bool:
    """Whether no way in which the remaining votes may fall can change the plurality's class.

    New votes come after all present ones, so a class that only draws level beats the leader only if its first vote is
    earlier; a class that does not exist yet has to get more votes than the leader.

    Args:
        classes: The classes so far.
        remaining: Votes that may still be cast.
        weight: What each of them weighs.
    """
    leader = plurality(classes)
    if leader is None:
        return remaining == 0
    if (remaining * weight, remaining) > (leader.weight, leader.votes):
        return False
    return all(_rank(rival, remaining, weight) < _rank(leader) for rival in classes if rival is not leader)


def next_wave(
    classes: Sequence[AnswerClass], remaining: int, is_settled: IsSettled, votes_each: int = 1, weight: int = 1
) -> int:
    """How many attempts to launch next: the fewest that could settle the vote, if all voted for its leader.

    Launching fewer could not end the vote, launching more might pay for votes that change nothing.

    Args:
        classes: The classes so far.
        remaining: Attempts that may still be launched.
        is_settled: The rule, for the classes and the number of votes that may still be cast.
        votes_each: The most votes that one attempt casts.
        weight: What each vote weighs.
    """
    if remaining == 0 or is_settled(classes, remaining * votes_each):
        return 0
    for wave in range(1, remaining):
        if is_settled(_if_all_agreed(classes, wave * votes_each, weight), (remaining - wave) * votes_each):
            return wave
    return remaining


def _if_all_agreed(classes: Sequence[AnswerClass], votes: int, weight: int) -> list[AnswerClass]:
    leader = plurality(classes)
    cast = max((c.members[-1] for c in classes), default=-1) + 1
    new = tuple(range(cast, cast + votes))
    if leader is None:
        return [AnswerClass("", new, votes * weight)]
    more = AnswerClass(leader.answer, leader.members + new, leader.weight + votes * weight)
    return [more if c is leader else c for c in classes]


def beta_confidence(leader: int, runner_up: int) -> float:
    """Probability that the leader is the more frequent of the two leading answers.

    The mass above one half of a Beta(leader + 1, runner_up + 1) posterior (Adaptive-Consistency, arXiv 2305.11860);
    for whole numbers it is a binomial sum.
    """
    total = leader + runner_up + 1
    return sum(comb(total, k) for k in range(leader + 1)) / 2**total


def beta_is_sure(classes: Sequence[AnswerClass], confidence: float = CONFIDENCE) -> bool:
    """Whether the leader is ahead of the runner-up with the given probability."""
    leader = plurality(classes)
    if leader is None:
        return False
    runner_up = max((c.votes for c in classes if c is not leader), default=0)
    return beta_confidence(leader.votes, runner_up) >= confidence
