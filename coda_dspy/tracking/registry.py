"""Prompts in MLflow's registry."""

from typing import Any


def register(client: Any, run: str, name: str, text: str) -> None:
    """Put a prompt into the registry and link it to a run; a version is added only where the text is new."""
    latest = _latest(client, name)
    if latest is None or latest.template != text:
        latest = client.register_prompt(name, text)
    _link(client, run, latest)


def _latest(client: Any, name: str) -> Any:
    return client.load_prompt(f"prompts:/{name}@latest", allow_missing=True)


def _link(client: Any, run: str, version: Any) -> None:
    """Not by `link_prompt_version_to_run`: it looks for the run in MLflow's default store, whatever the client's is."""
    from mlflow.tracing.constant import TraceTagKey
    from mlflow.tracing.utils.prompt import update_linked_prompts_tag

    linked = client.get_run(run).data.tags.get(TraceTagKey.LINKED_PROMPTS)
    client.set_tag(run, TraceTagKey.LINKED_PROMPTS, update_linked_prompts_tag(linked, [version]))
