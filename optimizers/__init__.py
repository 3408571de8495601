"""Compile prompts, search budgets, and both together, for one engine."""

from .budgets import BudgetSearch, Space, Trial, pick_cheapest
from .metrics import is_correct, to_example
from .plan import TunePlan
from .prompts import compile_prompts
from .report import TuneReport
from .tune import Watcher, tune

__all__ = [
    "BudgetSearch",
    "Space",
    "Trial",
    "TunePlan",
    "TuneReport",
    "Watcher",
    "compile_prompts",
    "is_correct",
    "pick_cheapest",
    "to_example",
    "tune",
]
