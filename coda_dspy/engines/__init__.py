"""Engines: the models behind the conductor."""

from coda_dspy.engines.connect import connect, engine_name
from coda_dspy.engines.secrets import redact

__all__ = ["connect", "engine_name", "redact"]
