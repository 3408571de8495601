"""Prompts in MLflow's registry."""

from typing import Any


def register(client: Any, run: str, name: str, text: str) -> None:
    """Put a prompt into the registry and link it to a run; a version is added only where the text is new."""
    latest = _latest(client, name)
    if latest is None or latest.template != text:
        latest = client.register_prompt(name, text)
    client.link_prompt_version_to_run(run, latest)


def _latest(client: Any, name: str) -> Any:
    return client.load_prompt(f"prompts:/{name}@latest", allow_missing=True)
