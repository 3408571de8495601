"""Options that several commands share, and what is made of them."""

import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click

from coda_dspy.errors import UserError

F = TypeVar("F", bound=Callable[..., Any])
NO_PROFILE = "none"
_LONGEST_NAME = 80  # characters of a folder's or a file's name that come from an engine or a set of questions


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


def tracking_options(command: F) -> F:
    """Where a run is tracked, and how much of it is traced."""
    for option in reversed(
        (
            click.option(
                "--mlflow-uri", default="sqlite:///mlflow.db", show_default=True, help="Where the run is tracked."
            ),
            click.option(
                "--trace-sample",
                type=click.FloatRange(0, 1),
                default=0.0,
                show_default=True,
                metavar="SHARE",
                help="Trace this share of the questions in MLflow, with every call: 0.05, or 1 for all.",
            ),
        )
    ):
        command = option(command)
    return command


def program_options(command: F) -> F:
    """Which program: engine, profile, algorithm, budget, and where model-written code runs."""
    for option in reversed(
        (
            click.option(
                "--profile",
                metavar="FILE|NAME",
                help="A tuned profile, which names its engine: a file, or an engine whose profile ships.",
            ),
            click.option("--algorithm", help="adaptive (default), coda, direct, code or self-consistency."),
            click.option(
                "--adapter", type=click.Choice(["plain", "sections"]), help="How prompts are written. Default: plain."
            ),
            budget_option,
            click.option("--preset", help="Budget to start from: quick, paper-qwen3, paper-gpt-oss or max."),
            click.option("--sandbox", default="auto", show_default=True, help="Where model-written programs run."),
        )
    ):
        command = option(command)
    return engine_options(command)


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
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last)[:_LONGEST_NAME].strip(".-") or "engine"


def program_of(options: dict[str, Any], kind: str | None = None) -> Any:
    """The program that the options describe, with its engine.

    With a `kind` of question, the profile that ships for the engine is taken where none was asked for.
    """
    from coda_dspy.algorithms import with_algorithm
    from coda_dspy.budget import Budget, parse_fields
    from coda_dspy.conductor import AdaptiveCoda

    choice = EngineChoice(*(options[name] for name in ("engine", "api_base", "api_key_env", "decoding")))
    changes = parse_fields(options["budget"])
    algorithm = options["algorithm"]
    profile = _profile_of(options, kind)
    if profile is not None:
        program = profile.adaptive(choice.connect(profile.engine, profile.decoding))
        algorithm = algorithm or profile.algorithm
    else:
        budget = Budget.preset(options["preset"]) if options["preset"] else Budget()
        budget.replace(**changes)  # bad fields are told before weights are fetched
        program = AdaptiveCoda(budget, lm=choice.connect())
    program.adapter = options["adapter"] or program.adapter
    chosen = with_algorithm(program, algorithm or "adaptive")
    chosen.budget.load_state(chosen.budget.replace(**changes).dump_state())
    return chosen


def _profile_of(options: dict[str, Any], kind: str | None) -> Any:
    from coda_dspy.profiles import find

    if options["profile"] == NO_PROFILE:
        return None
    if options["profile"] is None:
        return _shipped(options["engine"], kind) if kind and options["preset"] is None else None
    if options["preset"] is not None:
        raise UserError("a profile brings its own budget; change it with --budget FIELD=VALUE instead of --preset")
    return find(options["profile"])


def _shipped(engine: str | None, kind: str) -> Any:
    """The profile that ships for the engine, said aloud: nobody asked for it."""
    from coda_dspy.cli.display import err_console
    from coda_dspy.profiles import shipped

    profile = shipped(engine, kind) if engine is not None else None
    if profile is not None:
        err_console.print(
            f"with the profile that ships for {engine} ({kind}); --profile {NO_PROFILE} leaves it out",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    return profile


def select_sandbox(kind: str) -> None:
    """Have model-written programs run there."""
    from coda_dspy.programs import choose_sandbox

    choose_sandbox(kind)
