"""Every number that decides how much compute a question may take, in one validated, saveable object."""

from coda_dspy.budget.budget import Budget
from coda_dspy.budget.fields import BY_STAGE, EARLY_EXITS, EFFORTS, FIELDS, FIRST_PATHS, OF_ALGORITHM_1, VERIFIERS
from coda_dspy.budget.words import parse_fields, read_value

__all__ = [
    "BY_STAGE",
    "EARLY_EXITS",
    "EFFORTS",
    "FIELDS",
    "FIRST_PATHS",
    "OF_ALGORITHM_1",
    "VERIFIERS",
    "Budget",
    "parse_fields",
    "read_value",
]
