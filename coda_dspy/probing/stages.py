"""A few questions through all roles: what is cut, and how much of each stage's reply is thinking.

A model that thinks by itself before it plans, executes and reflects does the conductor's work a second time.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from coda_dspy.answers import strip_thinking
from coda_dspy.calling import Reply
from coda_dspy.evaluation import Gradable
from coda_dspy.sampling import Sample
from coda_dspy.solution import Solution

from .answering import graded
from .calls import Call
from .figures import mean, mean_share, share
from .session import Session, Unit

STAGES = ("direct", "code", "plan", "execute", "reflect")
_PLACE = Sample("coda")


def followed_through(session: Session, question: Gradable) -> Unit:
    """Plan, execute, and reflect on the execution and the direct answer."""
    return Unit(f"stages/{question.id}", 3, session.cap("reflect"), lambda: _chain(session, question))


def _chain(session: Session, question: Gradable) -> list[Call]:
    coda = session.program.coda
    made, plan = _step(session, question, "plan", lambda: coda.planner(_PLACE))
    if made is None:
        return [plan]
    text = made.reply.text
    execution, execute = _step(session, question, "execute", lambda: coda.execute(_PLACE, "execute", text))
    solutions = [solution for solution in (_direct(session, question), execution) if solution is not None]
    calls = [plan, graded(execute, question, execution)]
    if not solutions:
        return calls
    synthesis, reflect = _step(session, question, "reflect", lambda: coda.reflector(_PLACE, solutions))
    return [*calls, graded(reflect, question, synthesis)]


def _step(session: Session, question: Gradable, stage: str, step: Callable[[], Any]) -> tuple[Any, Call]:
    private = bool(getattr(question, "private", False))
    return session.asker.ask(stage, question.task, step, private=private)


def _direct(session: Session, question: Gradable) -> Solution | None:
    """The direct answer, if one was found by now and its text may be kept."""
    call = session.call("plain", question)
    if call is None or call.answer is None or not call.text:
        return None
    return Solution(call.answer, Reply(strip_thinking(call.text)[0]))


def by_stage(session: Session) -> dict[str, Any]:
    """Replies, cuts, thinking and tokens of each stage that was asked."""
    calls = _calls(session)
    return {
        stage: {
            "cut": share(call.cut for call in of_stage),
            "thinking": mean_share(call.thinking for call in of_stage),
            "thinks": _where(of_stage),
            "tokens_out": mean(call.tokens_out for call in of_stage),
        }
        for stage in STAGES
        if (of_stage := [call for call in calls if call.stage == stage])
    }


def truncation(session: Session) -> dict[str, Any] | None:
    """Share of all these replies that were cut off at the budget's limits."""
    return share(call.cut for call in _calls(session))


def _calls(session: Session) -> list[Call]:
    return [call for check in ("plain", "code", "stages") for call in session.calls_of(check)]


def _where(calls: list[Call]) -> str:
    """Where most of the replies that think do so; "" where none does."""
    places = Counter(call.thinks for call in calls if call.thinks)
    return places.most_common(1)[0][0] if places else ""
