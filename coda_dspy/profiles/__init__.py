"""Profiles that ship with the package, found by the name of their engine; README.md here says how they are made."""

import os
from pathlib import Path
from typing import Any

import dspy

from coda_dspy.engines import connect
from coda_dspy.errors import UserError
from coda_dspy.profile import Profile
from coda_dspy.program import Conductor

FOLDER = Path(__file__).parent
_LOCAL = "local/"


def names() -> dict[str, Path]:
    """The profiles that ship, by name: that of their engine, which ends with `-choice` or `-code` for these kinds."""
    return {_LOCAL + path.stem: path for path in sorted(FOLDER.glob("*.json"))}


def shipped(engine: str, kind: str = "math") -> Profile | None:
    """The profile that ships for an engine.

    Args:
        engine: The engine's name, for example `local/qwen2.5-coder-0.5b`.
        kind: What kind of question it was tuned for: `math`, `choice`, `text` or `code`.

    Returns:
        The profile; `None` where none ships for that engine and that kind.
    """
    path = names().get(engine if kind == "math" else f"{engine}-{kind}")
    return Profile.read(path) if path is not None else None


def find(profile: str | os.PathLike[str]) -> Profile:
    """A profile, by its file or by the name under which it ships.

    Raises:
        UserError: There is neither, or the profile does not fit.
    """
    name = os.fspath(profile)
    known = names()
    if name in known or not name.startswith(_LOCAL) or Path(name).exists():
        return Profile.read(known.get(name, name))
    raise UserError(
        f"no profile of the name {name} ships with this version; those that do: {', '.join(known) or 'none'}. "
        "Give a file, or make one with: coda tune --engine NAME"
    )


def load(profile: str | os.PathLike[str], engine: Any = None, api_base: str | None = None) -> Conductor:
    """A tuned program, ready to be called.

    Example:
        >>> program = coda_dspy.load("profiles/qwen2.5-coder-0.5b.json")  # doctest: +SKIP
        >>> program(question="What is 12 * 13?").answer  # doctest: +SKIP
        '156'

    Args:
        profile: Path of the profile, or the name of an engine whose profile ships with the package.
        engine: Name of an engine, or a `dspy.LM`. By default the engine that is configured in DSPy, or else the one
            that the profile was tuned for.
        api_base: Address of the engine's server.

    Raises:
        UserError: The profile does not fit; nothing is loaded then.
    """
    content = find(profile)
    if engine is None and dspy.settings.lm is not None:
        return content.program()
    lm = engine if isinstance(engine, dspy.LM) else connect(engine or content.engine, api_base, **content.decoding)
    return content.program(lm)
