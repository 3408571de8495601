"""Follow a run in MLflow: one parent run a tune, one child run a trial.

Whatever is tracked is an operation: plain values that can be carried out again without harm. A background thread
carries them out in order; those that a store does not take are kept in a spool, and delivered later.
"""

from .spool import sync
from .tracker import Run, Tracker

__all__ = ["Run", "Tracker", "sync"]
