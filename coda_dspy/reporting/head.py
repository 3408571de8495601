"""The head of a report: what was run, and what it came to."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from coda_dspy.evaluation import Result, Summary
from coda_dspy.evaluation.statistics import Estimate, by_question, closure_of, mean_of

from .folders import Run
from .words import UNKNOWN, number, plain, share

FIRST = ("engine", "data", "algorithm", "budget")  # of what run.json says, the rest follows
RATES = {
    "unparsed": "no answer, though the engine spoke to the end",
    "truncated": "no answer, and a reply was cut off",
    "failed": "no answer for another reason",
}


class Figure(NamedTuple):
    """A figure as words, and what has to be known about it."""

    name: str
    value: str
    note: str


def facts(run: Run) -> list[tuple[str, str]]:
    """What was run: every field of `run.json`, but of the budget only what differs from the default."""
    described = dict(run.described)
    if isinstance(described.get("budget"), Mapping):
        described["budget"] = _changed(described["budget"]) or "the default"
    if len(run.folders) > 1:
        described["shards"] = f"{len(run.folders)} folders, joined; the other lines are of the first"
    order = [name for name in FIRST if name in described] + [name for name in described if name not in FIRST]
    return [(name, plain(described[name])) for name in order]


def figures(results: Sequence[Result], found: Summary) -> list[Figure]:
    """What it came to; `found` is the summary of the results."""
    return [*_quality(results, found), *_rates(found), *_cost(results, found)]


def _quality(results: Sequence[Result], found: Summary) -> list[Figure]:
    interval = "with its 95 % interval"
    passes = [
        Figure(f"pass@{k}", share(passed), "any of so many samples is right") for k, passed in found.passes.items()
    ]
    return [
        Figure("accuracy", share(found.accuracy), f"{_graded(found)}, {interval}"),
        *passes,
        Figure("recall", share(found.recall), "any candidate is right"),
        Figure("one candidate", share(found.hit_rate), "accuracy of a candidate drawn by chance"),
        Figure("recall − accuracy", share(_gap(results)), "right answers that were found but not chosen"),
        Figure("gap closure", share(closure_of(results)), "from one candidate (0 %) to recall (100 %)"),
        Figure("samples", _samples(results), "answers to each question"),
    ]


def _rates(found: Summary) -> list[Figure]:
    shares = {name: getattr(found, name) for name in RATES}
    counts = {name: f"{round(value * found.results)} of {found.results}" for name, value in shares.items()}
    return [Figure(name, f"{value:.1%}", f"{counts[name]}: {RATES[name]}") for name, value in shares.items()]


def _cost(results: Sequence[Result], found: Summary) -> list[Figure]:
    tokens = number(found.tokens)
    if found.tokens is not None and any(result.tokens is None for result in results):
        tokens, cached = f"at least {tokens}", UNKNOWN
    elif found.tokens is None or found.billed_tokens is None:
        cached = UNKNOWN
    else:
        cached = number(found.tokens - found.billed_tokens)
    billed = sum(result.billed_calls for result in results) / len(results)
    return [
        Figure("tokens each", tokens, f"billed {number(found.billed_tokens)}, from the cache {cached}"),
        Figure(
            "calls each", number(found.calls, 1), f"billed {billed:,.1f}, from the cache {found.calls - billed:,.1f}"
        ),
        Figure("seconds each", number(found.seconds, 1), "in the company of the questions beside it"),
    ]


def are_graded(results: Sequence[Result]) -> bool:
    """Whether of all results with a known answer the candidates were graded too; there has to be one."""
    graded = [result for group in by_question(results).values() for result in group]
    return bool(graded) and all(r.recalled is not None and r.hit_rate is not None for r in graded)


def _gap(results: Sequence[Result]) -> Estimate | None:
    if not are_graded(results):
        return None
    gap = mean_of(_means(results, lambda result: float(_is_recalled(result)) - float(_is_right(result))))
    return Estimate(gap.value, max(gap.low, -1.0), min(gap.high, 1.0))


def _means(results: Sequence[Result], part: Callable[[Result], float]) -> list[float]:
    """The mean over the samples of each question."""
    groups = by_question(results).values()
    return [sum(float(part(result)) for result in group) / len(group) for group in groups]


def _is_right(result: Result) -> bool:
    return bool(result.correct)


def _is_recalled(result: Result) -> bool:
    return bool(result.recalled)


def _graded(found: Summary) -> str:
    return f"n = {found.accuracy.n} questions" if found.accuracy is not None else "no right answers are given"


def _samples(results: Sequence[Result]) -> str:
    counts = Counter(result.id for result in results).values()
    return f"{max(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def _changed(budget: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that differ from the default."""
    from coda_dspy.budget import Budget

    default = Budget().dump_state()
    return {name: _of_stages(value, default.get(name)) for name, value in budget.items() if value != default.get(name)}


def _of_stages(value: Any, usual: Any) -> Any:
    """Of numbers by stage one number, where all are the same, or else the stages that differ from the default."""
    if not isinstance(value, Mapping) or not isinstance(usual, Mapping):
        return value
    if value.keys() == usual.keys() and len(set(value.values())) == 1:
        return next(iter(value.values()))
    return {stage: one for stage, one in value.items() if one != usual.get(stage)}
