"""The Optuna study behind a search: what was asked, what is being measured, what was found."""

import threading
import time
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from coda_dspy.budget import Budget
from coda_dspy.engines.secrets import redact, remember_password_of
from coda_dspy.errors import UserError

from .space import Point, Space, is_possible, point_name
from .trial import Trial

_BEAT = 30  # seconds after which a worker says again that it lives; silent for four of them, it is dead
MOMENT = 1.0  # seconds between looks at what others do
_TRIES, _TRIES_BY_CHANCE = 4, 100  # asks for a point that is new


class Asked:
    """A point that this process measures."""

    def __init__(self, study: Any, trial: Any, point: Point, beats: bool) -> None:
        self._study, self._trial, self.point = study, trial, point
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
        while not self._ended.is_set():
            with suppress(Exception):  # the next beat, or the trial's own end, meets the same error
                self._study._storage.record_heartbeat(self._trial._trial_id)
            self._ended.wait(_BEAT)

    def tell(self, trial: Trial) -> None:
        """It was measured, or known already."""
        import optuna

        self._ended.set()
        self._trial.set_user_attr("right", [int(right) for right in trial.right])
        self._trial.set_user_attr("costs", list(trial.costs))
        if trial.whole:
            self._study.tell(self._trial, [trial.accuracy.value, trial.cost])
        else:
            self._study.tell(self._trial, state=optuna.trial.TrialState.PRUNED)

    def give_up(self) -> None:
        """It was not measured, and another process may."""
        import optuna

        self._ended.set()
        self._study.tell(self._trial, state=optuna.trial.TrialState.FAIL)


class Study:
    """Trials in a file of one machine, or in a database that workers on many machines share.

    Args:
        storage: A journal file, or a database's address (`postgresql://…`).
        name: Name of the study in the database.
        seed: Seed of the sampler.

    Raises:
        UserError: The database cannot be used.
    """

    def __init__(self, storage: Path | str, name: str = "budget", seed: int = 0) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._shared = isinstance(storage, str)
        self._sampler: Any = optuna.samplers.TPESampler(seed=seed)
        self._by_chance: Any = optuna.samplers.RandomSampler(seed=seed)
        if isinstance(storage, str):
            remember_password_of(storage)
        with _database_errors(storage):
            self._study = optuna.create_study(
                study_name=name,
                storage=_storage(storage),
                sampler=self._sampler,
                directions=["maximize", "minimize"],
                load_if_exists=True,
            )
            if not self._shared:  # one process at a time: whatever runs was left by one that died
                self._fail_running()

    @property
    def optuna_study(self) -> Any:
        """For plots and importances."""
        return self._study

    def ended(self) -> list[Trial]:
        """The trials that ended, in the order in which they were begun."""
        import optuna

        states = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
        return [_trial_of(stored) for stored in self._stored(states)]

    def taken(self) -> set[str]:
        """Names of the points that somebody has measured, or is measuring, or will."""
        import optuna

        if self._shared:
            optuna.storages.fail_stale_trials(self._study)
        stored = self._stored(None)
        return {
            point_name(trial.user_attrs["point"])
            for trial in stored
            if trial.state != optuna.trial.TrialState.FAIL and "point" in trial.user_attrs
        }

    def wait_for_others(self) -> bool:
        """Wait a moment where other workers are still measuring; whether there are any."""
        import optuna

        if not self._shared or not self._stored((optuna.trial.TrialState.RUNNING,)):
            return False
        time.sleep(MOMENT)
        return True

    def publish(self, **told: Any) -> None:
        """Tell all workers something, as plain values: all of it at once, or nothing."""
        self._study.set_user_attr("told", told)

    def published(self) -> dict[str, Any]:
        """What was told last."""
        return dict(self._study.user_attrs.get("told", {}))

    def ask_for(self, point: Point, space: Space) -> Asked | None:
        """Take this point; another worker may be faster, then whatever point it left, or nothing."""
        import optuna

        params = {name: value for name, value in point.items() if value in space.values.get(name, ())}
        self._study.enqueue_trial(params, user_attrs={"point": point})
        trial = self._study.ask()
        found = trial.user_attrs.get("point")
        if found is None or self._is_taken_before(trial.number, found):
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
            return None
        for name, value in found.items():
            if value in space.values.get(name, ()):
                trial.suggest_categorical(name, space.values[name])
        return Asked(self._study, trial, dict(found), self._shared)

    def ask(self, space: Space, base: Budget, taken: Collection[str]) -> Asked | None:
        """A point that the sampler suggests and nobody has taken; `None` where none is found.

        TPE likes to come back to what was good. Then the choice is by chance, for a budget needs to be measured once.
        """
        import optuna

        samplers = [self._sampler] * _TRIES + [self._by_chance] * _TRIES_BY_CHANCE
        for sampler in samplers:
            self._study.sampler = sampler
            trial = self._study.ask()
            point = space.suggest(trial, base)
            if is_possible(point, base) and point_name(point) not in taken:
                trial.set_user_attr("point", point)
                return Asked(self._study, trial, point, self._shared)
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return None

    def _is_taken_before(self, number: int, point: Point) -> bool:
        """Whether another worker took the same point at the same moment, and was first."""
        import optuna

        failed = optuna.trial.TrialState.FAIL
        earlier = (trial for trial in self._stored(None) if trial.number < number and trial.state != failed)
        return any(trial.user_attrs.get("point") == point for trial in earlier)

    def _stored(self, states: Any) -> list[Any]:
        return list(self._study.get_trials(deepcopy=False, states=states))

    def _fail_running(self) -> None:
        import optuna

        state = optuna.trial.TrialState
        for trial in self._stored((state.RUNNING, state.WAITING)):
            if trial.state == state.WAITING:
                self._study.ask()
            self._study.tell(trial.number, state=state.FAIL)


def _trial_of(stored: Any) -> Trial:
    attributes = stored.user_attrs
    right = tuple(bool(value) for value in attributes["right"])
    whole = bool(stored.values)
    return Trial(dict(attributes["point"]), right, tuple(map(float, attributes["costs"])), whole)


def _storage(storage: Path | str) -> Any:
    import optuna

    if isinstance(storage, Path):
        from optuna.storages.journal import JournalFileBackend

        storage.parent.mkdir(parents=True, exist_ok=True)
        return optuna.storages.JournalStorage(JournalFileBackend(str(storage)))
    from sqlalchemy.exc import SQLAlchemyError

    for tries_left in (2, 1, 0):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                return optuna.storages.RDBStorage(storage, heartbeat_interval=_BEAT, grace_period=4 * _BEAT)
        except SQLAlchemyError:  # also where another process is just making the same tables
            if not tries_left:
                raise
            time.sleep(MOMENT)
    raise AssertionError("the last try returns or raises")


@contextmanager
def _database_errors(storage: Path | str) -> Iterator[None]:
    """A database that cannot be used is the user's to mend."""
    try:
        yield
    except Exception as error:
        if isinstance(storage, Path):
            raise
        raise UserError(
            f"the database {redact(storage)} cannot be used: {redact(str(error)).splitlines()[0][:300]}; check the "
            "address, the user's rights, and that its driver is installed (for PostgreSQL: the extra 'workers')"
        ) from None
