"""The Optuna study behind a search: what was asked, what is being measured, what was found."""

import threading
import time
from collections.abc import Collection
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

from coda_dspy.budget import Budget

from .space import Point, Space, is_possible, point_name
from .storage import database_errors, opened
from .trial import Trial

_BEAT = 30  # seconds after which a worker says again that it lives; silent for four of them, it is dead
MOMENT = 1.0  # seconds between looks at what others do
_SUGGESTIONS = 4  # TPE likes to come back to what was good, but a budget needs to be measured once
_DIRECTIONS: tuple[Literal["maximize"], Literal["minimize"]] = ("maximize", "minimize")


class Taken(NamedTuple):
    """What nobody needs to measure any more, at one moment.

    Args:
        names: Names of the points that somebody has measured, or is measuring.
        measuring: Whether somebody is still measuring one, which is free again where they give up or die.
    """

    names: set[str]
    measuring: bool


class Asked:
    """A point that this process measures."""

    def __init__(self, study: Any, number: int, trial_id: int, point: Point, beats: bool) -> None:
        self._study, self._number, self._id, self.point = study, number, trial_id, point
        self._ended = threading.Event()
        if beats:
            threading.Thread(target=self._beat, name="coda-trial", daemon=True).start()

    def __enter__(self) -> "Asked":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Where measuring breaks off, another process may take the point."""
        if kind is not None:
            self.give_up()

    def _beat(self) -> None:
        """Tell the other workers that this one lives; a database that is away for a while is no reason to die."""
        for beat in count():
            if self._ended.is_set():
                return
            with suppress(Exception):  # the next beat, or the trial's own end, meets the same error
                self._study._storage.set_trial_user_attr(self._id, "beat", beat)
            self._ended.wait(_BEAT)

    def tell(self, trial: Trial) -> None:
        """It was measured, or known already."""
        import optuna

        self._ended.set()
        right = [int(right) for right in trial.right]
        told = {"right": right, "costs": list(trial.costs), "candidates": list(trial.candidates)}
        with suppress(optuna.exceptions.UpdateFinishedTrialError):  # silent for so long that others took it for dead
            for name, value in told.items():
                self._study._storage.set_trial_user_attr(self._id, name, value)
            if trial.whole:
                self._study.tell(self._number, [trial.accuracy.value, trial.cost], skip_if_finished=True)
            else:
                self._study.tell(self._number, state=optuna.trial.TrialState.PRUNED, skip_if_finished=True)

    def give_up(self) -> None:
        """It was not measured, and another process may."""
        self._ended.set()
        _fail(self._study, self._number)


class Study:
    """Trials in a file of one process, or in a database that workers on many machines share.

    Args:
        storage: A journal file in a folder that this process has locked, or a database's address (`postgresql://…`).
        name: Name of the study in it.
        seed: Seed of what is suggested.

    Raises:
        UserError: The database cannot be used.
    """

    def __init__(self, storage: Path | str, name: str = "budget", seed: int = 0) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._shared, self._seed = isinstance(storage, str), seed
        self._heard: dict[int, tuple[Any, float]] = {}  # last beat of each running trial, and when it was first seen
        with database_errors(storage):
            self._study = optuna.create_study(
                study_name=name, storage=opened(storage), directions=_DIRECTIONS, load_if_exists=True
            )
            if not self._shared:  # one process at a time: whatever runs was left by one that died
                for trial in self._stored((optuna.trial.TrialState.RUNNING,)):
                    _fail(self._study, trial.number)

    @property
    def optuna_study(self) -> Any:
        """For plots and importances."""
        return self._study

    def ended(self) -> list[Trial]:
        """The trials that ended, in the order in which they were begun."""
        import optuna

        states = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
        return [_trial_of(stored) for stored in self._stored(states)]

    def taken(self) -> Taken:
        """The points that are taken now; what dead workers were measuring is free."""
        import optuna

        if self._shared:
            self._free_what_the_dead_measure()
        stored = self._not_failed()
        running = optuna.trial.TrialState.RUNNING
        names = {point_name(trial.user_attrs["point"]) for trial in stored}
        return Taken(names, any(trial.state == running for trial in stored))

    def _free_what_the_dead_measure(self) -> None:
        """By beats that do not change, not by time stamps: clocks differ, and who dies early has never beaten."""
        import optuna

        now, heard = time.monotonic(), {}
        for trial in self._stored((optuna.trial.TrialState.RUNNING,)):
            beat = trial.user_attrs.get("beat")
            before, since = self._heard.get(trial.number, (beat, now))
            heard[trial.number] = (beat, since if beat == before else now)
            if now - heard[trial.number][1] > 4 * _BEAT:
                _fail(self._study, trial.number)
        self._heard = heard

    def publish(self, name: str, told: Any) -> None:
        """Tell all processes something by a name, as plain values: all of it at once, or nothing."""
        self._study.set_user_attr(name, told)

    def published(self) -> dict[str, Any]:
        """What was told last, by name."""
        return dict(self._study.user_attrs)

    def take(self, point: Point, space: Space) -> Asked | None:
        """Measure this point here; `None` where another process was faster.

        The point is stored in one step with the trial's number, so of two that take it at once both know who is first.
        """
        import optuna

        params = {name: value for name, value in point.items() if value in space.values.get(name, ())}
        template = optuna.trial.create_trial(
            state=optuna.trial.TrialState.RUNNING,
            params=params,
            distributions={name: optuna.distributions.CategoricalDistribution(space.values[name]) for name in params},
            user_attrs={"point": point},
        )
        storage = self._study._storage
        trial_id = storage.create_new_trial(self._study._study_id, template)
        number = storage.get_trial_number_from_id(trial_id)
        name = point_name(point)
        if any(t.number < number and point_name(t.user_attrs["point"]) == name for t in self._not_failed()):
            _fail(self._study, number)
            return None
        return Asked(self._study, number, trial_id, point, self._shared)

    def suggest(self, space: Space, base: Budget, taken: Collection[str]) -> Point | None:
        """A point that TPE suggests and nobody has taken; `None` where it comes back to what is known.

        What is stored decides, and nothing else: a search that broke goes on as it would have gone on unbroken.
        """
        import optuna

        stored = self._not_failed()
        sampler = optuna.samplers.TPESampler(seed=self.chance(len(stored)).getrandbits(32))
        aside = optuna.create_study(directions=_DIRECTIONS, sampler=sampler)
        aside.add_trials(stored)
        for _ in range(_SUGGESTIONS):
            point = space.suggest(aside.ask(), base)
            if is_possible(point, base) and point_name(point) not in taken:
                return point
        return None

    def chance(self, place: int) -> Random:
        """Chance that the seed and a place in the search decide."""
        return Random(f"{self._seed} {place}")

    def _not_failed(self) -> list[Any]:
        import optuna

        return [trial for trial in self._stored(None) if trial.state != optuna.trial.TrialState.FAIL]

    def _stored(self, states: Any) -> list[Any]:
        return list(self._study.get_trials(deepcopy=False, states=states))


def _fail(study: Any, number: int) -> None:
    """A trial ends unmeasured, if it has not ended before."""
    import optuna

    with suppress(optuna.exceptions.UpdateFinishedTrialError):
        study.tell(number, state=optuna.trial.TrialState.FAIL, skip_if_finished=True)


def _trial_of(stored: Any) -> Trial:
    attributes = stored.user_attrs
    right = tuple(bool(value) for value in attributes["right"])
    costs, candidates = tuple(map(float, attributes["costs"])), tuple(attributes["candidates"])
    return Trial(dict(attributes["point"]), right, costs, bool(stored.values), candidates)
