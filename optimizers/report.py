"""What a tune reports: the closing table, the scores that go into the profile, metrics and tables for MLflow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from coda_dspy.evaluation import Result
from coda_dspy.evaluation.statistics import Accuracy, Difference, accuracy, mean_tokens
from coda_dspy.profile import Profile

from .budgets import Trial, point_name


class Row(NamedTuple):
    """One line of the closing table: results on the held-out test questions."""

    name: str
    results: Sequence[Result]


@dataclass(frozen=True)
class TuneReport:
    """What a tune found.

    Args:
        profile: The profile.
        rows: Plain engine and tuned conductor on the same held-out questions.
        difference: Tuned minus plain, paired.
        train: Of the tuned conductor on the training questions; `None` where time did not suffice for any.
        validation: The same on the validation questions.
        trials: The budgets that were measured on the validation questions.
        notes: What a reader has to know: phases that the time limit cut short, and the like.
    """

    profile: Profile
    rows: Sequence[Row]
    difference: Difference
    train: Accuracy | None
    validation: Accuracy
    trials: Sequence[Trial]
    notes: Sequence[str]


def scores_of(
    trials: Sequence[Trial],
    finalists: Sequence[Trial],
    chosen: Trial,
    train: Sequence[Result],
    plain: Sequence[Result],
    tuned: Sequence[Result],
    difference: Difference,
) -> dict[str, Any]:
    """The figures that justify a choice, as plain values: on training, validation and held-out questions."""
    return {
        "validation": [_described(trial) for trial in trials],
        "finalists": [_described(trial) for trial in finalists],
        "chosen": point_name(chosen.point),
        "train": {**accuracy(train)._asdict(), "tokens": mean_tokens(train)} if train else {"n": 0},
        "test": {
            "plain": {**accuracy(plain)._asdict(), "tokens": mean_tokens(plain)},
            "tuned": {**accuracy(tuned)._asdict(), "tokens": mean_tokens(tuned)},
            "difference": difference._asdict(),
        },
    }


def _described(trial: Trial) -> dict[str, Any]:
    whole = {} if trial.whole else {"stopped": True}
    return {"point": dict(trial.point), **trial.accuracy._asdict(), "cost": trial.cost, **whole}
