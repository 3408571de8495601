"""How much work a tune is."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from coda_dspy.budget import Budget

from .budgets import Prices, Space
from .prompts import Optimizer, optimizer_named

MOST_JUDGED = 12  # validation questions that each judge is asked on
# Every temperature pays for samples of its own, so only that of the cheapest ones is among them.
WIDE = Space(
    {
        "num_attempts_baseline": (1, 3, 5),
        "num_attempts_coding": (0, 3),
        "num_attempts_coda": (0, 1),
        "best_of_n": (1, 2, 3),
        "n_plans": (1, 2, 3),
        "refine_rounds": (0, 2),
        "use_planner": (True, False),
        "use_reflection": (True, False),
        "plan_diversity": (False, True),
        "verifier": ("majority", "judge", "pairwise"),
        "early_exit": ("lossless", "beta"),
        "temperature.direct": (0.4, 0.7),
    }
)


@dataclass(frozen=True)
class TunePlan:
    """How much work a tune is.

    Args:
        train: Questions to compile prompts on.
        validation: Questions to choose prompts and budget on.
        test: Held-out questions, asked once, at the end.
        space: Budgets to search.
        max_trials: The most budgets to measure in a round; the paper's settings are the third.
        rounds: The most rounds, each of which compiles prompts at the current budget and searches the budget at the
            current prompts; they end when one gains less than its noise.
        finalists: The most budgets to measure again, on fresh samples; 1 leaves that out.
        prefer: Which budget to take, one of `PREFERENCES`.
        prices: Cost is money instead of tokens.
        max_demos: The most demonstrations of one role.
        budget: Everything that is not searched.
        roles: Algorithms whose prompts are compiled in the first round, where a budget runs them: `direct`, `coda`.
        optimizer: What compiles them, one of `coda_dspy.optimizers.OPTIMIZERS`.
        prompt_questions: The most questions that it may ask for each algorithm; `None`: those of eight proposals.
        minutes: Wall time to fit into; `None`: no limit. The speed of the engine then decides how many validation
            questions the search takes and how many test questions are asked, at least four of each if there are any.
        seed: Seed of the split and of the sampler.
    """

    train: int = 24
    validation: int = 40
    test: int = 60
    space: Space = WIDE
    max_trials: int = 24
    rounds: int = 2
    finalists: int = 4
    prefer: str = "cheapest"
    prices: Prices | None = None
    max_demos: int = 2
    budget: Budget = field(default_factory=lambda: Budget.preset("quick"))
    roles: tuple[str, ...] = ("direct", "coda")
    optimizer: str = "bootstrap"
    prompt_questions: int | None = None
    minutes: float | None = None
    seed: int = 0

    @classmethod
    def quick(cls) -> "TunePlan":
        """A first look in at most a quarter of an hour on two cores."""
        return cls(
            train=8,
            validation=10,
            test=24,
            space=Space({"num_attempts_baseline": (1, 3), "num_attempts_coda": (0, 1), "n_plans": (1, 2)}),
            max_trials=5,
            rounds=1,
            finalists=1,
            max_demos=1,
            budget=Budget.preset("quick").replace(max_tokens=320, max_plan_tries=1),
            roles=("direct",),
            minutes=13.0,
        )

    @property
    def compiled(self) -> tuple[str, ...]:
        """Those of `roles` that some budget of the search runs."""
        runs_coda = any(self.space.values.get("num_attempts_coda", (self.budget.num_attempts_coda,)))
        return tuple(role for role in self.roles if role != "coda" or runs_coda)

    def prompt_optimizer(self, **settings: Any) -> Optimizer:
        """What compiles the prompts; `settings` are further fields of it."""
        return optimizer_named(
            self.optimizer, max_demos=self.max_demos, max_questions=self.prompt_questions, **settings
        )

    def describe(self) -> dict[str, Any]:
        """The plan as plain values, for `run.json` and MLflow."""
        described = asdict(self)
        described["budget"] = self.budget.dump_state()
        described["space"] = dict(self.space.values)
        return json.loads(json.dumps(described))  # tuples become lists, as they read back
