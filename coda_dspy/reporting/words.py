"""Figures as people read them; what nobody knows is unknown, never 0."""

from collections.abc import Mapping
from typing import Any

from coda_dspy.evaluation.statistics import Accuracy, Estimate

UNKNOWN = "unknown"
_LONGEST_LINE = 90


def number(value: float | None, digits: int = 0) -> str:
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def share(found: Accuracy | Estimate | None) -> str:
    """A share with its interval."""
    return UNKNOWN if found is None else f"{found.value:.1%} [{found.low:.1%}, {found.high:.1%}]"


def verdict(correct: bool | None) -> str:
    return UNKNOWN if correct is None else "right" if correct else "wrong"


def tokens_of(total: int | None, known: int) -> str:
    """Tokens of which some calls may not have told theirs."""
    return f"at least {known:,}" if total is None and known else number(total)


def line(text: str) -> str:
    """The beginning of a text, on one line."""
    text = " ".join(text[: 4 * _LONGEST_LINE].split())
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}…"


def plain(value: Any) -> str:
    """A value of `run.json` as words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {plain(item)}" for name, item in value.items() if item is not None) or "none"
    if isinstance(value, list):
        return ", ".join(map(plain, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
