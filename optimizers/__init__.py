"""Compile prompts, search budgets, and both together, for one engine."""

from .budgets import BudgetSearch, Space, Trial, pick_cheapest
from .metrics import is_correct, to_example
from .plan import TunePlan
from .prompts import OPTIMIZERS, OptimizerFailed, Planned, PromptOptimizer, optimizer_named
from .report import TuneReport
from .tune import Watcher, tune

__all__ = [
    "OPTIMIZERS",
    "BudgetSearch",
    "OptimizerFailed",
    "Planned",
    "PromptOptimizer",
    "Space",
    "Trial",
    "TunePlan",
    "TuneReport",
    "Watcher",
    "is_correct",
    "optimizer_named",
    "pick_cheapest",
    "to_example",
    "tune",
]
