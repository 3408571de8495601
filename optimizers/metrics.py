"""What optimizers are told about a prediction."""

from typing import Any

import dspy

from coda_dspy.evaluation import Gradable


def to_example(question: Gradable) -> dspy.Example:
    """A question as DSPy's optimizers take it: the arguments of its task as inputs, and who grades it."""
    inputs = question.task.arguments()
    return dspy.Example(**inputs, graded_by=question).with_inputs(*inputs)


def is_correct(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
    """DSPy metric: whether the prediction's answer is right, by the rules of its kind."""
    return bool(example.graded_by.grade(prediction.get("answer")))
