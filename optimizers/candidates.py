"""What lessons need of a budget's candidates, as plain values: they are stored with the trial.

So whoever leads a tune learns the same, whichever process has measured the budget and keeps its pool.
"""

from collections.abc import Mapping
from typing import Any

from coda_dspy.candidate import Candidate
from coda_dspy.evaluation import PoolRecord


def outline(record: PoolRecord) -> dict[str, Any]:
    """Paths, grades and classes of a question's candidates, without a text."""
    return {
        "id": record.id,
        "paths": [candidate.path for candidate in record.candidates],
        "grades": list(record.grades),
        "classes": [list(members) for members in record.classes],
    }


def outlined(outline: Mapping[str, Any]) -> PoolRecord:
    """The record of an outline; what the outline lacks is empty."""
    return PoolRecord(
        id=outline["id"],
        sample=0,
        asked="",
        task=None,
        gold=None,
        answer=None,
        correct=None,
        candidates=tuple(Candidate("", "", path, place, None) for place, path in enumerate(outline["paths"])),
        grades=tuple(outline["grades"]),
        classes=tuple(map(tuple, outline["classes"])),
    )
