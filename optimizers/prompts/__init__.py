"""Compile the prompts of a program: one interface, several optimizers, and a plan that holds."""

from typing import Any

from coda_dspy.errors import UserError

from .base import Optimizer
from .board import Prompt, prompts_of, put_prompts
from .bootstrap import Bootstrap, RandomSearch
from .gepa import Gepa
from .interface import OptimizerFailed, Planned, PromptOptimizer
from .kept import Compiled, compile_once
from .mipro import Mipro
from .simba import Simba
from .teacher import self_taught
from .unchanged import Unchanged

__all__ = [
    "OPTIMIZERS",
    "Bootstrap",
    "Compiled",
    "Gepa",
    "Mipro",
    "Optimizer",
    "OptimizerFailed",
    "Planned",
    "Prompt",
    "PromptOptimizer",
    "RandomSearch",
    "Simba",
    "Unchanged",
    "compile_once",
    "optimizer_named",
    "prompts_of",
    "put_prompts",
    "self_taught",
]

OPTIMIZERS: dict[str, type[Optimizer]] = {
    kind.name: kind for kind in (Unchanged, Bootstrap, RandomSearch, Mipro, Simba, Gepa)
}


def optimizer_named(name: str, **settings: Any) -> Optimizer:
    """The optimizer of a name.

    Args:
        name: One of `OPTIMIZERS`.
        settings: The fields of `Optimizer`.

    Raises:
        UserError: There is none of that name.
    """
    if name not in OPTIMIZERS:
        raise UserError(f"optimizer {name!r} does not exist; choose one of: {', '.join(OPTIMIZERS)}")
    return OPTIMIZERS[name](**settings)
