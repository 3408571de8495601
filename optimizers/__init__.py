"""Compile prompts, search budgets, and both together, for one engine."""

from .budgets import PREFERENCES, BudgetSearch, Prices, Space, Trial, pick
from .ceiling import Phase, ceiling
from .metrics import is_correct, to_example
from .plan import TunePlan
from .prompts import OPTIMIZERS, OptimizerFailed, Planned, PromptOptimizer, optimizer_named
from .report import TuneReport
from .tune import tune, work
from .workbench import Watcher

__all__ = [
    "OPTIMIZERS",
    "PREFERENCES",
    "BudgetSearch",
    "OptimizerFailed",
    "Phase",
    "Planned",
    "Prices",
    "PromptOptimizer",
    "Space",
    "Trial",
    "TunePlan",
    "TuneReport",
    "Watcher",
    "ceiling",
    "is_correct",
    "optimizer_named",
    "pick",
    "to_example",
    "tune",
    "work",
]
