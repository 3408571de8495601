"""What there is to do: which questions are asked, and all calls in the order of their worth."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from coda_dspy.budget import EFFORTS
from coda_dspy.errors import UserError
from coda_dspy.evaluation import Gradable
from coda_dspy.programs import shared_sandbox
from coda_dspy.sandbox import SandboxUnavailable

from . import sampling_checks, speed
from .answering import by_program, through
from .comparing import LEAST
from .efforts import at_effort, takes_none
from .plan import ProbePlan
from .session import Session, Unit
from .stages import followed_through

# Shares of the time after which a phase starts nothing more: what others are about must not take all of it.
_EFFORTS, _SAMPLING, _CONTEXT, _SPEED = 0.2, 0.15, 0.05, 0.2


class Phase(NamedTuple):
    """Units that are done in the same way.

    Args:
        name: What they measure, in words.
        units: In the order of their worth.
        share: The share of the probe's time that the phase may take.
        alone: One unit at a time, for what others would disturb.
        patient: Wait for what has started; else it is left behind when the share is over.
    """

    name: str
    units: Sequence[Unit]
    share: float = 1.0
    alone: bool = True
    patient: bool = True


def phases_of(session: Session, deadline: float) -> list[Phase]:
    """The whole plan, in the order of its worth."""
    plan, first = session.plan, session.mixed[0]
    rounds = [[speed.together(session, n, r, deadline) for n in plan.levels] for r in range(plan.rounds)]
    checks = (sampling_checks.GREEDY, sampling_checks.WARM, sampling_checks.SEED)
    pairs = [sampling_checks.pair(session, check, number) for number in range(plan.pairs) for check in checks]
    efforts = _at_efforts(session, first) if plan.followed else []
    context = [] if session.context_limit is not None else [sampling_checks.context(session)]
    return [
        Phase("the first reply", pairs[:1]),
        Phase("the first question", [through(session, first, "plain")]),
        Phase("reasoning efforts", efforts, _EFFORTS),
        Phase("sampling", pairs, _SAMPLING),
        Phase("the context limit", context, _CONTEXT, patient=False),
        Phase("speed", rounds[0], _SPEED),
        Phase("questions", _about_questions(session), alone=False),
        Phase("what is missing", [*efforts, *pairs, *(unit for units in rounds for unit in units)]),
    ]


def _about_questions(session: Session) -> list[Unit]:
    """Question by question, so that whatever there is time for is paired.

    The first few go through both adapters alone; then each is accompanied by one that is followed through all roles.
    """
    units, followed = [], session.followed
    for place, question in enumerate(session.mixed):
        units += [through(session, question, "plain"), through(session, question, "sections")]
        if question.task.kind == "math" and not session.sandbox_problem:
            units.append(by_program(session, question))
        if place >= LEAST - 1 and followed:
            units += _followed(session, followed.pop(0))
    return units + [unit for question in followed for unit in _followed(session, question)]


def _followed(session: Session, question: Gradable) -> list[Unit]:
    return [followed_through(session, question), *_at_efforts(session, question)]


def _at_efforts(session: Session, question: Gradable) -> list[Unit]:
    return [] if takes_none(session) else [at_effort(session, question, effort) for effort in EFFORTS]


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
