"""Tokens a second, alone and with several calls at a time."""

from functools import partial
from typing import Any

from coda_dspy.calling import ask
from coda_dspy.sampling import Sample
from coda_dspy.task import Task

from .calls import Call
from .crew import side_by_side
from .sampling_checks import free_request
from .session import Found, Session, Unit

GAIN = 1.1  # what a higher level has to bring to be worth it
ENOUGH = 0.8  # of the best speed: the probe itself takes the smallest level that comes so near
UNMEASURED = 4  # calls at a time where the speed could not be measured
_PLACES = ("a harbour", "a library", "a forest", "a kitchen", "a mountain village", "a train", "an island", "a garden")


def together(session: Session, level: int, number: int, deadline: float) -> Unit:
    """So many calls at a time, once."""
    cap = session.plan.speed_tokens
    return Unit(f"speed/{level}/{number}", level, cap, lambda: _batch(session, level, number, deadline))


def _batch(session: Session, level: int, number: int, deadline: float) -> list[Call]:
    jobs = [partial(_write, session, level, number, place) for place in range(level)]
    return [call for _, call in side_by_side(jobs, level, deadline)]


def _write(session: Session, level: int, number: int, place: int) -> Call:
    request = f"Describe {_PLACES[place % len(_PLACES)]} in chapter {number + 1} of a long novel."
    sample = Sample("probe", level, number, f"speed-{place}")
    budget = session.asker.budget.replace(max_tokens=session.plan.speed_tokens)
    predict = free_request("Write at length, with many details.")
    step = partial(ask, predict, "direct", sample, {"request": request})
    return session.asker.ask("direct", Task(request, "text"), step, budget=budget, again=False)[1]


def speeds(session: Session) -> dict[int, dict[str, Any]]:
    """By calls at a time: tokens a second, of the slowest and the fastest round too; only of calls that generated."""
    figures: dict[int, dict[str, Any]] = {}
    for level in session.plan.levels:
        rounds = [found for key, found in session.found.items() if key.startswith(f"speed/{level}/")]
        rates = [rate for found in rounds if (rate := _rate(found)) is not None]
        if rates:
            calls = [call for found in rounds for call in found.calls]
            figures[level] = {
                "value": round(sum(rates) / len(rates), 2),
                "low": min(rates),
                "high": max(rates),
                "n": len(rates),
                "calls": len(calls),
                "failed": sum(call.failure is not None for call in calls),
            }
    return figures


def _rate(found: Found) -> float | None:
    tokens = [call.tokens_out for call in found.calls if call.failure is None]
    known = [count for count in tokens if count]
    if not known or len(known) < len(tokens) or not found.seconds:
        return None
    return round(sum(known) / found.seconds, 2)


def best_level(figures: dict[int, dict[str, Any]]) -> int | None:
    """Calls at a time beyond which the engine gains less than a tenth, or fails."""
    best: int | None = None
    for level, figure in sorted(figures.items()):
        gains = best is None or figure["value"] >= GAIN * figures[best]["value"]
        if gains and not figure["failed"]:
            best = level
    return best


def level_for_probing(figures: dict[int, dict[str, Any]]) -> int:
    """Calls at a time for the rest of the probe: nearly the best speed, at the least waiting for each reply."""
    whole = {level: figure["value"] for level, figure in figures.items() if not figure["failed"]}
    if not whole:
        return UNMEASURED
    return min(level for level, rate in whole.items() if rate >= ENOUGH * max(whole.values()))
