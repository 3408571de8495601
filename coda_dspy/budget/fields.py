"""The fields of a budget: their defaults, and what each may be."""

from collections.abc import Mapping
from typing import Any

from coda_dspy.errors import UserError
from coda_dspy.ledger import STAGES

# The first three verify within Algorithm 1; the others decide the last vote of Algorithm 2 as well.
OF_ALGORITHM_1 = ("majority", "judge", "pairwise")
VERIFIERS = (*OF_ALGORITHM_1, "weighted", "agreement", "genselect", "check", "distinguish", "codet")
EARLY_EXITS = ("off", "lossless", "beta", "learned")
EFFORTS = ("low", "medium", "high")
FIRST_PATHS = ("direct", "code", "learned")

BY_STAGE = ("temperature", "max_tokens", "reasoning_effort")  # fields with a value for each stage

# name: (default, lowest, highest)
_COUNTS: dict[str, tuple[int, int, int]] = {
    "best_of_n": (3, 1, 64),
    "n_plans": (2, 1, 64),
    "max_plan_tries": (2, 1, 16),
    "num_attempts_baseline": (3, 0, 256),
    "num_attempts_coding": (0, 0, 256),
    "num_attempts_coda": (1, 0, 64),
    "refine_rounds": (0, 0, 16),
}
_SWITCHES: dict[str, bool] = {
    "plan_diversity": False,
    "use_planner": True,
    "plan_paths": False,
    "use_reflection": True,
    "use_tests": True,
    "stop_on_agreement": False,
}
_CHOICES: dict[str, tuple[str, tuple[str, ...]]] = {
    "verifier": ("majority", VERIFIERS),
    "early_exit": ("lossless", EARLY_EXITS),
    "first_path": ("direct", FIRST_PATHS),
}
_TEMPERATURES: dict[str, float] = {
    "approach": 0.8,
    "plan": 0.8,
    "execute": 0.7,
    "direct": 0.7,
    "code": 0.7,
    "refine": 0.7,
    "reflect": 0.7,
    "judge": 0.3,
}
_MAX_TOKENS: dict[str, int] = dict.fromkeys(STAGES, 4096)

DEFAULTS: dict[str, Any] = {
    **{name: default for name, (default, _, _) in _COUNTS.items()},
    **_SWITCHES,
    **{name: default for name, (default, _) in _CHOICES.items()},
    "reasoning_effort": dict.fromkeys(STAGES, None),
    "temperature": _TEMPERATURES,
    "max_tokens": _MAX_TOKENS,
    "max_total_tokens": None,
}
FIELDS: tuple[str, ...] = tuple(DEFAULTS)


def checked(name: str, value: Any) -> Any:
    """The value as a budget keeps it.

    Raises:
        UserError: It does not fit its field, or there is no such field.
    """
    if name in _COUNTS:
        return _integer(name, value, *_COUNTS[name][1:])
    if name in _SWITCHES:
        return _switch(name, value)
    if name in _CHOICES:
        return _choice(name, value, _CHOICES[name][1])
    if name == "reasoning_effort":
        return _by_stage(name, value, lambda field, v: None if v is None else _choice(field, v, EFFORTS))
    if name == "temperature":
        return _by_stage(name, value, lambda field, v: _number(field, v, 0, 2))
    if name == "max_tokens":
        return _by_stage(name, value, lambda field, v: _integer(field, v, 1, 1_000_000))
    if name == "max_total_tokens":
        return None if value is None else _integer(name, value, 1, 10**12)
    raise UserError(f"budget has no field {name!r}; its fields are: {', '.join(FIELDS)}")


def _integer(name: str, value: Any, lowest: int, highest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise UserError(f"{name} is {value!r}; it has to be a whole number from {lowest} to {highest}")
    return value


def _number(name: str, value: Any, lowest: float, highest: float) -> float:
    # An endless number of digits is no float, but it can be compared; only "not a number" compares with nothing.
    fits = isinstance(value, int | float) and not isinstance(value, bool) and lowest <= value <= highest
    if not fits:
        raise UserError(f"{name} is {value!r}; it has to be a number from {lowest} to {highest}")
    return float(value)


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise UserError(f"{name} is {value!r}; it has to be true or false")
    return value


def _choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    if name == "early_exit" and isinstance(value, bool):
        return "lossless" if value else "off"
    if value not in allowed:
        raise UserError(f"{name} is {value!r}; it has to be one of: {', '.join(allowed)}")
    return str(value)


def _by_stage(name: str, value: Any, check: Any) -> dict[str, Any]:
    given = value if isinstance(value, Mapping) else dict.fromkeys(STAGES, value)
    for stage in given:
        if stage not in STAGES:
            raise UserError(f"{name} has no stage {stage!r}; the stages are: {', '.join(STAGES)}")
    return {stage: check(f"{name}.{stage}" if isinstance(value, Mapping) else name, v) for stage, v in given.items()}
