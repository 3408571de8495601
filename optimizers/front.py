"""The accuracy–tokens front: the budgets that no other one beats in both, as PNG and as a page to explore."""

from collections.abc import Sequence
from typing import Any

from coda_dspy.reporting.plots import Point, accuracy_against_tokens, as_png

from .budgets import Trial, front, point_name


def front_png(trials: Sequence[Trial], chosen: Trial) -> bytes:
    """The front and the chosen budget, each with its interval."""
    shown = front(trials)
    if chosen not in shown:
        shown.append(chosen)
    return as_png(accuracy_against_tokens([_point(trial, chosen) for trial in shown]))


def front_html(trials: Sequence[Trial], chosen: Trial) -> str:
    """Every trial on one page, which needs no network; pointing at one shows its figures."""
    from plotly import graph_objects

    best = front(trials)
    figure = graph_objects.Figure(
        [
            _marks("other budgets", [trial for trial in trials if trial not in best], mode="markers", color="#999999"),
            _marks("front", best, mode="lines+markers", color="#0072B2"),
            _marks("chosen", [chosen], mode="markers", color="#D55E00", marker={"symbol": "star", "size": 16}),
        ]
    )
    figure.update_layout(
        template="plotly_white",
        xaxis={"title": "mean cost of a question: tokens in and out, or money", "rangemode": "tozero"},
        yaxis={"title": "accuracy, with 95 % interval", "tickformat": ".0%", "range": [-0.02, 1.02]},
    )
    return str(figure.to_html(include_plotlyjs=True, div_id="front"))


def _point(trial: Trial, chosen: Trial) -> Point:
    name = point_name(trial.point) + (", chosen" if trial == chosen else "")
    value, low, high, _ = trial.accuracy
    return Point(name, value, low, high, trial.cost)


def _marks(name: str, trials: Sequence[Trial], color: str, **looks: Any) -> dict[str, Any]:
    figures = [trial.accuracy for trial in trials]
    return {
        "type": "scatter",
        "name": name,
        "x": [trial.cost for trial in trials],
        "y": [found.value for found in figures],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [found.high - found.value for found in figures],
            "arrayminus": [found.value - found.low for found in figures],
            "thickness": 1,
        },
        "text": [f"{point_name(trial.point)}<br>{trial.accuracy}, {trial.cost:,.4g} each" for trial in trials],
        "hoverinfo": "text",
        **looks,
        "marker": {"color": color, **looks.get("marker", {})},
    }
