"""What optimizers are told about a question and a prediction."""

from typing import Any

import dspy

from coda_dspy.evaluation import Gradable

_MOST_SHOWN = 1500  # characters of an example where an optimizer writes it into a prompt


class Grader:
    """Grades the answers to one question. Its tests and its other fields stay out of optimizers' prompts.

    Args:
        question: The question.
    """

    def __init__(self, question: Gradable) -> None:
        self.question = question

    def grade(self, answer: str | None) -> bool | None:
        """Whether an answer is right; `None` where nobody knows."""
        return self.question.grade(answer)


class _Example(dspy.Example):
    def __repr__(self) -> str:
        return shortened(repr({name: self[name] for name in self.keys() if name != "graded_by"}), _MOST_SHOWN)


def to_example(question: Gradable) -> dspy.Example:
    """A question as DSPy's optimizers take it: the arguments of its task as inputs; the answer, and who grades it."""
    inputs = question.task.arguments()
    answer = shortened(question.answer, _MOST_SHOWN)
    return _Example(**inputs, answer=answer, graded_by=Grader(question)).with_inputs(*inputs)


def is_correct(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
    """DSPy metric: whether the prediction's answer is right, by the rules of its kind."""
    return bool(example.graded_by.grade(prediction.get("answer")))


def shortened(text: str, most: int) -> str:
    """A text of at most `most` characters: its beginning and its end, with a mark in between where some is missing.

    Example:
        >>> shortened("0123456789" * 10, 30)
        '01234567890123456 […] 23456789'
    """
    if len(text) <= most:
        return text
    mark = " […] "
    tail = max(most - len(mark), 0) // 3
    head = max(most - len(mark) - tail, 0)
    return f"{text[:head]}{mark}{text[len(text) - tail :]}"
