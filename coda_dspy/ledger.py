"""The bill of one question: one entry for every call to the engine, also for failed, cut and retried ones.

DSPy's usage tracker counts a cache hit as nothing and loses calls that fail, so the conductor keeps its own books
(DESIGN.md, decision 5). A number that nobody reported is unknown (`None`), never 0.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

STAGES = ("approach", "plan", "execute", "direct", "code", "refine", "reflect", "judge")


@dataclass(frozen=True)
class Entry:
    """One call to the engine.

    Args:
        stage: Who asked: one of `STAGES`, or `other` for a call from outside the conductor.
        tokens_in: Prompt tokens; `None` where the engine did not say.
        tokens_out: Tokens of the reply, thinking included; `None` where the engine did not say.
        cached: The reply came from DSPy's cache. Tokens then say what the call would have cost.
        finish: Why the reply ended: `stop`, `length` (cut off), …; `None` where no reply came.
        seconds: Wall time of the call.
        error: Why no reply came, without secrets.
        tokens_prefix: Prompt tokens that the engine took from its own prefix cache, where it says so.
    """

    stage: str
    tokens_in: int | None
    tokens_out: int | None
    cached: bool
    finish: str | None
    seconds: float
    error: str | None = None
    tokens_prefix: int | None = None

    @property
    def tokens(self) -> int | None:
        """Prompt and reply together; `None` where either is unknown."""
        if self.tokens_in is None or self.tokens_out is None:
            return None
        return self.tokens_in + self.tokens_out


class Ledger:
    """Every call of one question, in the order in which they ended.

    Appending is atomic, so the threads of a fan-out share one ledger without a lock.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries = list(entries)

    def add(self, entry: Entry) -> None:
        self._entries.append(entry)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    def _select(self, stage: str | None, billed: bool) -> Iterator[Entry]:
        return (e for e in self.entries if stage in (None, e.stage) and not (billed and e.cached))

    def calls(self, stage: str | None = None, *, billed: bool = False) -> int:
        """Number of calls, of one stage or of all; with `billed`, without those that the cache answered."""
        return sum(1 for _ in self._select(stage, billed))

    def tokens(self, stage: str | None = None, *, billed: bool = False) -> int | None:
        """Tokens in and out; `None` as soon as one call's usage is unknown (then `known_tokens` is a lower bound)."""
        counts = [entry.tokens for entry in self._select(stage, billed)]
        return None if None in counts else sum(count for count in counts if count is not None)

    def known_tokens(self, stage: str | None = None, *, billed: bool = False) -> int:
        """Tokens in and out of those calls whose usage is known."""
        return sum(entry.tokens or 0 for entry in self._select(stage, billed))

    def seconds(self, stage: str | None = None) -> float:
        """Time spent waiting for the engine, added up over calls that may have run side by side."""
        return sum(entry.seconds for entry in self._select(stage, billed=False))

    def by_stage(self) -> dict[str, dict[str, Any]]:
        """One row a stage that was called, in the order of `STAGES`: plain numbers, ready for JSON and tables."""
        stages = {entry.stage for entry in self.entries}
        order = [s for s in STAGES if s in stages] + sorted(stages - set(STAGES))
        return {stage: self._row(stage) for stage in order}

    def _row(self, stage: str) -> dict[str, Any]:
        entries = list(self._select(stage, billed=False))
        return {
            "calls": len(entries),
            "cached": sum(e.cached for e in entries),
            "failed": sum(e.error is not None for e in entries),
            "cut": sum(e.finish == "length" for e in entries),
            "tokens_in": _sum_or_unknown(e.tokens_in for e in entries),
            "tokens_out": _sum_or_unknown(e.tokens_out for e in entries),
            "seconds": round(self.seconds(stage), 3),
        }

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        tokens = self.tokens()
        return f"Ledger({self.calls()} calls, {'unknown' if tokens is None else tokens} tokens)"


def _sum_or_unknown(counts: Iterable[int | None]) -> int | None:
    values = list(counts)
    return None if None in values else sum(v for v in values if v is not None)
