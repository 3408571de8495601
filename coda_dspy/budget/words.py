"""Budgets as words of the command line."""

import json
from typing import Any

from coda_dspy.budget.fields import BY_STAGE, FIELDS
from coda_dspy.errors import UserError
from coda_dspy.ledger import STAGES


def parse_fields(pairs: list[str] | tuple[str, ...]) -> dict[str, Any]:
    """Read `field=value` words, as the command line gives them, into arguments of `Budget.replace`.

    `temperature.plan=0.3` sets one stage. Values are read as the JSON that they look like; other words stay text.

    Raises:
        UserError: A word without `=`, or a field that does not exist.
    """
    fields: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not text:
            raise UserError(f"--budget {pair!r} has no value; write it as field=value, for example best_of_n=4")
        field, _, stage = name.strip().partition(".")
        if field not in FIELDS:
            raise UserError(f"budget has no field {field!r}; its fields are: {', '.join(FIELDS)}")
        _put(fields, field, stage, read_value(text.strip()))
    return fields


def _put(fields: dict[str, Any], field: str, stage: str, value: Any) -> None:
    if not stage:
        fields[field] = value
    elif field in BY_STAGE:
        present = fields.get(field)
        if not isinstance(present, dict):
            present = {} if present is None else dict.fromkeys(STAGES, present)
        fields[field] = {**present, stage: value}
    else:
        raise UserError(f"budget field {field!r} has no stages; write {field}=value")


def read_value(text: str) -> Any:
    """A word of the command line as the JSON value that it looks like; anything else stays text."""
    words = {"none": None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return json.loads(text)
    except ValueError:
        return text
