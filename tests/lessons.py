"""Lessons that several test modules share."""

from typing import Any


def share(value: float, n: int = 50) -> dict[str, Any]:
    """A share as a profile states it."""
    return {"value": value, "low": 0.0, "high": 1.0, "n": n}


def votes(direct: float, code: float, coda: float) -> dict[str, Any]:
    """What votes weigh, by path."""
    weights = {"direct": direct, "code": code, "coda": coda}
    return {"votes": {path: {"accuracy": share(0.5), "weight": weight} for path, weight in weights.items()}}


def answers(*concentrations: tuple[float, float]) -> dict[str, Any]:
    """An answer-count model: values of alpha, and their shares."""
    return {
        "answers": {
            "concentrations": [{"alpha": alpha, "share": part} for alpha, part in concentrations],
            "distinct": {"value": 2.0, "low": 1.0, "high": 3.0, "n": 50},
            "leading": share(0.8),
            "questions": 50,
            "votes": 400,
        }
    }
