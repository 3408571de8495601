"""The plots of a report, as images that stand in the page itself."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from coda_dspy.evaluation import Result, Summary, summarize
from coda_dspy.evaluation.statistics import Estimate, closure_of

from .folders import Entry, Run
from .head import are_graded
from .plots import Closure, Point, StageTokens, accuracy_against_tokens, as_svg, gap_closure, tokens_by_stage
from .words import number, share


class Chart(NamedTuple):
    """An image as a data URI, with what it shows in words."""

    title: str
    image: str
    words: str


class Group(NamedTuple):
    """Results that are measured together."""

    name: str
    results: Sequence[Result]
    found: Summary


def charts(run: Run, found: Summary) -> list[Chart]:
    """The plots for which the run has figures; `found` is the summary of its results."""
    groups = [Group("all questions", run.results, found), *_by_path(run.results)]
    points, closures = _points(run, groups), _closures(groups)
    bars = [StageTokens(group.name, _stage_tokens(group)) for group in groups]
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


def _by_path(results: Sequence[Result]) -> list[Group]:
    """Where there are several paths, the results of each."""
    paths = sorted({result.path or "" for result in results})
    split = {path: [result for result in results if (result.path or "") == path] for path in paths}
    found = [Group(f"path {path}" if path else "no answer", part, summarize(part)) for path, part in split.items()]
    return found if len(found) > 1 else []


def _points(run: Run, groups: Sequence[Group]) -> list[Point]:
    """The chosen answers, overall and by path, between one candidate and the best of all."""
    found = groups[0].found
    points = []
    if found.hit_rate is not None:
        points.append(Point("one candidate", *found.hit_rate, _tokens_of_a_candidate(run.entries)))
    for group in groups:
        score = group.found.accuracy
        if score is not None:
            name = f"{group.name} (n = {score.n})"
            points.append(Point(name, score.value, score.low, score.high, group.found.tokens))
    if found.recall is not None:
        points.append(Point("any candidate (recall)", *found.recall, found.tokens))
    return points


def _tokens_of_a_candidate(entries: Sequence[Entry]) -> float | None:
    records = [entry.record for entry in entries if entry.record is not None]
    tokens = [candidate.tokens for record in records for candidate in record.candidates]
    known = [count for count in tokens if count is not None]
    return sum(known) / len(known) if known and len(known) == len(tokens) else None


def _stage_tokens(group: Group) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for stage, row in group.found.stages.items():
        known = row["tokens_in"] is not None and row["tokens_out"] is not None
        found[stage] = (row["tokens_in"] + row["tokens_out"]) / len(group.results) if known else None
    return found


def _closures(groups: Sequence[Group]) -> list[Closure]:
    graded = [(group.name, closure_of(group.results)) for group in groups if are_graded(group.results)]
    return [Closure(name, *found) if found is not None else Closure(name, None) for name, found in graded]


def _bar_words(bar: StageTokens) -> str:
    return f"{bar.name}: " + ", ".join(f"{stage} {number(tokens)}" for stage, tokens in bar.tokens.items())


def _closure_words(bar: Closure) -> str:
    if bar.value is None or bar.low is None or bar.high is None:
        return "no gap to close"
    return share(Estimate(bar.value, bar.low, bar.high))
