"""What the benches share: medians with their range, the machine's load, and figures as a table, Markdown and CSV."""

import csv
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click
from rich.text import Text

from coda_dspy.cli.display import console, table
from coda_dspy.engines.local import usable_cores
from coda_dspy.files import write_atomically

rounds_option = click.option(
    "--rounds", type=click.IntRange(1), default=5, show_default=True, help="Runs; the figures are their medians."
)
output_option = click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder for the figures as Markdown and CSV."
)


class Spread(NamedTuple):
    """The median of a figure over several runs, its least and its most."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Of at least one run."""
        found = list(values)
        return cls(median(found), min(found), max(found))

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g}–{self.high:.3g})"


Cell = str | int | float | Spread
Row = Mapping[str, Cell]


class Machine:
    """The machine while something is measured: its cores, and its load before and after."""

    def __init__(self) -> None:
        self.before = os.getloadavg()

    def __str__(self) -> str:
        before, after = (", ".join(f"{value:.1f}" for value in load) for load in (self.before, os.getloadavg()))
        return f"{usable_cores()} cores; load over 1, 5 and 15 minutes {before} before, {after} after"


def publish(name: str, rows: Sequence[Row], notes: Sequence[str], output: Path | None) -> None:
    """Print the figures, and write them where a folder is given.

    Args:
        name: What the table and its files are called.
        rows: All with the same columns.
        notes: What else the reader has to know; the machine's load is one of them.
        output: Where `NAME.md` and `NAME.csv` go.
    """
    columns = list(rows[0])
    lines = [[_shown(row[column]) for column in columns] for row in rows]
    console.print(table(name, columns, lines))
    for note in notes:
        console.print(Text(note))
    if output is not None:
        write_atomically(output / f"{name}.md", _markdown(name, columns, lines, notes))
        write_atomically(output / f"{name}.csv", _as_csv(rows))


def _shown(cell: Cell) -> str:
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


def _markdown(name: str, columns: Sequence[str], lines: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    grid = [f"| {' | '.join(line)} |" for line in (columns, ["---"] * len(columns), *lines)]
    command = shlex.join(["python", *sys.orig_argv[1:]])
    return "\n".join([f"# {name}", "", f"    {command}", "", *grid, "", *notes]) + "\n"


def _as_csv(rows: Sequence[Row]) -> str:
    """One line a row; a figure over several runs takes three columns."""
    file = StringIO()
    flat = [{key: value for name, cell in row.items() for key, value in _flat(name, cell)} for row in rows]
    writer = csv.DictWriter(file, list(dict.fromkeys(key for row in flat for key in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return file.getvalue()


def _flat(name: str, cell: Cell) -> list[tuple[str, Cell]]:
    if isinstance(cell, Spread):
        return [(name, cell.median), (f"{name} low", cell.low), (f"{name} high", cell.high)]
    return [(name, cell)]
