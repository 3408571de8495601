"""The plots of a report, as images that stand in the page itself."""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from coda_dspy.evaluation import Result, summarize
from coda_dspy.evaluation.statistics import Estimate, accuracy, by_question, mean_tokens

from .folders import Entry, Run
from .head import are_graded, closure
from .plots import Closure, Point, StageTokens, accuracy_against_tokens, as_svg, gap_closure, tokens_by_stage
from .words import number, share


class Chart(NamedTuple):
    """An image as a data URI, with what it shows in words."""

    title: str
    image: str
    words: str


def charts(run: Run) -> list[Chart]:
    """The plots for which the run has figures."""
    groups = _groups(run.entries)
    points, closures = _points(run, groups), _closures(groups)
    bars = [StageTokens(name, _stage_tokens(results)) for name, results in groups.items()]
    drawn = []
    if points:
        words = "; ".join(f"{p.name}: {share(Estimate(*p[1:4]))} at {number(p.tokens)} tokens" for p in points)
        drawn.append(_chart("Accuracy against tokens", accuracy_against_tokens, points, words))
    if any(bar.tokens for bar in bars):
        drawn.append(_chart("Tokens by stage", tokens_by_stage, bars, "; ".join(map(_bar_words, bars))))
    if closures:
        words = "; ".join(f"{c.name}: {_closure_words(c)}" for c in closures)
        drawn.append(_chart("Gap closure", gap_closure, closures, words))
    return drawn


def _chart(title: str, plot: Callable[[Any], Any], values: Sequence[Any], words: str) -> Chart:
    data = b64encode(as_svg(plot(values)).encode()).decode()
    return Chart(title, f"data:image/svg+xml;base64,{data}", words)


def _groups(entries: Sequence[Entry]) -> dict[str, list[Result]]:
    """All results, and where there are several paths those of each."""
    results = [entry.result for entry in entries]
    paths = dict.fromkeys(result.path for result in results)
    groups = {"all questions": results}
    if len(paths) > 1:
        for path in sorted(paths, key=str):
            groups[f"path {path}" if path else "no answer"] = [r for r in results if r.path == path]
    return groups


def _points(run: Run, groups: Mapping[str, Sequence[Result]]) -> list[Point]:
    """The chosen answers, overall and by path, between one candidate and the best of all."""
    found = summarize(run.results)
    points = []
    if found.hit_rate is not None:
        points.append(Point("one candidate", *found.hit_rate, _tokens_of_a_candidate(run.entries)))
    for name, results in groups.items():
        if by_question(results):
            score = accuracy(results)
            points.append(Point(f"{name} (n = {score.n})", score.value, score.low, score.high, mean_tokens(results)))
    if found.recall is not None:
        points.append(Point("any candidate (recall)", *found.recall, found.tokens))
    return points


def _tokens_of_a_candidate(entries: Sequence[Entry]) -> float | None:
    records = [entry.record for entry in entries if entry.record is not None]
    tokens = [candidate.tokens for record in records for candidate in record.candidates]
    known = [count for count in tokens if count is not None]
    return sum(known) / len(known) if known and len(known) == len(tokens) else None


def _stage_tokens(results: Sequence[Result]) -> dict[str, float | None]:
    found = {}
    for stage, row in summarize(results).stages.items():
        known = row["tokens_in"] is not None and row["tokens_out"] is not None
        found[stage] = (row["tokens_in"] + row["tokens_out"]) / len(results) if known else None
    return found


def _closures(groups: Mapping[str, Sequence[Result]]) -> list[Closure]:
    graded = {name: closure(results) for name, results in groups.items() if are_graded(results)}
    return [Closure(name, *found) if found is not None else Closure(name, None) for name, found in graded.items()]


def _bar_words(bar: StageTokens) -> str:
    return f"{bar.name}: " + ", ".join(f"{stage} {number(tokens)}" for stage, tokens in bar.tokens.items())


def _closure_words(bar: Closure) -> str:
    if bar.value is None or bar.low is None or bar.high is None:
        return "no gap to close"
    return share(Estimate(bar.value, bar.low, bar.high))
