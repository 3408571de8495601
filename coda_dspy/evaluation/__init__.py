"""Measure a program on questions: every result saved at once, every candidate kept, every figure with its interval."""

from .cache import own_cache
from .folder import RunFolder, locked, locked_file
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
    "locked_file",
    "new_session",
    "own_cache",
    "results_in",
    "settings_of",
    "summarize",
]
