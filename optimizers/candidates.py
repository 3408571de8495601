"""What lessons need of a budget's candidates, as plain values that are stored with the trial.

So whoever leads a tune learns the same, whichever process has measured the budget and keeps its pool.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from coda_dspy.evaluation import PoolRecord

from .judging import leading_pair
from .plan import MOST_JUDGED


def outlines(records: Sequence[PoolRecord]) -> list[dict[str, Any]]:
    """The records without a text, but those that judges will be asked about."""
    return [record.to_json() for record in _outlines(records)]


def _outlines(records: Sequence[PoolRecord]) -> Iterator[PoolRecord]:
    left = MOST_JUDGED
    for record in records:
        pair = leading_pair(record) if left else None
        left -= pair is not None
        kept = {*pair.right, *pair.wrong} if pair is not None else set()
        yield replace(
            record,
            task=record.task if kept else None,
            candidates=tuple(c if i in kept else c.without_texts() for i, c in enumerate(record.candidates)),
            outputs=(),
            steps=(),
            stages={},
            failures=(),
            seconds=0.0,
        )
