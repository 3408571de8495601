"""What there is to do: which questions are asked, and all calls in the order of their worth."""

from collections import defaultdict
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from coda_dspy.budget import EFFORTS
from coda_dspy.errors import UserError
from coda_dspy.evaluation import Gradable
from coda_dspy.programs import shared_sandbox
from coda_dspy.sandbox import SandboxUnavailable

from . import sampling_checks, speed
from .answering import by_program, through
from .efforts import at_effort, takes_none
from .plan import ProbePlan
from .session import Session, Unit
from .stages import followed_through

CONTEXT_SECONDS = 20.0  # that the request for too long a reply may take


class Phase(NamedTuple):
    """Units that are done in the same way.

    Args:
        name: What they measure, in words.
        units: In the order of their worth.
        alone: One unit at a time, for what others would disturb.
        seconds: The most that the phase may take.
    """

    name: str
    units: Sequence[Unit]
    alone: bool = True
    seconds: float = inf


def phases_of(session: Session, deadline: float) -> list[Phase]:
    """The whole plan, in the order of its worth."""
    plan, first = session.plan, session.mixed[0]
    rounds = [[speed.together(session, n, r, deadline) for n in plan.levels] for r in range(plan.rounds)]
    checks = (sampling_checks.GREEDY, sampling_checks.WARM, sampling_checks.SEED)
    pairs = [sampling_checks.pair(session, check, number) for number in range(plan.pairs) for check in checks]
    effort = [] if takes_none(session) else [at_effort(session, first, name) for name in EFFORTS]
    context = [] if session.context_limit is not None else [sampling_checks.context(session)]
    return [
        Phase("the first reply", pairs[:1]),
        Phase("the first question", [through(session, first, "plain")]),
        Phase("reasoning efforts", effort if plan.followed else []),
        Phase("sampling", pairs[1:]),
        Phase("the context limit", context, seconds=CONTEXT_SECONDS),
        Phase("speed", rounds[0]),
        Phase("questions", _about_questions(session), alone=False),
        Phase("speed once more", [unit for units in rounds[1:] for unit in units]),
    ]


def _about_questions(session: Session) -> list[Unit]:
    """Question by question, so that whatever there is time for is paired."""
    units = []
    followed = [question.id for question in session.followed]
    for question in session.mixed:
        units += [through(session, question, "plain"), through(session, question, "sections")]
        if question.task.kind == "math" and not session.sandbox_problem:
            units.append(by_program(session, question))
        if question.id in followed:
            units.append(followed_through(session, question))
            if not takes_none(session):
                units += [at_effort(session, question, effort) for effort in EFFORTS]
    return units


def chosen_from(
    questions: Sequence[Gradable], plan: ProbePlan, problem: str
) -> tuple[dict[str, list[Gradable]], dict[str, str]]:
    """The questions to ask by kind, and what is left out of the plan from the start.

    Args:
        questions: All that there are.
        plan: How many of a kind to ask.
        problem: Why no program can run here; "" where one can.
    """
    kinds: defaultdict[str, list[Gradable]] = defaultdict(list)
    for question in questions:
        if getattr(question, "previous", None) is None and not (problem and question.task.kind == "code"):
            kinds[question.task.kind].append(question)
    if not kinds:
        raise UserError(f"no question can be asked here{f': {problem}' if problem else '; give some'}")
    notes = {"code": f"no program runs here: {problem}"} if problem else {}
    if not problem and "math" not in kinds:
        notes["code"] = "the conductor computes answers of kind math only, and there are no such questions"
    return {kind: found[: plan.questions] for kind, found in kinds.items()}, notes


def sandbox_problem() -> str:
    """Why no program can run here; "" where one can."""
    try:
        shared_sandbox()
    except SandboxUnavailable as error:
        return "; ".join(f"{kind}: {reason}" for kind, reason in error.reasons.items())
    return ""
