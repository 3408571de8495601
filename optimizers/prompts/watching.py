"""One question as an optimizer sees it: every call of every role, also of those that a trace leaves out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback

from coda_dspy.evaluation import Gradable, Result
from coda_dspy.question import Step
from coda_dspy.sampling import Sample


@dataclass(frozen=True)
class Call:
    """One call of one role.

    Args:
        role: The predictor's name within the program.
        gives: What it gives: `plan`, `solution`, `program`, …
        stage: The stage that asked.
        sample: Its place in the search.
        inputs: What it was given.
        output: What it replied; "" where nothing came.
        reply: DSPy's prediction, by which a trace entry is told.
    """

    role: str
    gives: str
    stage: str
    sample: Sample
    inputs: dict[str, str]
    output: str
    reply: Any = None

    def is_beside(self, sample: Sample) -> bool:
        """Whether it belongs to the same branch: the same path, attempt and plan."""
        return self.sample[:3] == sample[:3]


@dataclass(frozen=True)
class Asked:
    """One question, answered.

    Args:
        question: The question, which grades answers.
        result: What it came to.
        calls: Every call, in the order in which they ended.
        transcript: What every role said, and what programs came to.
        texts: The texts of all candidates and of what they were made from.
    """

    question: Gradable
    result: Result
    calls: Sequence[Call]
    transcript: Sequence[Step] = ()
    texts: Sequence[str] = ()

    def steps(self, call: Call) -> Iterator[Step]:
        """What the transcript says of a call's branch at the call's stage."""
        return (step for step in self.transcript if step.stage == call.stage and call.is_beside(step.sample))


class Watch(BaseCallback):
    """Notes the calls of a program while it answers one question.

    Args:
        program: The program; its predictors are known by their names.
    """

    def __init__(self, program: dspy.Module) -> None:
        self.calls: list[Call] = []
        self._names = {id(predict): name for name, predict in program.named_predictors()}
        self._open: dict[str, tuple[dspy.Predict, Any, dict[str, Any]]] = {}

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        meter = dspy.settings.get("coda_call")
        if id(instance) in self._names and meter is not None:
            place = (meter.stage, meter.sample)
            self._open[call_id] = (instance, place, inputs.get("kwargs", {}))

    def on_module_end(self, call_id: str, outputs: Any, exception: Exception | None = None) -> None:
        if call_id in self._open:
            predict, (stage, sample), given = self._open.pop(call_id)
            gives = next(iter(predict.signature.output_fields))
            inputs = {name: str(given[name]) for name in predict.signature.input_fields if given.get(name)}
            output = str(outputs[gives] or "") if outputs is not None else ""
            self.calls.append(Call(self._names[id(predict)], gives, stage, sample, inputs, output, outputs))
