"""One greedy answer to a question: through each adapter, and by program."""

from dataclasses import replace
from typing import Any

from coda_dspy.evaluation import Gradable
from coda_dspy.sampling import Sample

from .calls import Call
from .session import Session, Unit


def through(session: Session, question: Gradable, adapter: str) -> Unit:
    """One direct answer through an adapter."""
    return Unit(f"{adapter}/{question.id}", 1, session.cap("direct"), lambda: [answer(session, question, adapter)])


def by_program(session: Session, question: Gradable) -> Unit:
    """One answer by a program that is run."""
    return Unit(f"code/{question.id}", 1, session.cap("code"), lambda: [answer(session, question, "plain", "code")])


def answer(
    session: Session, question: Gradable, adapter: str, stage: str = "direct", settings: dict[str, Any] | None = None
) -> Call:
    """One greedy answer: `direct`, or by `code`."""
    coda = session.program.coda

    def step() -> Any:
        return coda.coder(Sample("code")) if stage == "code" else coda.execute(Sample("direct"), "direct")

    private = bool(getattr(question, "private", False))
    solution, call = session.asker.ask(stage, question.task, step, adapter=adapter, settings=settings, private=private)
    return graded(call, question, solution)


def graded(call: Call, question: Gradable, solution: Any) -> Call:
    """The call with the answer that was read in it, and whether that is right."""
    if call.failure is not None:
        return call
    answer = solution.answer if solution is not None else None
    return replace(call, answer=answer, correct=question.grade(answer))
