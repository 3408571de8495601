"""Check by computing: a program that tests the answers to a maths problem, instead of solving it once more."""

from collections.abc import Sequence
from fractions import Fraction

import dspy

from coda_dspy.answers.numbers import as_fraction
from coda_dspy.calling import Reply
from coda_dspy.concurrency import fan_out
from coda_dspy.programs import compute, program_in
from coda_dspy.question import current_question
from coda_dspy.signatures import WriteCheck

from .ballot import Ballot, Scores
from .contenders import contenders, values_of
from .judging import judged, traces

CALLS = 2
ENTRY_POINT = "check"
ENDING = "Give one ```python code block that defines check(answer)."
_VERDICTS = {"True": 1.0, "False": -1.0}

# Small models follow an example better than a description: this one puts the answer back, it does not solve.
EXAMPLE = dspy.Example(
    question="A number and its double add up to 36. What is the number?",
    proposed="12, 18",
    ending=ENDING,
    test="```python\ndef check(answer):\n    return answer + 2 * answer == 36\n```",
)


class Check(dspy.Module):
    """Programs that each test all answers between which the vote is open.

    Every answer meets the same test: one that accepts them all, or none of them, tells nothing, and so does one that
    fails. Only numbers are tested. Other kinds than maths are left to the vote.
    """

    def __init__(self) -> None:
        super().__init__()
        self.write = dspy.Predict(WriteCheck)
        self.write.demos = [EXAMPLE]

    def forward(self, ballot: Ballot) -> Scores:
        """Tests that each class passes, less those that it fails."""
        numbers = {place: as_fraction(ballot.classes[place].answer) for place in contenders(ballot)}
        tested = {place: number for place, number in numbers.items() if number is not None}
        if current_question().task.kind != "math" or len(tested) < 2:
            return Scores([0.0] * len(ballot.classes))
        proposed = ", ".join(sorted(ballot.classes[place].answer for place in tested))
        replies = fan_out(lambda call: judged(self.write, call, proposed=proposed, ending=ENDING), range(CALLS))
        verdicts = [_verdicts(reply, list(tested.values())) for reply in replies]
        sums = [sum(of_one) for of_one in zip(*verdicts, strict=True)]
        return Scores(values_of(ballot, dict(zip(tested, sums, strict=True)), numbers), traces(replies))


def _verdicts(reply: Reply | None, numbers: Sequence[Fraction]) -> list[float]:
    """For each number 1 if the test accepts it, -1 if it rejects it; all 0 where it does not tell them apart."""
    program = program_in(reply.text, ENTRY_POINT) if reply is not None else None
    if program is None:
        return [0.0] * len(numbers)
    said = fan_out(lambda number: _VERDICTS.get(_tested(program, number), 0.0), numbers)
    return said if len(set(said)) > 1 and _VERDICTS["True"] in said else [0.0] * len(numbers)


def _tested(program: str, number: Fraction) -> str:
    """What the test prints of a number: `True`, `False`, or anything else."""
    value = number.numerator if number.denominator == 1 else float(number)
    return compute(f"{program}\n\nprint({ENTRY_POINT}({value!r}))").answer or ""
