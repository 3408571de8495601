"""What optimizers are told about a prediction."""

from typing import Any

import dspy

from coda_dspy import answers
from coda_dspy.evaluation import Gradable
from coda_dspy.task import Task


def to_example(question: Gradable) -> dspy.Example:
    """A question as DSPy's optimizers take it: inputs `question`, `kind`, `choices`, and the right `answer`."""
    task = question.task
    example = dspy.Example(question=task.question, kind=task.kind, choices=task.choices, answer=question.answer)
    return example.with_inputs("question", "kind", "choices")


def is_correct(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
    """DSPy metric: whether the prediction's answer means the same as the example's."""
    task = Task.of(example.question, example.kind, example.choices)
    return answers.correct(task, prediction.get("answer"), example.answer)
