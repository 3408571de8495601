"""Plots are drawn without pyplot, are the same every time, and take names for what they are: text."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib")

from coda_dspy.reporting.plots import (
    Closure,
    Point,
    StageTokens,
    accuracy_against_tokens,
    as_png,
    as_svg,
    gap_closure,
    tokens_by_stage,
)

HOSTILE = "$\\frac{ --><script>alert(1)</script>\x00\x1b[31m\u202e\ud800]]>"
POINTS = (Point("alone", 0.4, 0.3, 0.5, 900.0), Point(HOSTILE, 0.7, 0.6, 0.8, 31000), Point("_x", 0.5, 0.4, 0.6, None))
BARS = (StageTokens("all", {"plan": 100.0, "direct": 50.0}), StageTokens(HOSTILE, {"direct": None, HOSTILE: 7}))
CLOSURES = (Closure("judge", 0.4, -0.1, 0.8), Closure(HOSTILE, None))
PLOTS = [(accuracy_against_tokens, POINTS), (tokens_by_stage, BARS), (gap_closure, CLOSURES)]

Plot = Callable[[Any], Any]


def texts_of(figure: Any) -> list[str]:
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


@pytest.mark.parametrize(("plot", "values"), PLOTS)
def test_a_plot_is_a_png_and_an_svg_the_same_every_time(plot: Plot, values: Sequence[Any]) -> None:
    png, svg = as_png(plot(values)), as_svg(plot(values))
    assert png.startswith(b"\x89PNG") and ElementTree.fromstring(svg).tag.endswith("svg")
    assert png == as_png(plot(values))
    assert svg == as_svg(plot(values))


@pytest.mark.parametrize(("plot", "values"), PLOTS)
def test_a_plot_does_not_follow_the_style_of_the_user(plot: Plot, values: Sequence[Any]) -> None:
    import matplotlib

    own = as_svg(plot(values))
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "none"}):
        assert as_svg(plot(values)) == own


@pytest.mark.parametrize(("plot", "values"), PLOTS)
def test_nothing_in_an_svg_came_out_of_a_name_but_its_outlines(plot: Plot, values: Sequence[Any]) -> None:
    svg = as_svg(plot(values))
    names = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(svg).iter()}
    assert names <= {
        "svg",
        "metadata",
        "RDF",
        "Work",
        "type",
        "format",
        "defs",
        "style",
        "g",
        "path",
        "use",
        "clipPath",
        "rect",
    }
    assert "<script" not in svg and "alert(1)</" not in svg


@pytest.mark.parametrize("plot", [accuracy_against_tokens, tokens_by_stage, gap_closure])
def test_nothing_to_plot_is_an_empty_plot(plot: Plot) -> None:
    assert as_png(plot([])).startswith(b"\x89PNG")


def test_what_is_unknown_is_said_and_not_drawn_as_0() -> None:
    assert "_x: 50.0%, tokens unknown" in texts_of(accuracy_against_tokens(POINTS))
    totals = texts_of(tokens_by_stage([*BARS, StageTokens("nothing", {"direct": None})]))
    assert {"150", "at least 7", "unknown"} <= set(totals)
    assert "no gap to close" in texts_of(gap_closure(CLOSURES))


def test_a_scripts_missing_letters_are_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    as_svg(accuracy_against_tokens([Point("漢字", 0.5, 0.4, 0.6, 10.0)]))
    assert not recwarn.list


def test_legend_and_rows_do_not_lie_over_the_plot() -> None:
    figure = accuracy_against_tokens([Point(f"{n} {'long ' * 30}", n / 9, 0, 1, 10.0 * n) for n in range(9)])
    (axes,), (legend,) = figure.axes, figure.legends
    assert not axes.get_window_extent().overlaps(legend.get_window_extent())
    figure = gap_closure([Closure(f"{n}-{'long' * 30}", 0.5, 0.2, 0.7) for n in range(9)])
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_pyplot_is_never_loaded() -> None:
    code = (
        "import sys; from coda_dspy.reporting.plots import *; "
        "as_png(gap_closure([Closure('a', 0.5, 0.1, 0.9)])); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.strip() == "False"
