"""Compile prompts, search budgets, and both together, for one engine."""

from .budgets import BudgetSearch, Space, Trial, pick_cheapest
from .metrics import is_correct, to_example
from .plan import TunePlan
from .prompts import compile_prompts
from .report import TuneReport
from .statistics import Accuracy, accuracy, paired_difference
from .tune import Watcher, tune

__all__ = [
    "Accuracy",
    "BudgetSearch",
    "Space",
    "Trial",
    "TunePlan",
    "TuneReport",
    "Watcher",
    "accuracy",
    "compile_prompts",
    "is_correct",
    "paired_difference",
    "pick_cheapest",
    "to_example",
    "tune",
]
