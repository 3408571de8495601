"""The budgets to search: values by field, and when two choices are one and the same budget."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from random import Random
from typing import Any

from coda_dspy.algorithms import ASKED_ONCE, VOTED
from coda_dspy.budget import BY_STAGE, FIELDS, OF_ALGORITHM_1, Budget
from coda_dspy.errors import UserError
from coda_dspy.optimizers.prompts.counting import most_calls_at
from coda_dspy.selectors.costs import most_calls

Point = dict[str, Any]
"""What a budget sets beside its base: values by field, of one stage as `temperature.plan`."""

_MOST_TO_LIST = 5_000  # combinations of values; a larger space is sampled without being looked through

# The settings of the paper's authors, whatever else is searched. Temperatures, lengths and efforts suit their engine.
PAPER: Point = {
    name: getattr(Budget.preset("paper-qwen3"), name) for name in FIELDS if name not in (*BY_STAGE, "max_total_tokens")
}

_ALLOWS_ANY = Budget(num_attempts_baseline=1, num_attempts_coding=1, num_attempts_coda=0)  # any one value beside it

_OF_STEP_3 = (
    "best_of_n",
    "n_plans",
    "max_plan_tries",
    "use_planner",
    "plan_diversity",
    "plan_paths",
    "use_reflection",
)
_SHORT = {
    "num_attempts_baseline": "baseline",
    "num_attempts_coding": "coding",
    "num_attempts_coda": "coda",
    "best_of_n": "best",
    "n_plans": "plans",
    "refine_rounds": "refine",
}


@dataclass(frozen=True)
class Space:
    """The budgets to search.

    Args:
        values: Values to try by field of `Budget`, of one stage as `temperature.plan`. What is not named stays as it
            is. A single direct attempt decides by itself: it is asked greedily, and nothing follows it.

    Raises:
        UserError: There is no such field, a value is out of its range, a field has no value, or it is named both for
            all stages and for one.
    """

    values: Mapping[str, tuple[Any, ...]]

    def __post_init__(self) -> None:
        for name, values in self.values.items():
            if not values:
                raise UserError(f"the search has no value for {name}; name one at least")
            for value in values:
                _ALLOWS_ANY.replace(**_changes({name: value}))
            whole = name.partition(".")[0]
            if whole != name and whole in self.values:
                raise UserError(f"the search names {whole} for all stages and {name} too; leave one of them out")

    def but(self, values: Mapping[str, tuple[Any, ...]]) -> "Space":
        """The same with the values of some fields set; one that is set for all stages is not searched by stage."""
        kept = {name: v for name, v in self.values.items() if name in values or name.partition(".")[0] not in values}
        return Space({**kept, **values})

    def without(self, *names: str) -> "Space":
        """The same without some fields."""
        return Space({name: values for name, values in self.values.items() if name not in names})

    def plain(self, base: Budget) -> list[Point]:
        """The engine alone, and the largest vote of direct attempts alone: what everything else has to beat."""
        most = max(self.values.get("num_attempts_baseline", (base.num_attempts_baseline,)))
        return [alone(base), self._point_of({**VOTED, "num_attempts_baseline": most}, base)]

    def paper(self, base: Budget) -> Point:
        """The paper's settings."""
        return self._point_of(PAPER, base)

    def _point_of(self, changes: Mapping[str, Any], base: Budget) -> Point:
        """The base with some fields changed, as the one point that this space has for it."""
        budget = _replaced(base, changes)
        if budget is None:
            return dict(changes)
        values = {name: _value(budget, name) for name in self.values}
        searched = {name: value for name, value in values.items() if _replaced(budget, {name: value}) == budget}
        others = {name: value for name, value in changes.items() if getattr(base, name) != value}
        return canonical({**searched, **others}, base)

    def dearest(self, base: Budget) -> Budget:
        """The budget with the most calls, found field by field: there may be too many to look through."""
        dearest = base
        for name, values in [*self.values.items()] * 2:  # the attempts of a step decide what its other fields cost
            budgets = (_replaced(dearest, {name: value}) for value in values)
            dearest = max((b for b in budgets if b is not None), key=most_calls_at, default=dearest)
        return dearest

    def points(self, base: Budget) -> list[Point] | None:
        """Every budget once, those with few calls first; `None` where there are too many to look through."""
        if prod(map(len, self.values.values())) > _MOST_TO_LIST:
            return None
        return in_order(self.every(base), base)

    def every(self, base: Budget) -> Iterator[Point]:
        """Every budget, one after the other; some of them more than once."""
        for chosen in product(*self.values.values()):
            point = canonical(dict(zip(self.values, chosen, strict=True)), base)
            if is_possible(point, base):
                yield point

    def suggest(self, trial: Any, base: Budget) -> Point:
        """The point that an Optuna trial suggests, as the one budget that it stands for."""
        chosen = {name: trial.suggest_categorical(name, values) for name, values in self.values.items()}
        return canonical(chosen, base)

    def draw(self, chance: Random, base: Budget) -> Point:
        """Any point."""
        return canonical({name: chance.choice(values) for name, values in self.values.items()}, base)


