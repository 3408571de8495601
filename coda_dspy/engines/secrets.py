"""Keys never leave the process in a message: whatever is shown, logged or saved goes through `redact` first."""

import os
import re
from urllib.parse import urlsplit

_given: set[str] = set()
_NAME_OF_A_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)S?(_?\d+)?$")
_SHORTEST = 6  # shorter values ("x", "none") are placeholders, and would blank out ordinary words


def remember_secret(value: str | None) -> None:
    """Have a key that did not come from the environment redacted too."""
    if value and len(value) >= _SHORTEST:
        _given.add(value)


def remember_password_of(url: str | None) -> None:
    """Have the password in `scheme://user:password@host` redacted."""
    if url:
        remember_secret(urlsplit(url).password)


def redact(text: str) -> str:
    """`text` with every known key replaced by `***`: the given ones and those of the environment."""
    for secret in sorted(_given | _from_environment(), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _from_environment() -> set[str]:
    named = (value for name, value in os.environ.items() if _NAME_OF_A_SECRET.search(name.upper()))
    return {value for value in named if len(value) >= _SHORTEST and not value.isdigit()}  # MAX_TOKENS is no secret
