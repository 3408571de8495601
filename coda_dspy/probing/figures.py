"""Figures with sample size and 95 % interval, as plain values; `None` where there is nothing to make them of."""

from collections.abc import Iterable
from typing import Any

from coda_dspy.evaluation import Result
from coda_dspy.evaluation.statistics import accuracy, mean_of

Figure = dict[str, Any]
"""`value`, the ends `low` and `high` of its interval, and `n`, the sample size."""


def share(flags: Iterable[bool | None]) -> Figure | None:
    """Share of true ones among those that are known, with Wilson's interval."""
    known = [flag for flag in flags if flag is not None]
    if not known:
        return None
    return accuracy([Result(id=str(place), correct=flag) for place, flag in enumerate(known)])._asdict()


def mean(values: Iterable[float | None]) -> Figure | None:
    """Mean of those that are known, with a bootstrap interval; a single value has none."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return None
    if len(set(known)) > 1:
        return {**mean_of(known)._asdict(), "n": len(known)}
    end = known[0] if len(known) > 1 else None
    return {"value": known[0], "low": end, "high": end, "n": len(known)}


def mean_share(values: Iterable[float | None]) -> Figure | None:
    """Mean of shares; where all are the same, the rule of three says what so few of them leave possible."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return None
    value, low, high = mean_of(known)
    return {"value": value, "low": max(low, 0.0), "high": min(high, 1.0), "n": len(known)}
