"""Votes in waves: never more attempts than can still change the result (DESIGN.md, decision 4)."""

from collections.abc import Callable, Sequence

from coda_dspy.budget import Budget
from coda_dspy.candidate import Candidate
from coda_dspy.concurrency import fan_out
from coda_dspy.verifier import answer_classes
from coda_dspy.voting import (
    AnswerClass,
    IsSettled,
    beta_is_settled,
    beta_is_sure,
    next_wave,
    plurality_is_settled,
    strict_majority,
)

Cast = Callable[[int], list[Candidate]]


def vote(
    cast: Cast, number: int, rule: IsSettled | None, votes_each: int = 1, before: Sequence[Candidate] = ()
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
            wave = next_wave(answer_classes([*before, *cast_so_far]), wave, rule, votes_each)
        if wave == 0:
            break
        for candidates in fan_out(cast, range(launched, launched + wave)):
            cast_so_far.extend(candidates)
        launched += wave
    return cast_so_far


def rule_of_plurality(budget: Budget) -> IsSettled | None:
    """When a plurality is settled, by the budget's `early_exit`; `None` where everything has to run."""
    return {"off": None, "lossless": plurality_is_settled, "beta": beta_is_settled}[budget.early_exit]


def rule_of_majority(budget: Budget, attempts: int, last: bool) -> IsSettled | None:
    """Steps 1 and 2 end with a strict majority of all attempts so far; without one, a later step needs every vote.

    Args:
        budget: Whose `early_exit` it is.
        attempts: Attempts of the steps so far, this one included.
        last: Whether no step follows, so that only the plurality matters.
    """

    def is_settled(classes: Sequence[AnswerClass], remaining: int) -> bool:
        majority = strict_majority(classes, attempts) is not None
        return majority or (budget.early_exit == "beta" and beta_is_sure(classes))

    if budget.early_exit == "off":
        return None
    return rule_of_plurality(budget) if last else is_settled
