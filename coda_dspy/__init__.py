"""Conduct a small language model so that it answers like a larger one.

The public names are loaded when they are first used: `import coda_dspy` costs next to nothing.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coda_dspy import testing as testing
    from coda_dspy.budget import Budget as Budget
    from coda_dspy.candidate import Candidate as Candidate
    from coda_dspy.conductor import AdaptiveCoda as AdaptiveCoda
    from coda_dspy.conductor import Coda as Coda
    from coda_dspy.engines import connect as connect
    from coda_dspy.ledger import Ledger as Ledger
    from coda_dspy.profile import Profile as Profile
    from coda_dspy.profiles import load as load
    from coda_dspy.task import Task as Task

__version__ = "0.1.0"

# DSPy and LiteLLM would otherwise fetch a price list from the network, and wait for it where there is none.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

_HOME = {
    "AdaptiveCoda": "conductor",
    "Budget": "budget",
    "Candidate": "candidate",
    "Coda": "conductor",
    "Ledger": "ledger",
    "Profile": "profile",
    "Task": "task",
    "connect": "engines",
    "load": "profiles",
}
__all__ = [*sorted(_HOME), "testing"]


def __getattr__(name: str) -> Any:
    if name == "testing":
        return import_module("coda_dspy.testing")
    if name not in _HOME:
        raise AttributeError(f"module 'coda_dspy' has no attribute {name!r}")
    return getattr(import_module(f"coda_dspy.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
