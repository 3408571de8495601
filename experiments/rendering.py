"""A measured table as Markdown, as CSV and as plots."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

from coda_dspy.evaluation import summarize
from coda_dspy.evaluation.statistics import (
    Accuracy,
    Estimate,
    accuracy,
    by_question,
    closure_of,
    mean_of,
    mean_tokens,
    paired_difference,
)
from coda_dspy.files import write_atomically

from .running import Row
from .tables import Table

SHOWN = ("variant", "accuracy", "against the first, paired", "tokens each", "unparsed", "truncated")
_WITH_INTERVALS = ("difference", "tokens each", "unparsed", "truncated")
COLUMNS = (
    *("variant", "accuracy", "low", "high", "n"),
    *(f"{figure}{end}" for figure in _WITH_INTERVALS for end in ("", " low", " high")),
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
        score = accuracy(row.results)
        difference = "" if row is rows[0] else str(paired_difference(rows[0].results, row.results))
        tokens = _tokens(row)
        shown = "unknown" if tokens is None else f"{tokens.value:,.0f} [{tokens.low:,.0f}, {tokens.high:,.0f}]"
        rates = [*map(_percent, _rates(row))] or ["", ""]
        found.append([row.name, str(score), difference, shown, *rates])
    return found


def _tokens(row: Row) -> Estimate | None:
    """Tokens a question, over questions; `None` where the engine reports no usage."""
    if mean_tokens(row.results) is None:
        return None
    return mean_of([mean_tokens(group) or 0.0 for group in by_question(row.results).values()])


def _rates(row: Row) -> list[Accuracy]:
    """The shares of answers that could not be read, and that were cut off; none for a row that was read off others."""
    kinds = [[r.unparsed for r in row.results], [r.truncated for r in row.results]] if row.measured else []
    return [accuracy([replace(r, correct=flag) for r, flag in zip(row.results, flags, strict=True)]) for flags in kinds]


def _percent(share: Accuracy) -> str:
    return f"{share.value:.0%} [{share.low:.0%}, {share.high:.0%}]"


def markdown(table: Table, rows: Sequence[Row], command: str) -> str:
    """The table with what it was made by, and the paper's figures beside where they are known."""
    lines = [f"# {table.name}: {table.title}", "", f"    {command}", ""]
    columns = (*SHOWN, "in the paper") if table.paper else SHOWN
    lines += _grid(columns, [[*line, _paper(table, line[0])][: len(columns)] for line in cells(rows)])
    lines += ["", "Intervals are 95 %: Wilson's for one sample a question, bootstraps over questions else."]
    if table.derived:
        lines += ["Rows without rates are read off the candidates of the others, and cost no further call."]
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
        score = accuracy(row.results)
        difference = paired_difference(rows[0].results, row.results)
        rates: list[Any] = [figure for rate in _rates(row) for figure in rate[:3]] or [""] * 6
        figures: list[Any] = [*score, *difference[:3], *(_tokens(row) or [""] * 3), *rates]
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
