"""The plots of reports and experiments: figures of matplotlib, without any state of pyplot's.

The same input gives the same bytes, whatever style the user has set. Names are drawn as they are, never as formulas.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from textwrap import fill
from typing import Any, NamedTuple

from coda_dspy.ledger import STAGES

from .visible import visible

# Okabe and Ito's colours, which colour-blind people tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#F0E442", "#999999")
_MARKERS = "osD^vPX"
_WIDTH = 5.6  # inches
_ROW = 0.48  # holds two lines
_LONGEST_NAME = 44


class Point(NamedTuple):
    """An accuracy from 0 to 1 with the ends of its interval, and the mean tokens a question that it took.

    `tokens` is `None` where the engine did not say; such a point is named beside the plot.
    """

    name: str
    value: float
    low: float
    high: float
    tokens: float | None


class StageTokens(NamedTuple):
    """Mean tokens a question by stage; `None` for a stage of which the engine did not say."""

    name: str
    tokens: Mapping[str, float | None]


class Closure(NamedTuple):
    """A gap closure with the ends of its interval; a `value` of `None` says that there was no gap to close."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None


@contextmanager
def _own_style() -> Iterator[None]:
    """Matplotlib's defaults, and ids in SVG files that do not change from run to run."""
    from matplotlib import style

    with style.context(["default", {"svg.hashsalt": "coda"}]), warnings.catch_warnings():
        # A name in a script that matplotlib's font lacks is drawn as boxes, which one sees.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


@_own_style()
def accuracy_against_tokens(points: Sequence[Point]) -> Any:
    """Accuracy with its interval against mean tokens a question.

    Returns:
        A `matplotlib.figure.Figure`, as the other plots do; see `as_svg` and `as_png`.
    """
    figure, axes = _figure(3.2 + 0.22 * len(points))
    entries = [(_drawn(axes, point, number), _legend_text(point)) for number, point in enumerate(points)]
    _scale_tokens(axes, [point.tokens for point in points if point.tokens is not None])
    axes.set_ylim(-0.02, 1.02)  # room for marks at the ends
    _percent(axes.yaxis)
    axes.set_ylabel("accuracy, with 95 % interval")
    axes.grid(alpha=0.3)
    return _finished(figure, entries, columns=1)


@_own_style()
def tokens_by_stage(bars: Sequence[StageTokens]) -> Any:
    """Mean tokens a question, stacked by stage; a bar a name, the first one on top."""
    figure, axes = _figure(1.5 + _ROW * len(bars))
    entries = []
    ends = [0.0] * len(bars)
    for stage in _in_order({stage for bar in bars for stage in bar.tokens}):
        widths = [bar.tokens.get(stage) or 0.0 for bar in bars]
        drawn = axes.barh(range(len(bars)), widths, left=ends, color=_colour(stage), edgecolor="white")
        entries.append((drawn, _name(stage)))
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    for row, (bar, end) in enumerate(zip(bars, ends, strict=True)):
        _write(axes, (end, row), _total(bar, end))
    _name_rows(axes, [bar.name for bar in bars])
    _count_tokens(axes, most=1.3 * max(ends, default=0))
    axes.set_xlabel("tokens a question, in and out")
    return _finished(figure, entries, columns=4)


@_own_style()
def gap_closure(bars: Sequence[Closure]) -> Any:
    """What was made of the gap between one candidate drawn by chance (0) and the best one that there was (1)."""
    figure, axes = _figure(1.2 + _ROW * len(bars))
    for row, bar in enumerate(bars):
        if bar.value is None:
            _write(axes, (0, row), "no gap to close")
            continue
        axes.barh(row, bar.value, color=_COLOURS[0], height=0.6)
        if bar.low is not None and bar.high is not None:
            axes.errorbar(bar.value, row, xerr=_error(bar.value, bar.low, bar.high), color="black", capsize=3)
    _name_rows(axes, [bar.name for bar in bars])
    ends = [end for bar in bars for end in (bar.value, bar.low, bar.high) if end is not None]
    axes.set_xlim(min([0.0, *ends]) - 0.05, max([1.0, *ends]) + 0.05)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.xaxis.set_major_locator(_few_ticks())
    _percent(axes.xaxis)
    axes.set_xlabel("gap closure, with 95 % interval")
    return _finished(figure, [], columns=1)


