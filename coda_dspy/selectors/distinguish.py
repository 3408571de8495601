"""Tell programs apart by running them: an input on which the two leading ones differ (S*, arXiv 2502.14382)."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import dspy

from coda_dspy.calling import Reply
from coda_dspy.concurrency import fan_out
from coda_dspy.programs import Case, behaviour, has_input, probe_like, shown_input
from coda_dspy.programs.source import blocks_in
from coda_dspy.question import current_question
from coda_dspy.signatures import CompareOutputs, TellApart

from .ballot import Ballot, Scores
from .contenders import contenders, values_of
from .judging import judged, last_number, shown, traces

MOST_INPUTS = 3
ENDING = "End with one line: Right: 1 or Right: 2"
_RIGHT = re.compile(r"\bright[\s:*\[]{0,6}(?:output\s*)?([12])\b", re.IGNORECASE)
_MOST_SHOWN = 400  # characters of an output


class _Seen(NamedTuple):
    """An input, and what the two programs put out on it."""

    given: str
    outputs: tuple[str, str]


class Distinguish(dspy.Module):
    """Asks for inputs that tell the two leading programs apart, runs both, and has their outputs judged.

    The judge sees no program: it says what the task asks for on one input, in both orders of the outputs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.inputs = dspy.Predict(TellApart)
        self.compare = dspy.Predict(CompareOutputs)

    def forward(self, ballot: Ballot) -> Scores:
        """1 for the program whose output is right in both orders, -1 for the other."""
        task, places = current_question().task, contenders(ballot)[:2]
        example = next(filter(has_input, task.cases), None) if task.kind == "code" and places else None
        if example is None:
            return Scores([0.0] * len(ballot.classes))
        programs = "\n\n".join(shown(ballot, place) for place in places)
        proposed = judged(self.inputs, 0, programs=programs, example=shown_input(example))
        seen = _difference(ballot, places, _inputs(example, proposed))
        if seen is None:
            return Scores(values_of(ballot, {}, contenders(ballot)), traces([proposed]))
        replies = fan_out(lambda order: self._compared(seen, order), (0, 1))
        first, second = (last_number(_RIGHT, reply, *seen.outputs) for reply in replies)
        contradicted = None if first is None or second is None else first == second
        points = {}
        if contradicted is False:
            right = int(first or 1) - 1
            points = {places[right]: 1.0, places[1 - right]: -1.0}
        trace = traces([proposed, *replies])
        return Scores(values_of(ballot, points, contenders(ballot)), trace, contradicted)

    def _compared(self, seen: _Seen, order: int) -> Reply | None:
        one, other = seen.outputs[order], seen.outputs[1 - order]
        return judged(self.compare, order, 1, given=seen.given, one=one, other=other, ending=ENDING)


def _inputs(example: Case, reply: Reply | None) -> list[Case]:
    blocks = blocks_in(reply.text)[:MOST_INPUTS] if reply is not None else []
    return [probe for block in blocks if (probe := probe_like(example, block)) is not None]


def _difference(ballot: Ballot, places: Sequence[int], inputs: Sequence[Case]) -> _Seen | None:
    """The first input on which the programs differ; one that breaks both says nothing of either."""
    task = current_question().task
    found = [behaviour(ballot.classes[place].answer, inputs, task.entry_point) for place in places]
    for case, first, second in zip(inputs, *found, strict=True):
        if first != second and not (first.startswith("failed: ") and second.startswith("failed: ")):
            return _Seen(shown_input(case), (first[:_MOST_SHOWN] or "nothing", second[:_MOST_SHOWN] or "nothing"))
    return None
