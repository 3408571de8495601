"""Which path suits an engine: one direct answer against one by program, on the same questions (the paper's Table 5)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from coda_dspy import answers
from coda_dspy.evaluation import Gradable, Result
from coda_dspy.evaluation.statistics import accuracy, mean_tokens


class PathComparison(NamedTuple):
    """One answer by each path to each of the same questions.

    Args:
        questions: The questions; at least one.
        direct: One direct answer each.
        code: One answer by program each.
    """

    questions: Sequence[Gradable]
    direct: Sequence[Result]
    code: Sequence[Result]

    @property
    def better(self) -> str:
        """`direct` or `code`: the path that is right more often, or as often for fewer tokens; `direct` in a draw."""
        right = [(accuracy(results).value, -(mean_tokens(results) or 0.0)) for results in (self.direct, self.code)]
        return "code" if right[1] > right[0] else "direct"

    def describe(self) -> dict[str, Any]:
        """Accuracy and tokens of each path, and how often they agree and are right then: plain values."""
        pairs = zip(self.questions, self.direct, self.code, strict=True)
        agreeing = [d for question, d, c in pairs if answers.same(question.task, d.answer, c.answer)]
        return {
            "direct": {**accuracy(self.direct)._asdict(), "tokens": mean_tokens(self.direct)},
            "code": {**accuracy(self.code)._asdict(), "tokens": mean_tokens(self.code)},
            "agree": accuracy(agreeing)._asdict() if agreeing else {"n": 0},
            "first": self.better,
        }
