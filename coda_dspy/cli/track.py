"""`coda track`: deliver what an MLflow store did not take."""

from pathlib import Path

import click
from rich.text import Text

from coda_dspy.cli.display import console, quiet_libraries
from coda_dspy.engines.secrets import redact, remember_password_of
from coda_dspy.errors import UserError


@click.command()
@click.option("--sync", is_flag=True, help="Deliver what is kept, and remove it.")
@click.option(
    "--spool",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("mlflow-spool"),
    show_default=True,
    help="Folder in which it is kept.",
)
@click.option("--mlflow-uri", help="Where it goes. Default: the store that each run was meant for.")
def track(sync: bool, spool: Path, mlflow_uri: str | None) -> None:
    """List what an MLflow store did not take, or deliver it with --sync.

    Nothing is delivered twice: a delivery that broke is begun again, and what is there already stays as it is.
    """
    from coda_dspy.tracking import sync as deliver
    from coda_dspy.tracking.spool import pending

    quiet_libraries()
    remember_password_of(mlflow_uri)
    if not spool.exists() and spool != Path("mlflow-spool"):
        raise UserError(f"{spool} is not there; give --spool the folder that the run's warning named")
    if not sync:
        for folder in pending(spool):
            console.print(Text(str(folder)))
    elif not deliver(spool, mlflow_uri, lambda folder, number: console.print(Text(f"{folder}: {number} operations"))):
        console.print(Text(f"{redact(str(spool))} holds nothing to deliver"))
