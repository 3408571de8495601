"""Sums as questions, a server that adds, and what a run of them was billed for."""

from collections.abc import Sequence
from typing import Any

from coda_dspy import Budget
from coda_dspy.data import Question
from coda_dspy.evaluation import Result
from coda_dspy.testing import ServerCall

ONCE = Budget(num_attempts_baseline=1, num_attempts_coda=0)


def rows(number: int) -> list[dict[str, str]]:
    """So many questions, as a file holds them."""
    return [
        {"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1), "kind": "math"} for i in range(number)
    ]


def sums(number: int) -> list[Question]:
    """So many questions."""
    return [Question(**row) for row in rows(number)]


def adds(call: ServerCall) -> str:
    """The right answer, whoever asks."""
    return f"Answer: {int(call.prompt.split()[2]) + 1}"


def bill(results: Sequence[Result]) -> tuple[int, Any]:
    """Calls and known tokens of all results together."""
    return sum(result.billed_calls for result in results), sum(result.known_tokens for result in results)
