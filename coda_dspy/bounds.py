"""What a profile may hold, for it may come from a stranger: plain values, and no more of them than a profile needs."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from coda_dspy.errors import UserError

MOST_BYTES = 8 * 2**20  # of the file
MOST_LEVELS = 16  # of objects and lists in each other
MOST_CHARACTERS = 10_000  # of a text that is no prompt
MOST_IN_A_NAME = 200
LARGEST = 10**15
MOST_IN_A_PROMPT = 1_000_000  # characters of a role's instructions and demonstrations: more than engines read
MOST_DEMOS = 256

Place = tuple[str, ...]


def read_json(path: str | os.PathLike[str]) -> Any:
    """The content of a JSON file.

    Raises:
        UserError: It cannot be read, is too large, or is no JSON.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise UserError(f"profile {path} has more than {MOST_BYTES // 2**20} MB; no profile needs as much")
        return json.loads(content.decode("utf-8"))
    except OSError as error:
        raise UserError(f"profile {path} cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise UserError(f"profile {path} is nested too deeply") from error
    except ValueError as error:
        raise UserError(f"profile {path} is not JSON: {error}") from error


def refuse_absurd(content: Any) -> None:
    """Refuse values that no profile needs and that would break, or drown, whoever handles them.

    Raises:
        UserError: There is one; the message names its field.
    """
    waiting: list[tuple[Place, Any]] = [((), content)]
    while waiting:
        place, value = waiting.pop()
        problem = _problem(place, value)
        if problem is not None:
            raise UserError(f"{named(place)} {problem}")
        waiting += _inside(place, value)


def named(place: Place) -> str:
    """A field's name for an error message, which nobody wants to scroll through."""
    return ".".join(part if len(part) <= 60 else f"{part[:60]}…" for part in place) or "the file"


def _inside(place: Place, value: Any) -> Iterator[tuple[Place, Any]]:
    if isinstance(value, Mapping):
        yield from (((*place, str(name)), part) for name, part in value.items())
    elif isinstance(value, list):
        yield from (((*place, str(number)), part) for number, part in enumerate(value))


def _problem(place: Place, value: Any) -> str | None:
    if len(place) > MOST_LEVELS:
        return f"is nested deeper than {MOST_LEVELS} levels"
    if place and (len(place[-1]) > MOST_IN_A_NAME or not _is_text(place[-1])):
        return f"has no name of at most {MOST_IN_A_NAME} characters"
    if isinstance(value, str):
        return _problem_of_text(place, value)
    if isinstance(value, float) and not math.isfinite(value):
        return f"is {value}, which is no number"
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"is a number beyond {LARGEST:.0e}"
    return None


def _problem_of_text(place: Place, text: str) -> str | None:
    if not _is_text(text):
        return "holds half a character (a surrogate), which no file can keep"
    if place[:1] != ("prompts",) and len(text) > MOST_CHARACTERS:  # prompts are measured role by role
        return f"has {len(text):,} characters; at most {MOST_CHARACTERS:,} are read"
    return None


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
