"""Choose among measured budgets."""

from collections.abc import Callable, Sequence

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


def finalists(trials: Sequence[Trial], most: int) -> list[Trial]:
    """The trials of the front within two standard errors of its best, cheap ones first.

    Args:
        trials: At least one whole one.
        most: At most so many: the best one, and the cheapest ones.
    """
    on_front = front(trials)
    best = on_front[-1].accuracy
    near = [t for t in on_front if t.accuracy.value >= best.value - 2 * best.standard_error]
    return [*near[:-1][: most - 1], near[-1]]


def pick(trials: Sequence[Trial], prefer: str = "cheapest") -> Trial:
    """The budget to take.

    Args:
        trials: At least one whole one; others are passed over.
        prefer: `cheapest` of those within one standard error of the best (the one-standard-error rule; the error is
            the best one's own, over its questions); `accuracy`, the best whatever it costs; `knee`, the one of the
            front that stands out most over the line from its cheapest to its best.
    """
    whole = [trial for trial in trials if trial.whole]
    return _RULES[prefer](whole)


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