@_own_style()
def as_svg(figure: Any) -> str:
    """The figure as SVG; texts are drawn as outlines, so they look the same everywhere."""
    file = BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue().decode()


@_own_style()
def as_png(figure: Any) -> bytes:
    """The figure as PNG."""
    file = BytesIO()
    figure.savefig(file, format="png", dpi=150, metadata={"Software": None})
    return file.getvalue()


def _figure(height: float) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    return figure, axes


def _finished(figure: Any, entries: Sequence[tuple[Any, str]], columns: int) -> Any:
    """The figure with its legend below, where it covers nothing, laid out once and for all formats."""
    if entries:
        handles, names = zip(*entries, strict=True)
        legend = figure.legend(handles, names, loc="outside lower left", ncols=columns, frameon=False)
        for text in legend.get_texts():
            text.set_parse_math(False)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def _drawn(axes: Any, point: Point, number: int) -> Any:
    """A point with its interval; without tokens it has no place, and leaves its line in the legend blank."""
    if point.tokens is None:
        return axes.plot([], [], " ")[0]
    looks = {"color": _COLOURS[number % len(_COLOURS)], "marker": _MARKERS[number % len(_MARKERS)]}
    error = _error(point.value, point.low, point.high)
    return axes.errorbar(point.tokens, point.value, error, **looks, linestyle="none", capsize=3)


def _legend_text(point: Point) -> str:
    unknown = "" if point.tokens is not None else f": {point.value:.1%}, tokens unknown"
    return f"{_name(point.name)}{unknown}"


def _error(value: float, low: float, high: float) -> list[list[float]]:
    """An interval as the distances that matplotlib wants."""
    return [[max(value - low, 0.0)], [max(high - value, 0.0)]]


def _scale_tokens(axes: Any, tokens: Sequence[float]) -> None:
    """From 0 where that shows the differences, else by factors."""
    from matplotlib.ticker import LogLocator, NullLocator

    if tokens and 0 < 20 * min(tokens) < max(tokens):
        axes.set_xscale("log")
        axes.set_xlim(min(tokens) / 2, 2 * max(tokens))
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("mean tokens a question, in and out (logarithmic)")
    else:
        _count_tokens(axes, most=1.1 * max(tokens, default=0))
        axes.set_xlabel("mean tokens a question, in and out")


def _count_tokens(axes: Any, most: float) -> None:
    axes.set_xlim(0, most or 1)
    axes.xaxis.set_major_locator(_few_ticks())
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(5)


def _percent(axis: Any) -> None:
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def _name_rows(axes: Any, names: Sequence[str]) -> None:
    """Names on the left, from top to bottom."""
    labels = [fill(_name(name), 24) for name in names]
    for tick in axes.set_yticks(range(len(names)), labels):
        tick.label1.set_parse_math(False)
    axes.invert_yaxis()


def _write(axes: Any, place: tuple[float, float], text: str) -> None:
    axes.annotate(text, place, (4, 0), textcoords="offset points", verticalalignment="center")


def _name(name: str) -> str:
    name = " ".join(visible(name).split())
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _in_order(stages: set[str]) -> list[str]:
    return [stage for stage in STAGES if stage in stages] + sorted(stages.difference(STAGES))


def _colour(stage: str) -> str:
    """A stage has the same colour in every plot."""
    return _COLOURS[STAGES.index(stage)] if stage in STAGES else "#000000"


def _total(bar: StageTokens, total: float) -> str:
    if None not in bar.tokens.values():
        return f"{total:,.0f}"
    return f"at least {total:,.0f}" if total else "unknown"
