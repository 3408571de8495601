"""Nested sampling: where a call stands in the search decides which sample it draws.

A rollout id names one random sample of one prompt. It derives from the place of the call and never from how many
siblings that call has, so the calls of a smaller budget are a prefix of a larger one's: a budget search pays once for
its largest budget, and two budgets are compared on common random numbers (DESIGN.md, decision 3).
"""

import hashlib
from typing import NamedTuple


class Sample(NamedTuple):
    """The place of one call in the search of one question.

    Args:
        path: Which pass the call belongs to: `direct`, `coda`, `coda-1` (the second run of Algorithm 1), `verdict`.
        attempt: Index of the attempt within the path.
        plan: Index of the plan within the attempt.
        step: What is being done there: a stage name, or a refinement round.
        retry: How often this very step was tried before.
    """

    path: str
    attempt: int = 0
    plan: int = 0
    step: str = ""
    retry: int = 0

    def shown(self, stage: str) -> str:
        """The stage and its place, for people: `execute (coda, attempt 1, plan 2)`."""
        plan = f", plan {self.plan + 1}" if stage in ("plan", "execute", "refine") else ""
        return f"{stage} ({self.path}, attempt {self.attempt + 1}{plan})"


def rollout_id(base: int, sample: Sample) -> int:
    """The rollout id of one sample: 48 bits.

    Args:
        base: The rollout id of the LM itself. Optimizers change it in order to resample, so it has to count.
        sample: The place of the call.
    """
    place = repr((base, *sample)).encode()
    return int.from_bytes(hashlib.blake2b(place, digest_size=6).digest(), "big")
