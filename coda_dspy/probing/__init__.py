"""Measure in a few minutes what the conductor must know of an engine: how it obeys, thinks, computes, and how fast."""

from .engine_probe import Watcher, probe_engine
from .plan import ProbePlan
from .report import ProbeReport

__all__ = ["ProbePlan", "ProbeReport", "Watcher", "probe_engine"]