def in_order(points: Iterator[Point] | Sequence[Point], base: Budget) -> list[Point]:
    """Each point once, those with few calls first."""
    unique = {point_name(point): point for point in points}
    return sorted(unique.values(), key=lambda p: (most_calls_at(budget_at(base, p)), point_name(p)))


def canonical(point: Mapping[str, Any], base: Budget) -> Point:
    """A point without what its budget never uses, so that one budget has one point."""
    if _asks_once(point, base):
        return alone(base)
    budget = _replaced(base, point)
    unused = set(_unused(budget)) if budget is not None else ()
    return {name: value for name, value in point.items() if name not in unused}


def alone(base: Budget) -> Point:
    """The point of the engine alone: one direct answer, asked greedily, whatever the base asks beside it."""
    once = {"num_attempts_baseline": 1}
    return once if _asks_once(once, base) else {**once, "num_attempts_coding": 0}


def _asks_once(point: Mapping[str, Any], base: Budget) -> bool:
    """Whether a single direct attempt comes first, and so decides by itself."""

    def value(name: str) -> Any:
        return point.get(name, getattr(base, name))

    first = value("first_path") == "direct" and not value("stop_on_agreement")
    return value("num_attempts_baseline") == 1 and (first or not value("num_attempts_coding"))


def _unused(budget: Budget) -> Iterator[str]:
    """Names of what a budget sets for nothing."""
    if not budget.num_attempts_coding:
        yield "first_path"
    if not budget.num_attempts_coda:
        yield from _OF_STEP_3
    elif not budget.use_planner:
        yield from ("plan_diversity", "plan_paths", "max_plan_tries")
    # The paper's verifiers are asked in step 3 alone, between several candidates; the others decide the last vote too.
    if budget.verifier in OF_ALGORITHM_1 and not has_a_choice(budget):
        yield "verifier"
    for stage in _silent_stages(budget):
        yield from (f"{field}.{stage}" for field in BY_STAGE)


def _silent_stages(budget: Budget) -> Iterator[str]:
    """Stages at which nobody is asked."""
    coda = bool(budget.num_attempts_coda)
    speaks = {
        "approach": coda and budget.use_planner and budget.plan_diversity,
        "plan": coda and budget.use_planner,
        "execute": coda,
        "reflect": coda and budget.use_reflection,
        "judge": most_calls(budget.verifier, 2) > 0 and (budget.verifier not in OF_ALGORITHM_1 or has_a_choice(budget)),
        "direct": bool(budget.num_attempts_baseline),
        "code": bool(budget.num_attempts_coding),
        "refine": bool(budget.refine_rounds),
    }
    yield from (stage for stage, asked in speaks.items() if not asked)


def has_a_choice(budget: Budget) -> bool:
    """Whether Algorithm 1 is run, and its verifier may have several candidates to choose among."""
    several = budget.best_of_n > 1 or (not budget.use_reflection and budget.n_plans > 1)
    return bool(budget.num_attempts_coda) and several


def is_possible(point: Point, base: Budget) -> bool:
    """Whether a point is a budget, and one that tries something."""
    try:
        budget = budget_at(base, point)
    except UserError:
        return False
    return budget.num_attempts_baseline + budget.num_attempts_coding + budget.num_attempts_coda > 0


def budget_at(base: Budget, point: Mapping[str, Any]) -> Budget:
    """The budget of a point: `base` with the point's values.

    A single direct attempt decides by itself, so it is asked greedily and nothing follows it.
    """
    if _asks_once(point, base):
        return base.replace(**ASKED_ONCE)
    return base.replace(**_changes(point))


def _replaced(base: Budget, changes: Mapping[str, Any]) -> Budget | None:
    """The base with a point's values; `None` where they are no budget together."""
    try:
        return base.replace(**_changes(changes))
    except UserError:
        return None


def _value(budget: Budget, name: str) -> Any:
    """What a budget sets for a searched field; of a field by stage the one value of all stages, if there is one."""
    field, _, stage = name.partition(".")
    value = getattr(budget, field)
    if field not in BY_STAGE:
        return value
    return value[stage] if stage else next(iter(value.values()))


def _changes(point: Mapping[str, Any]) -> dict[str, Any]:
    """A point as arguments of `Budget.replace`."""
    changes: dict[str, Any] = {}
    for name, value in point.items():
        field, _, stage = name.partition(".")
        if stage:
            changes[field] = {**changes.get(field, {}), stage: value}
        else:
            changes[field] = value
    return changes


def point_name(point: Mapping[str, Any]) -> str:
    """A short name for files and runs: `baseline3-coda1-best1-plans2`."""
    return "-".join(_part(name, value) for name, value in point.items())


def _part(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"{name.removeprefix('use_')}={'on' if value else 'off'}"
    return f"{_SHORT[name]}{value}" if name in _SHORT else f"{name}={value}"
