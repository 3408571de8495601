"""One budget, measured: question by question, so that two are compared in pairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from coda_dspy.errors import UserError
from coda_dspy.evaluation import Result
from coda_dspy.evaluation.statistics import Accuracy, accuracy

from .space import Point


class Prices(NamedTuple):
    """What a million tokens cost: of prompts, and of replies."""

    tokens_in: float
    tokens_out: float


@dataclass(frozen=True)
class Trial:
    """One budget, measured.

    Args:
        point: What the budget sets.
        right: Whether it was right, by question, in the one order that all trials share.
        costs: What each of these questions cost: tokens in and out, or money where there are prices.
        whole: Whether all questions were asked; else it was found to be dominated before.
        candidates: What the process that measured it has to tell of them, as plain values; of whole trials only.
    """

    point: Point
    right: tuple[bool, ...]
    costs: tuple[float, ...]
    whole: bool = True
    candidates: tuple[Any, ...] = ()

    @property
    def accuracy(self) -> Accuracy:
        """With its 95 % interval."""
        return accuracy([Result(str(place), correct=right) for place, right in enumerate(self.right)])

    @property
    def cost(self) -> float:
        """Of a question, on average."""
        return sum(self.costs) / len(self.costs)


def measured(point: Point, results: Sequence[Result], prices: Prices | None = None, whole: bool = True) -> Trial:
    """The trial of these results.

    Raises:
        UserError: The engine reports no usage, so that costs cannot be compared.
    """
    right, costs = [bool(r.correct) for r in results], [cost_of(r, prices) for r in results]
    return Trial(dict(point), tuple(right), tuple(costs), whole)


def cost_of(result: Result, prices: Prices | None = None) -> float:
    """What a question cost: tokens in and out, or money. Calls that the cache answered count as if they were new.

    Raises:
        UserError: The engine did not report the usage of every call.
    """
    if result.tokens is None and result.calls:
        raise UserError(
            "the engine does not report the usage of every call, so costs cannot be compared; "
            "switch usage on at the server, or use one that reports it"
        )
    if prices is None:
        return float(result.known_tokens)
    return (prices.tokens_in * _sum(result, "tokens_in") + prices.tokens_out * _sum(result, "tokens_out")) / 1e6


def _sum(result: Result, column: str) -> int:
    return sum(_known(row[column]) for row in result.stages.values())


def _known(number: Any) -> int:
    return int(number or 0)
