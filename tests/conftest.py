"""No test reads a cache that another one filled, reaches a network, or writes into the working folder."""

from collections.abc import Iterator
from pathlib import Path

import dspy
import pytest


@pytest.fixture(autouse=True)
def own_cache_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = dspy.cache
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=True)
    monkeypatch.chdir(tmp_path)
    yield
    dspy.cache = before
