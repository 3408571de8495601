"""How much a probe asks at most."""

from dataclasses import asdict, dataclass, field
from typing import Any

from coda_dspy.budget import Budget
from coda_dspy.errors import UserError


@dataclass(frozen=True)
class ProbePlan:
    """How much a probe asks at most; what does not fit into its time is left out and named.

    Args:
        minutes: Wall time to measure in, above 0.
        questions: Questions of each kind, asked through each adapter.
        followed: Of these, how many are also planned, executed and reflected on, and asked at each effort.
        levels: Numbers of calls at a time whose speed is measured.
        rounds: Measurements of each.
        speed_tokens: Cap of a reply of these.
        pairs: Pairs of samples for each of the questions whether temperature and seed are honoured.
        pair_tokens: Cap of a reply of these.
        budget: Caps of the replies to questions, by stage; all of them are greedy.
    """

    minutes: float = 5.0
    questions: int = 12
    followed: int = 3
    levels: tuple[int, ...] = (1, 2, 4, 8)
    rounds: int = 2
    speed_tokens: int = 64
    pairs: int = 2
    pair_tokens: int = 32
    budget: Budget = field(default_factory=lambda: Budget.preset("quick"))

    def __post_init__(self) -> None:
        if not self.minutes > 0:
            raise UserError(f"minutes is {self.minutes}; it has to be above 0")
        for name in ("questions", "rounds", "speed_tokens", "pairs", "pair_tokens"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}; it has to be at least 1")

    def describe(self) -> dict[str, Any]:
        """What a saved reply depends on, as plain values; the minutes are not of it."""
        described = {name: value for name, value in asdict(self).items() if name not in ("minutes", "budget")}
        return {**described, "levels": list(self.levels), "max_tokens": self.budget.max_tokens}
