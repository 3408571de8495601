"""One official row, read field by field. No message here quotes what a row holds: the row may be private."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coda_dspy.errors import UserError


@dataclass(frozen=True)
class Row:
    """One row of a benchmark.

    Args:
        benchmark: The benchmark's name.
        number: The row's place, from 1.
        fields: Its columns.
        folder: Where its file lies; None where it comes from the hub.
    """

    benchmark: str
    number: int
    fields: Mapping[str, Any]
    folder: Path | None = None

    def text(self, name: str) -> str:
        """A column that has to hold text.

        Raises:
            UserError: It is missing, empty or no text.
        """
        value = self._value(name)
        if not isinstance(value, str) or not value.strip():
            raise UserError(f"{name} is empty or no text")
        return value

    def given(self, name: str) -> str:
        """A column that may be missing or empty, as text.

        Raises:
            UserError: It holds something else than text.
        """
        value = self.fields.get(name) or ""
        if not isinstance(value, str):
            raise UserError(f"{name} is no text")
        return value

    def whole(self, name: str) -> int:
        """A column that has to hold a whole number, as number or as digits.

        Raises:
            UserError: It does not.
        """
        value = self._value(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value.strip()):
            return int(value)
        raise UserError(f"{name} is no whole number")

    def texts(self, name: str) -> list[str]:
        """A column that has to hold a list of texts, which may be empty.

        Raises:
            UserError: It does not.
        """
        return texts_in(self._value(name), name)

    def _value(self, name: str) -> Any:
        if self.fields.get(name) is None:
            raise UserError(f"there is no column {name}; are these the rows of {self.benchmark}?")
        return self.fields[name]


def texts_in(value: Any, name: str) -> list[str]:
    """A list of texts, checked.

    Raises:
        UserError: It is none.
    """
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise UserError(f"{name} is no list of texts")
    return list(value)
