"""`coda report`: what an evaluation came to, and how, as one HTML file."""

from pathlib import Path

import click
from rich.text import Text

from coda_dspy.cli.display import console


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="DIR...", type=click.Path(path_type=Path))
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Default: report.html in the first DIR."
)
def report(folders: tuple[Path, ...], output: Path | None) -> None:
    """Write the report of the run in DIR, which `coda evaluate` wrote; several are shards of one run.

    The file needs no network and nothing beside it: figures, plots, and of every question what was planned, run,
    reflected, voted and judged.
    """
    from coda_dspy.reporting import write_report

    target = write_report(folders, output)
    console.print(Text(f"the report is in {target}; open it in a browser"))
