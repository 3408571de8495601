"""What a tune is worth: its program against the engine alone, a vote at equal tokens, and the paper's settings.

On the tune's own held-out questions and samples: what the engine alone and the tuned program have answered already is
in the tune's cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import dspy

from coda_dspy import AdaptiveCoda, Budget, Profile
from coda_dspy.algorithms import VOTED
from coda_dspy.data import Question, fingerprint, split
from coda_dspy.errors import UserError
from coda_dspy.evaluation import RunFolder
from coda_dspy.evaluation.statistics import mean_tokens
from coda_dspy.optimizers.budgets import PAPER, budget_at
from coda_dspy.optimizers.held_out import FRESH, engine_alone

from .running import Row, Setup, common, measure
from .tables import KINDS, Table

TABLE = Table("tuned", "What the tune is worth, on its held-out questions", KINDS, ())
_MOST_VOTES = 63


@dataclass(frozen=True)
class FinishedTune:
    """A tune that ended.

    Args:
        profile: What it found.
        base: The budget that it changed.
        test: The held-out questions, those that a time limit left unasked too.
        cache: The replies that it got.
    """

    profile: Profile
    base: Budget
    test: Sequence[Question]
    cache: Path

    @classmethod
    def read(cls, folder: Path, questions: Sequence[Question], lm: dspy.LM) -> Self:
        """Read a tune's folder.

        Args:
            folder: The folder.
            questions: All questions of the tune.
            lm: Its engine.

        Raises:
            UserError: No tune ended there, or it was about other questions or another engine.
        """
        described, path = RunFolder(folder).described(), folder / "profile.json"
        if described is None or not path.exists():
            raise UserError(f"no tune has ended in {folder}; name the folder of one, its --output")
        profile = Profile.read(path)
        if described["engine"] != str(lm.model):
            raise UserError(f"the tune in {folder} was of {described['engine']}, not of {lm.model}")
        sizes = {part: profile.data[part] for part in ("train", "validation", "test")}
        if profile.data["hash"] != fingerprint(questions):
            raise UserError(f"the tune in {folder} was about other questions; give --data what it was given")
        test = split(questions, profile.data["seed"], **sizes).test
        return cls(profile, Budget(**described["plan"]["budget"]), test, folder / "cache")


def run(tune: FinishedTune, setup: Setup, paper: bool = True) -> list[Row]:
    """Measure the rows; the same call goes on after a crash.

    Args:
        tune: What was found.
        setup: How to measure.
        paper: Whether to measure the paper's settings, which take most of the tokens.
    """
    setup = replace(setup, lm=setup.lm.copy(rollout_id=FRESH), cache=tune.cache)
    adapter = tune.profile.adapter
    programs = {
        "engine alone": engine_alone(tune.base, adapter),
        "tuned": tune.profile.program(),
    }
    if paper:
        programs["paper settings"] = AdaptiveCoda(budget_at(tune.base, PAPER), adapter=adapter)
    rows = measure(TABLE.name, programs, tune.test, setup)
    if not rows[0].results:
        return rows  # stopped before the first question was answered by all
    return common([*rows, _equal_vote(tune, rows[0], rows[1], setup)])


def _equal_vote(tune: FinishedTune, alone: Row, tuned: Row, setup: Setup) -> Row:
    """The smallest vote of direct answers that takes at least the tuned program's tokens.

    It may leave early when its answer is certain, as the tuned program may. Larger votes begin with the samples of
    smaller ones, so that trying sizes costs no more than the largest.
    """
    goal = _tokens(tuned)
    if goal <= _tokens(alone):
        return replace(alone, name="self-consistency of 1")  # no vote is as cheap: it is the engine alone
    for votes in _sizes(goal / _tokens(alone)):
        budget = tune.base.replace(**VOTED, num_attempts_baseline=votes)
        name = f"self-consistency of {votes}"
        (row,) = measure(TABLE.name, {name: AdaptiveCoda(budget, adapter=tune.profile.adapter)}, tune.test, setup)
        if setup.stop.reached or _tokens(row) >= goal:
            break
    return row


def _sizes(ratio: float) -> Iterator[int]:
    """Odd numbers of votes, from about as many answers as cost the same; each a quarter more than the one before."""
    votes = 3
    while votes < min(ratio, _MOST_VOTES):
        votes += 2
    while votes <= _MOST_VOTES:
        yield votes
        votes += max(votes // 8, 1) * 2


def _tokens(row: Row) -> float:
    tokens = mean_tokens(row.results)
    if tokens is None:
        raise UserError("the engine does not report the usage of every call, so that no vote is known to be equal")
    return tokens
