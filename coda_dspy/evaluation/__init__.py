"""Measure a program on questions: every result saved at once, every candidate kept, every figure with its interval."""

from .folder import RunFolder, locked, own_cache
from .lines import CompressedLines, JsonLines
from .pool import Pool, PoolRecord
from .recorded import Stop, evaluate_in, results_in
from .result import Gradable, Result, bill_of, fingerprint, settings_of
from .running import evaluate, new_session
from .summary import Summary, columns_of, summarize

__all__ = [
    "CompressedLines",
    "Gradable",
    "JsonLines",
    "Pool",
    "PoolRecord",
    "Result",
    "RunFolder",
    "Stop",
    "Summary",
    "bill_of",
    "columns_of",
    "evaluate",
    "evaluate_in",
    "fingerprint",
    "locked",
    "new_session",
    "own_cache",
    "results_in",
    "settings_of",
    "summarize",
]
