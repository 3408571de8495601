"""`coda profile`: look at a profile, compare two, check one that came from elsewhere."""

import sys
from typing import Any

import click
from rich.text import Text

from coda_dspy.cli.display import console, table
from coda_dspy.cli.profile_text import (
    changed_fields,
    diff_lines,
    differences,
    fields,
    figures,
    joined,
    lessons,
    one_line,
    whole,
)

MOST_ROWS = 200  # of one table; a stranger's may have a million
BUDGET = "budget, where it differs from the defaults"
FIGURES = ["", "value", "95 % interval", "n", "more"]


@click.group()
def profile() -> None:
    """Look at profiles: what `coda tune` writes, and what ships for the local engines.

    A profile is a file, or the name of an engine whose profile ships with the package (with -choice or -code at its end
    for these kinds of question).
    """


@profile.command()
@click.argument("source", metavar="PROFILE")
@click.option("--prompts", is_flag=True, help="The whole text of instructions and demonstrations.")
def show(source: str, prompts: bool) -> None:
    """Print what PROFILE holds: engine, budget, prompts, the figures that justify them, and where they come from."""
    from coda_dspy.learned import Learned
    from coda_dspy.profiles import find

    found = find(source)
    _say(f"engine {found.engine}, algorithm {found.algorithm}, adapter {found.adapter}")
    _say(f"decoding: {joined(found.decoding)}")
    budget = [[name, value, default] for name, value, default in changed_fields(found)]
    _table(BUDGET, ["field", "value", "default"], budget)
    _prompts(found, prompts)
    _table("scores", FIGURES, figures(found.scores))
    _table("learned for run time", FIGURES, lessons(Learned.parse(found.learned)))
    _say(f"data: {joined(found.data)}")
    _say(f"made with: {joined(found.versions)}")
    measured = {name: value for name, value in (found.probe or {}).items() if name != "figures"}
    _table("probe", ["", "measured"], [[name, value] for name, value in fields(measured).items()])


@profile.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
def diff(first: str, second: str) -> None:
    """Compare the profiles A and B, field by field and prompt by prompt.

    The exit code is 0 where they are equal, 1 where they differ, and 2 where one cannot be read.
    """
    from coda_dspy.profiles import find

    a, b = find(first), find(second)
    _table("fields that differ", ["field", first, second], [list(row) for row in differences(a, b)])
    for line in diff_lines(a, b):
        _say(line, {"-": "red", "+": "green", "@": "cyan"}.get(line[:1], ""))
    if a != b:
        sys.exit(1)
    _say("no difference")


@profile.command()
@click.argument("source", metavar="PROFILE")
def check(source: str) -> None:
    """Say whether PROFILE can be used here. Nothing of it is run, and no engine is asked.

    The exit code is 0 where it can (warnings leave it so), and 2 where it cannot; the message names the field.
    """
    from coda_dspy.profiles import find

    found = find(source)  # all or nothing: whatever follows has been checked by now
    demos = sum(len(prompt.demos) for prompt in found.prompts.values())
    _say(f"file: readable, within limits, version {found.version}")
    _say(f"engine: {found.engine}; {_weights(found.engine)}")
    _say(f"algorithm: {found.algorithm}")
    _say(f"adapter: {found.adapter}")
    _say(f"budget: valid; {len(changed_fields(found))} values differ from the defaults")
    _say(f"prompts: they fit the {len(found.prompts)} roles of this version; demonstrations {demos}")
    _say(f"decoding: allowed ({joined(found.decoding)})")
    for warning in _warnings(found):
        _say(f"warning: {warning}", "yellow")


@profile.command()
@click.argument("source", metavar="OLD", type=click.Path(exists=True, dir_okay=False))
@click.argument("target", metavar="NEW", type=click.Path(dir_okay=False))
def renew(source: str, target: str) -> None:
    """Write OLD, a profile of an earlier version, as NEW, one of this version.

    Roles and fields of the budget that are new since then stand in it as they are written; nothing else changes.
    """
    from coda_dspy.profile import Profile

    renewed, added = Profile.renewed(source)
    renewed.save(target)
    _say(f"new since then: {', '.join(added) or 'nothing'}; saved in {target}")


def _warnings(found: Any) -> list[str]:
    from coda_dspy.profile import installed_versions

    here = installed_versions()
    warnings = [
        f"made with {package} {version}, here is {here.get(package, 'none')}"
        for package, version in found.versions.items()
        if version != here.get(package)
    ]
    if not found.versions:
        warnings.append("it does not say which versions made it")
    if not found.scores:
        warnings.append("it holds no scores: nothing says that it helps")
    return warnings


def _weights(engine: str) -> str:
    """What is known of an engine's weights."""
    from coda_dspy.engines import weights
    from coda_dspy.engines.catalog import CATALOG
    from coda_dspy.engines.connect import LOCAL

    name = engine.removeprefix(LOCAL)
    if name == engine:
        return "a server has its weights"
    if name in CATALOG:
        fetched = weights.is_fetched(CATALOG[name])
        return "its weights are known, and here" if fetched else "its weights are known, and not fetched yet"
    return "its weights are not in the catalog (see coda engines); give --engine where they are not here"


def _prompts(found: Any, in_full: bool) -> None:
    from coda_dspy.conductor import AdaptiveCoda
    from coda_dspy.profile import Profile

    written = Profile.of(AdaptiveCoda(), found.engine).prompts
    for name, prompt in found.prompts.items():
        origin = "as written" if prompt.instructions == written[name].instructions else "of its own"
        _say(f"{name}: instructions {origin}, demonstrations {len(prompt.demos)}", "bold")
        for line in whole(prompt) if in_full else [one_line(prompt.instructions)]:
            _say(f"  {line}")


def _table(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    if not rows:
        _say(f"{title}: none")
        return
    shown = [[one_line(cell) for cell in row] for row in rows[:MOST_ROWS]]
    console.print(table(title, columns, shown))
    if len(rows) > MOST_ROWS:
        _say(f"… and {len(rows) - MOST_ROWS} more")


def _say(text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)
