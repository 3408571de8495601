"""Keys never leave the process in a message: whatever is shown, logged or saved goes through `redact` first."""

import os
import re

_given: set[str] = set()
_NAME_OF_A_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)S?$")
_SHORTEST = 6  # shorter values ("x", "none") are placeholders, and would blank out ordinary words


def remember_secret(value: str | None) -> None:
    """Have a key that did not come from the environment redacted too."""
    if value and len(value) >= _SHORTEST:
        _given.add(value)


def redact(text: str) -> str:
    """`text` with every known key replaced by `***`: the given ones and those of the environment."""
    for secret in sorted(_given | _from_environment(), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _from_environment() -> set[str]:
    named = (value for name, value in os.environ.items() if _NAME_OF_A_SECRET.search(name.upper()))
    return {value for value in named if len(value) >= _SHORTEST}
