"""How many calls a question can take, from the program's budget alone."""

from typing import NamedTuple

from coda_dspy.budget import OF_ALGORITHM_1, Budget
from coda_dspy.conductor import AdaptiveCoda, Coda
from coda_dspy.program import Conductor
from coda_dspy.selectors.costs import most_calls as most_calls_of

# At most so many predictors speak at one stage: in words, by a program, by a task's program; judges in seven ways.
_ROLES_A_STAGE = 3
_JUDGING_ROLES = 7


def most_calls(program: Conductor) -> int | None:
    """The most calls of one question; `None` for an algorithm that is none of ours.

    A call that the engine fails and that is made again counts once; `most_tries` tells how often that may be.
    """
    if not isinstance(program, AdaptiveCoda | Coda):
        return None
    return most_calls_at(program.budget, isinstance(program, AdaptiveCoda))


def most_calls_at(budget: Budget, adaptive: bool = True) -> int:
    """The same of Algorithm 2, or of Algorithm 1, at a budget."""
    return sum(_calls(budget, adaptive).values())


class Most(NamedTuple):
    """The most that one question takes."""

    calls: int
    reply_tokens: int


def most_of(program: AdaptiveCoda | Coda) -> Most:
    """The most calls of one question, and the most tokens of their replies."""
    budget = program.budget
    calls = _calls(budget, isinstance(program, AdaptiveCoda))
    return Most(sum(calls.values()), sum(budget.max_tokens[stage] * number for stage, number in calls.items()))


def most_roles(program: Conductor) -> int:
    """The most predictors that can take part."""
    everyone = len(program.predictors())
    if not isinstance(program, AdaptiveCoda | Coda):
        return everyone
    stages = _by_stage(program.budget, isinstance(program, AdaptiveCoda))
    roles = (_JUDGING_ROLES if stage == "judge" else _ROLES_A_STAGE for stage, calls in stages.items() if calls)
    return min(everyone, sum(roles))


def _calls(budget: Budget, adaptive: bool) -> dict[str, int]:
    """The most calls of each stage, at every reasoning effort that it steps down through."""
    return {stage: number * len(budget.efforts(stage)) for stage, number in _by_stage(budget, adaptive).items()}


def _by_stage(budget: Budget, adaptive: bool) -> dict[str, int]:
    """The most calls of each stage, each at one reasoning effort."""
    runs = budget.num_attempts_coda if adaptive else 1
    direct = (budget.num_attempts_baseline if adaptive else 0) + (1 if runs else 0)  # the last resort is a direct one
    code = budget.num_attempts_coding if adaptive else 0
    branches = runs * budget.best_of_n * budget.n_plans
    votes = budget.best_of_n * runs + (budget.num_attempts_baseline if adaptive else 0)
    return {
        "approach": runs * budget.best_of_n if budget.plan_diversity and budget.use_planner else 0,
        "plan": branches * budget.max_plan_tries if budget.use_planner else 0,
        "execute": branches,
        "direct": direct,
        "code": code,
        "refine": (branches + direct + code) * budget.refine_rounds,
        "reflect": runs * budget.best_of_n if budget.use_reflection else 0,
        "judge": _verdicts(budget, runs, adaptive, direct + code) + (1 if votes > 1 else 0),  # 1: a code task's probes
    }


def _verdicts(budget: Budget, runs: int, adaptive: bool, votes: int) -> int:
    """Calls of the verifier: within each run of Algorithm 1, and for the last vote of Algorithm 2 where it decides."""
    candidates = budget.best_of_n * (budget.n_plans + 1)  # where no attempt can be trusted, all that they made
    last = most_calls_of(budget.verifier, votes + runs) if adaptive and budget.verifier not in OF_ALGORITHM_1 else 0
    return runs * most_calls_of(budget.verifier, candidates) + last
