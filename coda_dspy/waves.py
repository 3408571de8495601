"""Votes in waves: never more attempts than can still change the result (DESIGN.md, decision 4)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from coda_dspy.candidate import Candidate
from coda_dspy.concurrency import fan_out
from coda_dspy.learned import LONGEST
from coda_dspy.question import current_question
from coda_dspy.task import Path
from coda_dspy.verifier import answer_classes, vote_weight
from coda_dspy.voting import (
    CONFIDENCE,
    AnswerClass,
    IsSettled,
    beta_is_sure,
    next_wave,
    plurality_is_settled,
    strict_majority,
)

Cast = Callable[[int], list[Candidate]]


class Rule(NamedTuple):
    """When no further vote of a step matters.

    Args:
        is_settled: Said of the classes so far and the number of votes that the step may still cast.
        weight: What each of them weighs.
    """

    is_settled: IsSettled
    weight: int


def vote(
    cast: Cast, number: int, rule: Rule | None, votes_each: int = 1, before: Sequence[Candidate] = ()
) -> list[Candidate]:
    """Launch `number` attempts, in waves where a rule can end the vote early.

    Args:
        cast: One attempt, by its index; gives its candidates, or none where it failed.
        number: The most attempts.
        rule: When no further vote matters; `None` launches everything at once.
        votes_each: The most candidates that one attempt gives.
        before: Votes cast earlier, which count as well.
    """
    cast_so_far: list[Candidate] = []
    launched = 0
    while launched < number:
        wave = number - launched
        if rule is not None:
            wave = next_wave(answer_classes([*before, *cast_so_far]), wave, rule.is_settled, votes_each, rule.weight)
        if wave == 0:
            break
        for candidates in fan_out(cast, range(launched, launched + wave)):
            cast_so_far.extend(candidates)
        launched += wave
    return cast_so_far


def rule_of_plurality(path: Path) -> Rule | None:
    """When the plurality is settled by the votes of a last step; `None` where everything has to run."""

    def is_settled(classes: Sequence[AnswerClass], remaining: int) -> bool:
        return leader_is_sure(classes, [path] * remaining) or plurality_is_settled(classes, remaining, weight)

    weight = vote_weight(path)
    return None if current_question().budget.early_exit == "off" else Rule(is_settled, weight)


def rule_of_majority(attempts: Sequence[Path], later: Sequence[Path], alone: bool) -> Rule | None:
    """Steps 1 and 2 end with a strict majority of all attempts so far; without one, what follows needs every vote.

    Args:
        attempts: Paths of the attempts of the steps so far, this one included.
        later: Paths of those of the steps that follow.
        alone: Nothing but that majority ends the step. Otherwise no vote follows, and the plurality decides.
    """

    def is_settled(classes: Sequence[AnswerClass], remaining: int) -> bool:
        return is_decided(classes, attempts, [*attempts[len(attempts) - remaining :], *later])

    if not attempts or current_question().budget.early_exit == "off":
        return None
    return Rule(is_settled, vote_weight(attempts[-1])) if alone else rule_of_plurality(attempts[-1])


def is_decided(classes: Sequence[AnswerClass], attempts: Sequence[Path], to_come: Sequence[Path]) -> bool:
    """Whether a strict majority of the attempts agrees, or the leader is sure to win whatever follows."""
    majority = strict_majority(classes, sum(map(vote_weight, attempts)))
    return majority is not None or leader_is_sure(classes, to_come)


def leader_is_sure(classes: Sequence[AnswerClass], to_come: Sequence[Path]) -> bool:
    """Statistical stopping: whether the leader is sure enough to win, by the budget's `early_exit`.

    Args:
        classes: The classes so far.
        to_come: Paths of the votes that may still be cast, by later steps too.
    """
    question = current_question()
    if question.budget.early_exit not in ("beta", "learned") or not to_come:
        return False
    model = question.lessons.answers if question.budget.early_exit == "learned" else None
    if model is None or len(to_come) > LONGEST:
        return beta_is_sure(classes)
    weights = [vote_weight(path) for path in to_come]
    return model.leader_wins(classes, len(to_come), min(weights), max(weights)) >= CONFIDENCE
