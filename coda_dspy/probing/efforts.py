"""Reasoning efforts: which the engine takes, and what they change."""

from collections.abc import Sequence
from typing import Any

from coda_dspy.budget import EFFORTS
from coda_dspy.evaluation import Gradable

from .answering import answer
from .calls import Call
from .figures import mean
from .session import Session, Unit
from .watching import metered


def at_effort(session: Session, question: Gradable, effort: str) -> Unit:
    """One direct answer at a reasoning effort; none once the engine has turned out not to take any."""

    def work() -> Sequence[Call]:
        settings = {"reasoning_effort": effort}
        return [] if takes_none(session) else [answer(session, question, "plain", settings=settings)]

    return Unit(f"{effort}/{question.id}", 1, session.cap("direct"), work)


def takes_none(session: Session) -> bool:
    """Whether the engine is known not to get an effort that it is asked for."""
    dropped = ("reasoning" in call.dropped for effort in EFFORTS for call in session.calls_of(effort))
    return "reasoning" in metered(session.asker.lm).refused or any(dropped)


def efforts(session: Session) -> dict[str, Any]:
    """What each effort changes in the tokens of a reply, against none being asked for; efforts taken only."""
    figures = {}
    for effort in EFFORTS:
        pairs = session.paired("plain", effort, session.followed)
        taken = [(plain, call) for _, plain, call in pairs if "reasoning" not in call.dropped]
        if taken:
            changes = [
                call.tokens_out / plain.tokens_out - 1 if call.tokens_out and plain.tokens_out else None
                for plain, call in taken
            ]
            tokens = mean(call.tokens_out for _, call in taken)
            figures[effort] = {"n": len(taken), "tokens_out": tokens, "change": mean(changes)}
    return figures


def efforts_differ(session: Session) -> bool | None:
    """Whether any two efforts give different replies to a question; `None` where no two were taken."""
    differ = []
    for question in session.followed:
        calls = [call for effort in EFFORTS if (call := session.call(effort, question)) is not None]
        digests = [call.digest for call in calls if "reasoning" not in call.dropped]
        if len(digests) > 1:
            differ.append(len(set(digests)) > 1)
    return any(differ) if differ else None
