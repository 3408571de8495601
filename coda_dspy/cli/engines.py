"""`coda engines`: what can run in this process."""

import click

from coda_dspy.cli.display import console, download_bar, table


@click.command()
@click.option("--fetch", metavar="NAME", help="Fetch the weights of one engine now.")
def engines(fetch: str | None) -> None:
    """List the local engines with size, licence, and whether their weights are here."""
    from coda_dspy.engines import catalog, weights

    if fetch is not None:
        with download_bar() as progress:
            weights.fetch(catalog.find(fetch.removeprefix("local/")), progress)
    rows = [
        [
            f"local/{model.name}",
            f"{model.bytes / 1e6:,.0f} MB",
            model.licence,
            "yes" if weights.is_fetched(model) else "no",
            f"{model.repo} : {model.file}",
        ]
        for model in catalog.CATALOG.values()
    ]
    console.print(table("", ["engine", "size", "licence", "fetched", "Hugging Face file"], rows))
    console.print(f"models folder: {weights.models_folder()}", highlight=False, soft_wrap=True)
    console.print(
        "Any .gguf file works as local//path/model.gguf, any server as --engine NAME --api-base URL.", highlight=False
    )
