"""The local engine: llama.cpp inside this process (xllamacpp), as a DSPy custom engine."""

from coda_dspy.engines.local.engine import AsyncLocalEngine, LocalEngine, open_local
from coda_dspy.engines.local.server import cancel_all, close_all
from coda_dspy.engines.local.settings import Settings, usable_cores
from coda_dspy.engines.local.wire import EXTENSIONS, request_body

__all__ = [
    "EXTENSIONS",
    "AsyncLocalEngine",
    "LocalEngine",
    "Settings",
    "cancel_all",
    "close_all",
    "open_local",
    "request_body",
    "usable_cores",
]
