"""What a run may take is checked before anything starts."""

import dataclasses

import pytest

from coda_dspy.errors import UserError
from coda_dspy.sandbox import ExecutionResult, Limits


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seconds", 0), ("seconds", -1), ("seconds", float("nan")), ("seconds", float("inf")), ("seconds", "1"),
        ("seconds", None), ("cpu_seconds", 0), ("memory_mb", 1.5), ("memory_mb", 8), ("memory_mb", True),
        ("output_bytes", 0), ("disk_mb", 0), ("disk_files", 1), ("threads", 0), ("stack_mb", 121),
    ],
)  # fmt: skip
def test_a_value_out_of_range_is_named(field: str, value: object) -> None:
    with pytest.raises(UserError, match=f"{field} is {value!r}, but must be"):
        Limits(**{field: value})  # type: ignore[arg-type]


def test_both_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Limits().seconds = 3  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        ExecutionResult().stdout = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fields", "ok"),
    [
        ({"exit_code": 0}, True),
        ({"exit_code": 1}, False),
        ({"exit_code": None}, False),
        ({"exit_code": 0, "error": "lost"}, False),
        ({"exit_code": 0, "timed_out": True}, False),
        ({"exit_code": 0, "truncated": True}, False),
    ],
)
def test_ok_means_to_the_end_and_within_limits(fields: dict[str, object], ok: bool) -> None:
    assert ExecutionResult(**fields).ok is ok  # type: ignore[arg-type]
