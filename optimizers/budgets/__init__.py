"""Search the budget: accuracy against cost, with Optuna, in rungs over one order of questions."""

from .choosing import PREFERENCES, compared, finalists, front, pick
from .search import BudgetSearch
from .space import PAPER, Point, Space, budget_at, canonical, has_a_choice, point_name
from .trial import Prices, Trial, cost_of, measured

__all__ = [
    "PAPER",
    "PREFERENCES",
    "BudgetSearch",
    "Point",
    "Prices",
    "Space",
    "Trial",
    "budget_at",
    "canonical",
    "compared",
    "cost_of",
    "finalists",
    "front",
    "has_a_choice",
    "measured",
    "pick",
    "point_name",
]
