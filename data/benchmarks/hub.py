"""The two ways to the Hugging Face hub. Nothing else in this folder touches the network."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def rows(repository: str, config: str | None, split: str, revision: str) -> Iterable[Mapping[str, Any]]:
    """The rows of one split, fetched once and then kept in the library's cache; raises whatever the library raises."""
    from datasets import load_dataset

    return load_dataset(repository, config, split=split, revision=revision)


def file(repository: str, name: str, revision: str) -> Path:
    """Where one file of a data set lies once it is fetched; raises whatever the library raises."""
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(repository, name, revision=revision, repo_type="dataset"))


def refusal(error: Exception, repository: str, quote: bool) -> str:
    """Why the hub gave nothing, in words.

    Args:
        error: What `rows` or `file` raised.
        repository: What was asked for.
        quote: Whether the library's own words may be shown; they may hold a part of the data.
    """
    if isinstance(error, ImportError):
        return f"{error.name or 'a package'} is not installed: pip install 'coda-dspy[hub]'"
    if "Gated" in type(error).__name__ or "gated" in str(error):
        return (
            f"access is not granted: accept the terms at huggingface.co/datasets/{repository} and log in with "
            "`hf auth login`, or set HF_TOKEN"
        )
    words = str(error).strip().split("\n")[0] if quote else ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
