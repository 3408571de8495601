"""What engines, data and files say, without characters that act instead of being read."""

import unicodedata
from typing import Any


class _Shown(dict[int, str]):
    """What each character is shown as, worked out when it is first met: texts are long, and their characters few."""

    def __missing__(self, point: int) -> str:
        character = chr(point)
        is_readable = character in "\n\t" or character.isprintable() or unicodedata.category(character) == "Zs"
        self[point] = character if is_readable else f"⟨U+{point:04X}⟩"
        return self[point]


_SHOWN = _Shown()


def visible(text: str) -> str:
    """Text in which control characters, reversals of writing, lone surrogates and the like are shown by their number.

    A report is made to find out what an engine really said, so nothing is dropped. Line breaks and tabs stay.
    """
    return text.replace("\r\n", "\n").translate(_SHOWN)


def all_visible(value: Any) -> Any:
    """The same for every text within lists and mappings; other values stay."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(str(name)): all_visible(item) for name, item in value.items()}
    return [all_visible(item) for item in value] if isinstance(value, list | tuple) else value
