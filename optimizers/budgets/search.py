"""Search budgets with Optuna: ask, measure in rungs, tell.

Nested sampling makes the search cheap: a trial pays only for samples that no earlier trial drew, because DSPy's cache
has the others; and trials are compared on common random numbers.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from coda_dspy.budget import Budget
from coda_dspy.evaluation import Result

from .racing import is_dominated, rungs
from .space import Point, Space, is_possible, point_name
from .study import MOMENT, Asked, Study
from .trial import Prices, Trial, measured

MOST_TO_ENUMERATE = 64
_DRAWS = 100  # before points are looked through in order

Measure = Callable[[Point, slice], Sequence[Result] | None]
"""Results of a budget on a part of the questions; `None` where the time did not suffice."""


class BudgetSearch:
    """A search that goes on where an earlier process stopped, and that several processes may share.

    The plain engine, the vote alone and the paper's settings come first. Then a space of up to 64 budgets is
    enumerated, those with few calls first; a larger one is sampled by TPE.

    Args:
        space: What to search.
        study: Where trials are kept.
        base: The budget whose fields the space sets.
        paper: Whether the paper's settings are measured, though the space may lack them.
    """

    def __init__(self, space: Space, study: Study, base: Budget, paper: bool = True) -> None:
        self._space, self._study, self._base = space, study, base
        first = space.plain(base) + ([space.paper(base)] if paper else [])
        listed = space.points(base)
        self.enumerated = listed is not None and len(listed) <= MOST_TO_ENUMERATE
        if listed is not None and self.enumerated:
            first += listed
        self._first = _once(point for point in first if is_possible(point, base))
        self._all = None if listed is None else len(_once([*listed, *self._first]))

    @property
    def optuna_study(self) -> Any:
        """For plots and importances."""
        return self._study.optuna_study

    def most(self, max_trials: int) -> int:
        """How many trials there will be at most."""
        return max_trials if self._all is None else min(max_trials, self._all)

    def run(
        self,
        measure: Measure,
        questions: int,
        max_trials: int,
        *,
        prices: Prices | None = None,
        keep_going: Callable[[], bool] = lambda: True,
        on_rung: Callable[[Trial], None] = lambda trial: None,
        on_trial: Callable[[Trial], None] = lambda trial: None,
        candidates: Callable[[Point], Sequence[Any]] = lambda point: (),
    ) -> list[Trial]:
        """Measure budgets until the space or `max_trials` is exhausted, or `keep_going` says no.

        A search that several processes share ends when no other one is measuring: what one that died has left
        unmeasured is measured here.

        Args:
            measure: Asks a budget some of the questions.
            questions: How many questions a whole trial answers.
            max_trials: The most trials, those of other processes included.
            prices: Where money counts instead of tokens.
            keep_going: Asked before each trial but the first.
            on_rung: Called with a trial as far as it is, at every rung.
            on_trial: Called with each trial as it ends, also for those of other processes.
            candidates: What is stored with a point that was measured whole, as plain values.

        Returns:
            The trials that ended, each point once; some were stopped by the race.

        Raises:
            UserError: The engine reports no usage, so that costs cannot be compared.
        """
        trials: dict[str, Trial] = {}
        limit = self.most(max_trials)

        def learn(found: Sequence[Trial]) -> None:
            for trial in found:
                if point_name(trial.point) not in trials:
                    trials[point_name(trial.point)] = trial
                    on_trial(trial)

        learn(self._study.ended())
        while len(trials) < limit and (not trials or keep_going()):
            taken, others_measure = self._study.taken()
            point = self._next(taken) if len(taken) < limit else None
            if point is None and not others_measure:
                break
            asked = self._study.take(point, self._space) if point is not None else None
            if asked is None:
                time.sleep(MOMENT)
                learn(self._study.ended())
                continue
            with asked:
                trial = self._race(asked, measure, questions, trials, prices, on_rung)
            if trial is None:
                asked.give_up()
                break
            trial = replace(trial, candidates=tuple(candidates(trial.point))) if trial.whole else trial
            asked.tell(trial)
            learn(self._study.ended())
        return list(trials.values())

    def _next(self, taken: Collection[str]) -> Point | None:
        """The next point that nobody has taken, if there is one."""
        first = next((point for point in self._first if point_name(point) not in taken), None)
        if first is not None or self.enumerated:
            return first
        return self._study.suggest(self._space, self._base, taken) or self._by_chance(taken)

    def _by_chance(self, taken: Collection[str]) -> Point | None:
        """Any point; where chance finds no new one, the first that is left."""
        chance = self._study.chance(len(taken))
        drawn = (self._space.draw(chance, self._base) for _ in range(_DRAWS))
        points = chain(drawn, self._space.every(self._base))
        return next((p for p in points if is_possible(p, self._base) and point_name(p) not in taken), None)

    def _race(
        self,
        asked: Asked,
        measure: Measure,
        questions: int,
        trials: Mapping[str, Trial],
        prices: Prices | None,
        on_rung: Callable[[Trial], None],
    ) -> Trial | None:
        """One trial, rung by rung, until it is whole or another one dominates it; `None` for lack of time."""
        results: list[Result] = []
        for rung in rungs(questions):
            more = measure(asked.point, slice(len(results), rung))
            if more is None:
                return None
            results += more
            trial = measured(asked.point, results, prices, whole=rung == questions)
            on_rung(trial)
            if any(is_dominated(trial, rival, questions) for rival in trials.values()):
                break
        return trial


def _once(points: Iterable[Point]) -> list[Point]:
    """Each point once, in the order in which it is named first."""
    return list({point_name(point): point for point in points}.values())
