"""A profile as rows and lines: plain text that the commands of `coda profile` lay out."""

import difflib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coda_dspy.learned import Learned, Lessons, Measured
    from coda_dspy.profile import Profile, Prompt

MISSING = "–"
_WIDTH = 120  # characters of a value in a row
_MOST = 40  # values in a line
_FIGURE = ("value", "low", "high")


def one_line(value: Any) -> str:
    """A value as it stands in a row: on one line, and not longer than one likes to read."""
    text = " ".join(str(value).split())
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…"


def joined(values: Mapping[str, Any]) -> str:
    """The values on one line, with their names."""
    named = fields(values)
    shown = [f"{name} {one_line(value)}" for name, value in islice(named.items(), _MOST)]
    return ", ".join(shown + ["…"] * (len(named) > _MOST)) or "none"


def leaves(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values within a value, each with the names that lead to it. What is empty counts as a value."""
    if not isinstance(value, Mapping | list) or not value:
        yield place, value
        return
    parts = value.items() if isinstance(value, Mapping) else enumerate(value)
    for name, part in parts:
        yield from leaves(part, (*place, str(name)))


def fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same with dotted names."""
    return {".".join(place): value for place, value in leaves(values) if place}


def changed_fields(profile: "Profile") -> list[tuple[str, Any, Any]]:
    """Name, value and default of each value of the budget that differs from the defaults."""
    from coda_dspy.budget import Budget

    defaults = fields(Budget().dump_state())
    own = fields(Budget(**profile.budget).dump_state())
    return [(name, value, defaults[name]) for name, value in own.items() if value != defaults[name]]


def figures(scores: Any, place: tuple[str, ...] = ()) -> list[list[str]]:
    """A row for each figure: name, value, its interval, its sample size, and whatever else is said of it."""
    if isinstance(scores, Mapping) and all(_is_number(scores.get(name)) for name in _FIGURE):
        return [_figure_row(scores, ".".join(place))]
    if not isinstance(scores, Mapping | list) or not scores:
        return [[".".join(place), str(scores), "", "", ""]] if place else []
    parts = scores.items() if isinstance(scores, Mapping) else enumerate(scores, 1)
    return [row for name, part in parts for row in figures(part, (*place, str(name)))]


def _figure_row(figure: Mapping[str, Any], name: str) -> list[str]:
    sign = "+" if "p_value" in figure else ""  # a difference
    more = {key: value for key, value in figure.items() if key not in (*_FIGURE, "n")}
    interval = f"{figure['low']:{sign}.1%} – {figure['high']:{sign}.1%}"
    said = ", ".join(f"{key} {_short(value)}" for key, value in more.items())
    return [name, f"{figure['value']:{sign}.1%}", interval, str(figure.get("n", "unknown")), said]


def lessons(learned: "Learned") -> list[list[str]]:
    """A row for each thing that was learned: name, value, its interval, its sample size, and whatever else is said."""
    return [[f"{kind}.{name}", *cells] for kind, of_kind in learned.root.items() for name, cells in _lessons(of_kind)]


def _lessons(found: "Lessons") -> Iterator[tuple[str, list[str]]]:
    if found.first_path is not None:
        yield "first_path", [found.first_path, "", "", ""]
    if found.agreement is not None:
        yield "agreement", _cells(found.agreement)
    for path, voting in found.votes.items():
        yield f"votes.{path}", _cells(voting.accuracy, f"weight {voting.weight:g}")
    if found.alternatives is not None:
        yield "alternatives", _cells(found.alternatives)
    if found.corroboration is not None:
        yield "corroboration", _cells(found.corroboration)
    for judge, judging in found.judges.items():
        said = f"weight {judging.weight:g}, chance {judging.chance.value:.1%}"
        said += f", contradicting {judging.contradicting.value:.0%}" if judging.contradicting else ""
        yield f"judges.{judge}", _cells(judging.accuracy, said)
    if found.answers is not None:
        alphas = ", ".join(f"α {c.alpha:g} {c.share:.0%}" for c in found.answers.concentrations if c.share >= 0.01)
        yield "answers.leading", _cells(found.answers.leading, f"votes {found.answers.votes}")
        yield "answers.distinct", _cells(found.answers.distinct, alphas)


def _cells(figure: "Measured", more: str = "") -> list[str]:
    from coda_dspy.learned import Share

    form = ".1%" if isinstance(figure, Share) else ".1f"
    return [f"{figure.value:{form}}", f"{figure.low:{form}} – {figure.high:{form}}", str(figure.n), more]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def differences(first: "Profile", second: "Profile") -> list[tuple[str, Any, Any]]:
    """Name and both values of each field that differs; prompts have `diff_lines`."""
    a, b = (dict(leaves(profile.model_dump(exclude={"prompts"}))) for profile in (first, second))
    places = [place for place in {**a, **b} if (place in a) != (place in b) or a.get(place) != b.get(place)]
    return [(".".join(place), a.get(place, MISSING), b.get(place, MISSING)) for place in places]


def diff_lines(first: "Profile", second: "Profile") -> Iterator[str]:
    """A unified diff for each role whose prompt differs."""
    for name, prompt in first.prompts.items():
        yield from difflib.unified_diff(whole(prompt), whole(second.prompts[name]), name, name, lineterm="")


def whole(prompt: "Prompt") -> list[str]:
    """All lines of a prompt. Those that go on are indented, so that no two prompts look the same."""
    lines = _field("instructions", prompt.instructions)
    for number, demo in enumerate(prompt.demos, 1):
        lines.append(f"demonstration {number}")
        lines += [line for name, text in sorted(demo.items()) for line in _field(name, text)]
    return lines


def _field(name: str, text: str) -> list[str]:
    first, *others = text.split("\n")
    return [f"{name}: {first}", *(f"  {line}" for line in others)]
