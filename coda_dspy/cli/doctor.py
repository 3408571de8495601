"""`coda doctor`: what this machine has, and what to do about what it lacks."""

import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

import click
from rich.text import Text

from coda_dspy.cli.display import console, table

PACKAGES = ("coda-dspy", "dspy", "litellm", "math-verify", "xllamacpp", "optuna", "mlflow", "huggingface-hub")


@click.command()
def doctor() -> None:
    """Say what the sandbox contains here and what it does not, which engines can run, and which versions are here."""
    console.print(Text(f"Python {platform.python_version()} on {platform.platform()}"))
    _sandbox()
    _engines()
    rows = [[name, _version(name)] for name in PACKAGES]
    console.print(table("packages", ["package", "version"], rows))


def _sandbox() -> None:
    from coda_dspy.sandbox import report

    found = report()
    console.rule(Text(f"sandbox: {found.isolation or 'none starts here'}"), align="left")
    for heading, lines in (("contains", found.contains), ("does not contain", found.does_not_contain)):
        for line in lines:
            console.print(Text(f"{heading}: {line}"))
    for level, reason in found.refused.items():
        console.print(Text(f"{level} does not start here: {reason}", style="yellow"))


def _engines() -> None:
    from coda_dspy.engines import catalog, weights

    console.rule(Text("local engines"), align="left")
    console.print(Text(f"llama.cpp: {_llama()}"))
    for model in catalog.CATALOG.values():
        state = "fetched" if weights.is_fetched(model) else f"not fetched; coda engines --fetch {model.name}"
        console.print(Text(f"local/{model.name}: {state}"))
    console.print(Text(f"models folder: {weights.models_folder()}"), soft_wrap=True)


def _llama() -> str:
    try:
        import_module("xllamacpp")
    except ModuleNotFoundError:
        return "not installed; pip install 'coda-dspy[local]'"
    except ImportError as error:
        return f"does not start: {error}. It needs libgomp.so.1 and AVX2"
    return "works"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "–"
