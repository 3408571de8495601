"""What was wrong, and where: for each role that took part, in words that a teacher can learn from."""

from collections.abc import Callable
from typing import NamedTuple

from coda_dspy import answers

from ..metrics import shortened
from .watching import Asked, Call

MOST_FEEDBACK = 900  # characters; of a whole transcript a teacher learns no more, and pays for it
_MOST_ANSWER = 200


class Verdict(NamedTuple):
    """What is known of one reply.

    Args:
        right: Whether it is right; `None` where nobody can tell.
        text: Why, in words.
    """

    right: bool | None
    text: str


def verdict_on(call: Call, asked: Asked) -> Verdict:
    """What a role's reply came to, by itself."""
    lost = _why_lost(call, asked)
    return Verdict(False, lost) if lost else _BY_OUTPUT.get(call.gives, _untold)(call, asked)


def feedback_on(call: Call, asked: Asked) -> str:
    """What to tell a teacher of a role's reply: what it came to, what the question came to, and the right answer."""
    told = (verdict_on(call, asked).text, _of_question(asked))
    return shortened("\n".join(text for text in told if text), MOST_FEEDBACK)


def _why_lost(call: Call, asked: Asked) -> str:
    """Why a reply was thrown away; "" for one that was used."""
    step = next((s for s in asked.transcript if s.stage == call.stage and s.sample == call.sample), None)
    if step is None:
        return "This reply could not be used (it was cut off, or empty), so the step was tried again."
    if step.failure is None:
        return ""
    return f"This reply was lost: {step.failure}. A reply has to be complete within its limit."


def _of_answer(call: Call, asked: Asked) -> Verdict:
    right, came_to = _judged(call.output, asked)
    if right is None:
        wanted = answers.wanted(asked.question.task)
        return Verdict(False, f"No final answer can be read in this reply. What was asked for: {wanted}")
    return Verdict(right, f"This reply came to {came_to}.")


def _of_program(call: Call, asked: Asked) -> Verdict:
    """A program that answers a maths problem is told by what it computed, a code task's by its tests."""
    failed = [step.text for step in asked.steps(call) if step.text.startswith("The program ")]
    if asked.question.task.kind == "code":
        right, came_to = _judged(call.output, asked)
        problem = f" {failed[0]}" if failed and not right else ""
        return Verdict(bool(right), f"This reply came to {came_to or 'no complete program in a code block'}.{problem}")
    shown = next((text for text in asked.texts if text.startswith(call.output.rstrip())), None)
    if shown is None:
        return Verdict(False, failed[0] if failed else "This program gave no answer.")
    right, came_to = _judged(shown, asked)
    return Verdict(bool(right), f"This program came to {came_to}.")


def _of_plan(call: Call, asked: Asked) -> Verdict:
    """A plan is worth what its execution comes to."""
    followers = [c for c in asked.calls if c.stage in ("execute", "refine") and _follows(c, call)]
    verdicts = [verdict_on(follower, asked) for follower in followers]
    if not verdicts:
        return Verdict(None, "")
    right = any(verdict.right for verdict in verdicts)
    return Verdict(right, f"The execution of this plan was {'right' if right else 'wrong'}. {verdicts[-1].text}")


def _follows(later: Call, call: Call) -> bool:
    """An approach is followed by the whole attempt, a plan by its own branch."""
    return later.is_beside(call.sample) if call.gives == "plan" else later.sample[:2] == call.sample[:2]


def _of_verdict(call: Call, asked: Asked) -> Verdict:
    """A judge is told what the solutions that it saw were worth."""
    seen = [(name, call.inputs[name]) for name in ("solution", "first", "second") if name in call.inputs]
    told = [f"The {name} solution came to {_judged(text, asked)[1] or 'no answer'}." for name, text in seen]
    return Verdict(None, " ".join(told).replace("The solution solution", "The solution"))


def _untold(call: Call, asked: Asked) -> Verdict:
    return Verdict(None, "")


_BY_OUTPUT: dict[str, Callable[[Call, Asked], Verdict]] = {
    "solution": _of_answer,
    "synthesis": _of_answer,
    "program": _of_program,
    "plan": _of_plan,
    "approach": _of_plan,
    "verdict": _of_verdict,
}


def _judged(text: str, asked: Asked) -> tuple[bool | None, str]:
    """Whether a text's answer is right, and that in words; `None` and "" without an answer."""
    answer = answers.extract(asked.question.task, text)
    if answer is None:
        return None, ""
    right = bool(asked.question.grade(answer))
    if asked.question.task.kind == "code":
        return right, f"a program that {'passes every test' if right else 'fails a test'}"
    return right, f"{shortened(answer, _MOST_ANSWER)}, which is {'right' if right else 'wrong'}"


def _of_question(asked: Asked) -> str:
    result, expected = asked.result, asked.question.answer
    if result.correct:
        return "In the end the question was answered rightly."
    given = "a program that fails" if asked.question.task.kind == "code" else shortened(str(result.answer), 200)
    ending = (
        f"In the end the answer was {given}, which is wrong." if result.answer else "In the end there was no answer."
    )
    known = asked.question.task.kind != "code" and expected
    return f"{ending} The right answer is {shortened(expected, _MOST_ANSWER)}." if known else ending
