"""What a run comes to: accuracy, and beside it everything that tells what it is worth and what it cost."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .result import Result
from .statistics import Accuracy, Estimate, accuracy, by_question, hit_rate, mean_seconds, mean_tokens, pass_at, recall

_COUNTS = ("calls", "cached", "failed", "cut")
_TOKENS = ("tokens_in", "tokens_out")


class Summary(NamedTuple):
    """The figures of a run.

    Args:
        results: Questions times samples that were answered.
        accuracy: `None` where no right answer is known.
        passes: pass@k by k, for several samples.
        recall: Share of questions one of whose candidates is right.
        hit_rate: Accuracy of one candidate drawn by chance.
        unparsed: Share without an answer though the engine spoke to the end.
        truncated: Share without an answer of which a reply was cut off.
        failed: Share that failed as a whole, or in every call.
        tokens: Tokens a question and sample, calls answered by the cache included; `None` where unknown.
        billed_tokens: The same without those.
        calls: Calls a question and sample.
        seconds: Seconds a question and sample.
        stages: Totals by stage: `calls`, `cached`, `failed`, `cut`, `tokens_in`, `tokens_out`, `seconds`.
    """

    results: int
    accuracy: Accuracy | None
    passes: Mapping[int, Estimate]
    recall: Estimate | None
    hit_rate: Estimate | None
    unparsed: float
    truncated: float
    failed: float
    tokens: float | None
    billed_tokens: float | None
    calls: float
    seconds: float
    stages: Mapping[str, Mapping[str, Any]]

    def metrics(self) -> dict[str, float | None]:
        """The figures by name, as MLflow takes them."""
        found: dict[str, float | None] = {"questions": self.results}
        for name in ("accuracy", "recall", "hit_rate"):
            found.update(_named(name, getattr(self, name)))
        for k, estimate in self.passes.items():
            found.update(_named(f"pass_at_{k}", estimate))
        names = ("unparsed", "truncated", "failed", "tokens", "billed_tokens", "calls", "seconds")
        found.update({name: getattr(self, name) for name in names})
        for stage, row in self.stages.items():
            found.update({f"{name}_rate.{stage}": row[name] / row["calls"] for name in ("failed", "cut")})
        return found


def summarize(results: Sequence[Result]) -> Summary:
    """The summary of at least one result."""
    n = len(results)
    graded = by_question(results)
    samples = min(map(len, graded.values()), default=0)
    ks = sorted({k for k in (1, 2, 4, 8, 16, 32, 64, 128) if k <= samples} | {samples}) if samples > 1 else []
    billed = [result.billed_tokens for result in results]
    return Summary(
        results=n,
        accuracy=accuracy(results) if graded else None,
        passes={k: found for k in ks if (found := pass_at(results, k)) is not None},
        recall=recall(results),
        hit_rate=hit_rate(results),
        unparsed=sum(result.unparsed for result in results) / n,
        truncated=sum(result.truncated for result in results) / n,
        failed=sum(_has_failed(result) for result in results) / n,
        tokens=mean_tokens(results),
        billed_tokens=None if None in billed else sum(b for b in billed if b is not None) / n,
        calls=sum(result.calls for result in results) / n,
        seconds=mean_seconds(results),
        stages=_stages(results),
    )


def _has_failed(result: Result) -> bool:
    return result.answer is None and not result.truncated and not result.unparsed


def _named(name: str, estimate: Accuracy | Estimate | None) -> dict[str, float | None]:
    if estimate is None:
        return {}
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def _stages(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    totals: dict[str, dict[str, Any]] = {}
    for result in results:
        for stage, row in result.stages.items():
            total = totals.setdefault(stage, dict.fromkeys((*_COUNTS, *_TOKENS, "seconds"), 0))
            for name in (*_COUNTS, "seconds"):
                total[name] += row[name]
            for name in _TOKENS:
                total[name] = None if None in (total[name], row[name]) else total[name] + row[name]
    return totals


def columns_of(results: Sequence[Result]) -> dict[str, list[Any]]:
    """The results as columns, without the engine's texts: a table for MLflow."""
    names = ("id", "sample", "answer", "gold", "correct", "path", "calls", "tokens", "seconds", "error")
    return {name: [getattr(result, name) for result in results] for name in names}
