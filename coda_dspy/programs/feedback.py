"""What a model is told about the cases that its program failed."""

from collections.abc import Sequence

from coda_dspy.programs.checking import Outcome, first_wrong

_SHOWN = 400  # characters of an input or an output


def feedback_on(outcomes: Sequence[Outcome], most: int = 2) -> str:
    """What a model is told about the first cases that failed: input, what was expected, what came out."""
    failed = [outcome for outcome in outcomes if not outcome.passed][:most]
    return "\n\n".join(_described(outcome) for outcome in failed)


def _described(outcome: Outcome) -> str:
    wrong = first_wrong(outcome.case, outcome.got)
    if wrong is not None:
        equation, value = wrong
        came = f"It stopped with:\n{_short(outcome.problem)}" if value is None else f"Got:\n{_short(value)}"
        return f"Call:\n{_short(equation.call)}\nExpected:\n{_short(repr(equation.expected))}\n{came}"
    if outcome.case.form == "snippet":
        return f"This check fails:\n{_short(outcome.case.input)}\n{_short(outcome.problem)}"
    came = f"It stopped with:\n{_short(outcome.problem)}" if outcome.problem else f"Got:\n{_short(outcome.got)}"
    return f"Input:\n{_short(outcome.case.input)}\nExpected:\n{_short(outcome.case.output)}\n{came}"


def _short(text: str) -> str:
    text = text.strip("\n")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} … ({len(text)} characters)"
