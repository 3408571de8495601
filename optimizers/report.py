"""What a tune reports: the closing table, the scores that go into the profile, metrics and tables for MLflow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from coda_dspy.evaluation import Result
from coda_dspy.evaluation.statistics import Difference, accuracy, mean_seconds, mean_tokens
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
        trials: The budgets that were measured on the validation questions.
        notes: What a reader has to know: phases that the time limit cut short, and the like.
    """

    profile: Profile
    rows: Sequence[Row]
    difference: Difference
    trials: Sequence[Trial]
    notes: Sequence[str]


def scores_of(
    trials: Sequence[Trial],
    chosen: Trial,
    plain: Sequence[Result],
    tuned: Sequence[Result],
    difference: Difference,
) -> dict[str, Any]:
    return {
        "validation": [{**t.point, **t.accuracy._asdict(), "tokens": t.tokens} for t in trials],
        "chosen": point_name(chosen.point),
        "test": {
            "plain": {**accuracy(plain)._asdict(), "tokens": mean_tokens(plain)},
            "tuned": {**accuracy(tuned)._asdict(), "tokens": mean_tokens(tuned)},
            "difference": difference._asdict(),
        },
    }


def metrics_of(results: Sequence[Result]) -> dict[str, float | None]:
    score = accuracy(results)
    unanswered = sum(result.answer is None for result in results) / len(results)
    return {
        "accuracy": score.value,
        "accuracy_low": score.low,
        "accuracy_high": score.high,
        "questions": len(results),
        "tokens": mean_tokens(results),
        "seconds": mean_seconds(results),
        "unanswered": unanswered,
        **_failure_rates(results),
    }


def _failure_rates(results: Sequence[Result]) -> dict[str, float]:
    """Cut and failed calls by stage, as a share of the stage's calls."""
    rates = {}
    for stage in sorted({stage for result in results for stage in result.stages}):
        rows = [result.stages[stage] for result in results if stage in result.stages]
        calls = sum(row["calls"] for row in rows)
        rates[f"cut.{stage}"] = sum(row["cut"] for row in rows) / calls
        rates[f"failed.{stage}"] = sum(row["failed"] for row in rows) / calls
    return rates


def columns_of(results: Sequence[Result]) -> dict[str, list[Any]]:
    names = ("id", "answer", "gold", "correct", "path", "calls", "tokens", "billed_tokens", "seconds", "error")
    return {name: [getattr(result, name) for result in results] for name in names}
