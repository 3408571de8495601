"""Choose among measured budgets."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from .trial import Trial

PREFERENCES = ("cheapest", "accuracy", "knee")


def front(trials: Sequence[Trial]) -> list[Trial]:
    """The whole trials that no other whole one beats in accuracy and cost, cheap ones first."""
    best, kept = -1.0, []
    for trial in sorted((t for t in trials if t.whole), key=lambda t: (t.cost, -t.accuracy.value)):
        if trial.accuracy.value > best:
            best = trial.accuracy.value
            kept.append(trial)
    return kept


def finalists(trials: Sequence[Trial], most: int, prefer: str = "cheapest") -> list[Trial]:
    """The trials worth a second look, cheap ones first: the one to take as it seems, and what may prove better.

    Args:
        trials: At least one whole one.
        most: At most so many, at least 1: the one that `pick` takes, the best one, and then the cheapest ones of the
            front within two standard errors of the best.
        prefer: As for `pick`.
    """
    *others, best = front(trials)
    least = best.accuracy.value - 2 * best.accuracy.standard_error
    wanted = [pick(trials, prefer), best, *(t for t in others if t.accuracy.value >= least)]
    once = [trial for place, trial in enumerate(wanted) if trial not in wanted[:place]]
    return sorted(once[:most], key=lambda t: t.cost)


def pick(trials: Sequence[Trial], prefer: str = "cheapest") -> Trial:
    """The budget to take.

    Args:
        trials: At least one whole one; others are passed over.
        prefer: `cheapest` of those within one standard error of the best (the one-standard-error rule; the error is
            that of the best one's Wilson interval); `accuracy`, the best whatever it costs; `knee`, the one of the
            front that stands out most over the line from its cheapest to its best.
    """
    whole = [trial for trial in trials if trial.whole]
    return _RULES[prefer](whole)


class Progress(NamedTuple):
    """What a round of a tune has gained.

    Args:
        taken: Whether its budget is the one to take.
        gain: How much more is right than in the round before.
        noise: The standard error by which budgets are chosen, of the better round.
    """

    taken: bool
    gain: float
    noise: float

    @property
    def within_noise(self) -> bool:
        return self.gain <= self.noise

    def __str__(self) -> str:
        choice = "its" if self.taken else "the earlier"
        return f"gained {self.gain:+.1%}, less than its noise ({self.noise:.1%}); {choice} budget is taken"


def compared(before: Trial, after: Trial, prefer: str = "cheapest") -> Progress:
    """A round against the one before, by the rule that decides between budgets, on the questions of both.

    Args:
        before: The choice of the round before.
        after: The choice of the round.
        prefer: As for `pick`.
    """
    shared = min(len(before.right), len(after.right))
    old, new = (replace(trial, right=trial.right[:shared], costs=trial.costs[:shared]) for trial in (before, after))
    figures = old.accuracy, new.accuracy
    noise = max(figures, key=lambda figure: figure.value).standard_error
    return Progress(pick((old, new), prefer) is new, figures[1].value - figures[0].value, noise)


def _best(trials: Sequence[Trial]) -> Trial:
    return max(trials, key=lambda t: (t.accuracy.value, -t.cost))


def _cheapest(trials: Sequence[Trial]) -> Trial:
    best = _best(trials).accuracy
    near = [t for t in trials if t.accuracy.value >= best.value - best.standard_error]
    return min(near, key=lambda t: (t.cost, -t.accuracy.value))


def _knee(trials: Sequence[Trial]) -> Trial:
    on_front = front(trials)
    low, high = on_front[0], on_front[-1]
    run, rise = high.cost - low.cost, high.accuracy.value - low.accuracy.value
    if len(on_front) < 3:
        return _cheapest(trials)

    def height(trial: Trial) -> float:
        across, up = (trial.cost - low.cost) / run, (trial.accuracy.value - low.accuracy.value) / rise
        return up - across

    return max(on_front, key=height)


_RULES: dict[str, Callable[[Sequence[Trial]], Trial]] = {"cheapest": _cheapest, "accuracy": _best, "knee": _knee}
