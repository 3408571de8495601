"""A measured table as Markdown, as CSV and as plots."""

import csv
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from coda_dspy.evaluation import summarize
from coda_dspy.evaluation.statistics import accuracy, closure_of, mean_tokens, paired_difference
from coda_dspy.files import write_atomically

from .running import Row
from .tables import Table

SHOWN = ("variant", "accuracy", "against the first, paired", "tokens each", "unparsed", "truncated")
COLUMNS = (
    *("variant", "accuracy", "low", "high", "n", "difference", "difference low", "difference high", "tokens each"),
    *("unparsed", "truncated"),
)


def write(table: Table, rows: Sequence[Row], folder: Path, command: str) -> list[Path]:
    """Write `TABLE.md`, `TABLE.csv` and the plots into a folder, and say which files these are.

    Args:
        table: What was compared.
        rows: At least one, with results.
        folder: Where to.
        command: What was typed to get it, for the reader.
    """
    texts = {f"{table.name}.md": markdown(table, rows, command), f"{table.name}.csv": as_csv(rows)}
    for name, text in texts.items():
        write_atomically(folder / name, text)
    return [*(folder / name for name in texts), *_plots(table, rows, folder)]


def cells(rows: Sequence[Row]) -> list[list[str]]:
    """The rows as text, for tables in a terminal and in Markdown."""
    found = []
    for row in rows:
        score, summary = accuracy(row.results), summarize(row.results)
        difference = "" if row is rows[0] else str(paired_difference(rows[0].results, row.results))
        tokens = mean_tokens(row.results)
        rates = (f"{summary.unparsed:.0%}", f"{summary.truncated:.0%}") if row.measured else ("", "")
        found.append([row.name, str(score), difference, "unknown" if tokens is None else f"{tokens:,.0f}", *rates])
    return found


def markdown(table: Table, rows: Sequence[Row], command: str) -> str:
    """The table with what it was made by, and the paper's figures beside."""
    lines = [f"# {table.name}: {table.title}", "", f"    {command}", ""]
    lines += _grid((*SHOWN, "in the paper"), [[*line, _paper(table, line[0])] for line in cells(rows)])
    lines += ["", "Intervals are 95 %: Wilson's for one sample a question, bootstraps over questions else."]
    if table.derived:
        lines += ["Rows without rates are read off the candidates of the others, and cost no further call."]
    if not table.paper:
        lines += ["The paper's own figures are not at hand."]
    return "\n".join(lines) + "\n"


def _paper(table: Table, variant: str) -> str:
    return "; ".join(f"{f.value:.1%} ({f.engine}, {f.benchmark})" for f in table.paper if f.variant == variant)


def _grid(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (columns, ["---"] * len(columns), *rows)]


def as_csv(rows: Sequence[Row]) -> str:
    """One line a row, with plain numbers."""
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        score, summary = accuracy(row.results), summarize(row.results)
        difference = paired_difference(rows[0].results, row.results)
        rates = (summary.unparsed, summary.truncated) if row.measured else ("", "")
        figures: list[Any] = [*score, *difference[:3], mean_tokens(row.results), *rates]
        writer.writerow([row.name, *figures])
    return file.getvalue()


def _plots(table: Table, rows: Sequence[Row], folder: Path) -> list[Path]:
    from coda_dspy.reporting import plots

    points = [plots.Point(row.name, *accuracy(row.results)[:3], mean_tokens(row.results)) for row in rows]
    measured = [row for row in rows if row.measured]
    drawn = {
        "accuracy": plots.accuracy_against_tokens(points),
        "stages": plots.tokens_by_stage([plots.StageTokens(row.name, _stages(row)) for row in measured]),
        "closure": plots.gap_closure([_closure(row) for row in measured]),
    }
    paths = []
    for name, figure in drawn.items():
        path = folder / f"{table.name}-{name}.png"
        path.write_bytes(plots.as_png(figure))
        paths.append(path)
    return paths


def _stages(row: Row) -> dict[str, float | None]:
    """Mean tokens a question by stage."""
    stages = summarize(row.results).stages
    sums = {name: (stage["tokens_in"], stage["tokens_out"]) for name, stage in stages.items()}
    return {name: None if None in pair else sum(pair) / len(row.results) for name, pair in sums.items()}


def _closure(row: Row) -> Any:
    from coda_dspy.reporting import plots

    closure = closure_of(row.results)
    return plots.Closure(row.name, *closure) if closure is not None else plots.Closure(row.name, None)
