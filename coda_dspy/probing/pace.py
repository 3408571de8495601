"""How long the next piece of work will take, by what the engine did so far."""

from . import speed
from .session import Session, Unit

SHORT = 100  # tokens: replies with a lower cap mostly run into it


def expected_seconds(session: Session, unit: Unit, at_a_time: int) -> float:
    """Expected wall time of a unit beside others; 0 where nothing is known yet.

    As if calls made together were no faster than one after the other, until their speed has been measured.
    """
    calls = [call for found in session.found.values() for call in found.calls if call.failure is None]
    if not calls:
        return 0.0
    rates = speed.speeds(session)
    if rates:
        rate = max(figure["value"] for figure in rates.values())
        return unit.calls * _expected_tokens(session, unit) * at_a_time / rate
    known = [call for call in calls if call.tokens_out]
    if not known:
        return unit.calls * sum(call.seconds for call in calls) / len(calls)
    seconds_each = sum(call.seconds for call in known) / sum(call.tokens_out or 0 for call in known)
    return unit.calls * _expected_tokens(session, unit) * seconds_each


def _expected_tokens(session: Session, unit: Unit) -> float:
    """Of a reply: as many as those of the same check had so far, or else those to questions."""
    if unit.cap <= SHORT:
        return unit.cap
    for check in (unit.check, "plain"):
        seen = [call.tokens_out for call in session.calls_of(check) if call.tokens_out]
        if seen:
            return sum(seen) / len(seen)
    return unit.cap
