"""Options that several commands share, and what is made of them."""

import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click

from coda_dspy.errors import UserError

F = TypeVar("F", bound=Callable[..., Any])


def engine_options(command: F) -> F:
    """Which engine, and where."""
    for option in reversed(
        (
            click.option("--engine", help="local/NAME, local//path/model.gguf, or any LiteLLM name."),
            click.option("--api-base", metavar="URL", help="Address of an OpenAI-compatible server."),
            click.option(
                "--api-key-env",
                metavar="NAME",
                help="Environment variable that holds the key, if not the provider's own.",
            ),
            click.option(
                "--decoding",
                multiple=True,
                metavar="NAME=VALUE",
                help="Sampling setting for the engine (top_p, top_k, min_p, …); repeatable.",
            ),
        )
    ):
        command = option(command)
    return command


def budget_option(command: F) -> F:
    """Every field of Budget, as often as one likes."""
    option = click.option(
        "--budget",
        multiple=True,
        metavar="FIELD=VALUE",
        help="A field of Budget, e.g. best_of_n=4 or temperature.plan=0.3; repeatable.",
    )
    return option(command)


class EngineChoice(NamedTuple):
    """The engine options as they were given."""

    engine: str | None
    api_base: str | None
    api_key_env: str | None
    decoding: tuple[str, ...]

    def settings(self) -> dict[str, Any]:
        """The decoding settings, with values read as the numbers that they look like."""
        from coda_dspy.budget import read_value
        from coda_dspy.engines.connect import check_decoding

        settings = {}
        for pair in self.decoding:
            name, separator, value = pair.partition("=")
            if not separator or not value:
                raise UserError(f"--decoding {pair!r} has no value; write it as name=value, for example top_k=20")
            settings[name.strip()] = read_value(value.strip())
        for name in ("temperature", "max_tokens"):
            if name in settings:
                raise UserError(f"{name} is decided by stage; use --budget {name}=VALUE, or {name}.STAGE=VALUE")
        check_decoding(settings)
        return settings

    def connect(self, default: str | None = None, decoding: dict[str, Any] | None = None) -> Any:
        """The engine, its weights fetched with a progress bar where they are missing."""
        from coda_dspy.cli.display import download_bar
        from coda_dspy.engines import connect

        name = self.engine or default
        if name is None:
            raise UserError("no engine; give --engine (for example local/qwen2.5-coder-0.5b) or --profile")
        settings = {**(decoding or {}), **self.settings()}
        with download_bar() as progress:
            return connect(name, self.api_base, api_key=self._key(), progress=progress, **settings)

    def _key(self) -> str | None:
        if self.api_key_env is None:
            return None
        key = os.environ.get(self.api_key_env)
        if not key:
            raise UserError(f"environment variable {self.api_key_env} is not set; put the key there")
        return key


def slug(engine: str) -> str:
    """A file name for an engine: `local/qwen2.5-coder-0.5b` gives `qwen2.5-coder-0.5b`."""
    last = engine.rstrip("/").rsplit("/", 1)[-1].removesuffix(".gguf")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip(".-") or "engine"
