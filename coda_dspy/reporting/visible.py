"""What engines, data and files say, without characters that act instead of being read."""

import unicodedata
from typing import Any


def visible(text: str) -> str:
    """Text in which control characters, reversals of writing, lone surrogates and the like are shown by their number.

    A report is made to find out what an engine really said, so nothing is dropped. Line breaks and tabs stay.
    """
    text = text.replace("\r\n", "\n")
    return text if text.isprintable() else "".join(map(_shown, text))


def all_visible(value: Any) -> Any:
    """The same for every text within lists and mappings; other values stay."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(str(name)): all_visible(item) for name, item in value.items()}
    return [all_visible(item) for item in value] if isinstance(value, list | tuple) else value


def _shown(character: str) -> str:
    if character in "\n\t" or character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return f"⟨U+{ord(character):04X}⟩"
