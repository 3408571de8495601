"""Scripts that several test modules share."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dspy
from dspy.lm15 import Config, Message, Request

from coda_dspy import connect
from coda_dspy.testing import Reply, ScriptedCall, ScriptedEngine

Run = Callable[..., tuple[int, str, str]]
"""The command line within a test: exit code, standard output, standard error."""


def engine(script: Callable[[ScriptedCall], object], **settings: Any) -> tuple[ScriptedEngine, dspy.LM]:
    """A scripted engine and its LM, which never waits between retries."""
    made = ScriptedEngine(script)  # type: ignore[arg-type]
    return made, connect(made, num_retries=0, **settings)


def answering(
    direct: Sequence[str | None] = ("1",), coda: Sequence[str | None] = ("1",)
) -> Callable[[ScriptedCall], str | Reply]:
    """Direct attempts give the answers of `direct` in turn, attempts of Algorithm 1 those of `coda`; `None` is cut."""

    def script(call: ScriptedCall) -> str | Reply:
        if call.stage == "plan":
            return "1. Think. (high)"
        if call.stage == "judge":
            return "Rating: 5\nBetter: 1"
        run = int(call.sample.path.partition("-")[2] or 0) if call.sample.path.startswith("coda") else 0
        answers = direct if call.stage == "direct" else coda
        answer = answers[(call.sample.attempt + run) % len(answers)]
        return Reply.cut("and so on") if answer is None else f"So it is.\nAnswer: {answer}"

    return script


def request(*messages: Message, system: str | None = None, **config: Any) -> Request:
    """What an engine is sent, by default one greeting."""
    return Request("x", messages or (Message.user("hi"),), system=system, config=Config(**config))


def stored_table(client: Any, run: str, name: str) -> list[list[Any]]:
    """The rows of a table of an MLflow run; `client.load_table` would look into MLflow's default store."""
    rows: list[list[Any]] = json.loads(Path(client.download_artifacts(run, name)).read_text())["data"]
    return rows
