"""Measure a program on questions: every result saved at once, every candidate kept, every figure with its interval."""

from .folder import RunFolder, locked, own_cache
from .lines import CompressedLines, JsonLines
from .pool import Pool, PoolRecord
from .result import Gradable, Result, fingerprint, settings_of
from .running import evaluate, new_session

__all__ = [
    "CompressedLines",
    "Gradable",
    "JsonLines",
    "Pool",
    "PoolRecord",
    "Result",
    "RunFolder",
    "evaluate",
    "fingerprint",
    "locked",
    "new_session",
    "own_cache",
    "settings_of",
]
