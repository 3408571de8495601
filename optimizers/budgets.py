"""Search the budget: accuracy against tokens, with Optuna.

Nested sampling makes the search cheap: a trial pays only for samples that no earlier trial drew, because DSPy's cache
has the others; and trials are compared on common random numbers.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from coda_dspy.budget import Budget
from coda_dspy.errors import UserError
from coda_dspy.evaluation import Result
from coda_dspy.evaluation.statistics import Accuracy, accuracy, mean_tokens
from coda_dspy.profile import ASKED_ONCE

MOST_TRIALS_TO_ENUMERATE = 64
ASKS_A_TRIAL = 4


class Space(NamedTuple):
    """The budgets to search.

    Args:
        num_attempts_baseline: Direct attempts; 0 skips step 1 of Algorithm 2. One attempt is asked greedily.
        best_of_n: Attempts of Algorithm 1; 0 leaves step 3 out.
        n_plans: Plans of one attempt.
    """

    num_attempts_baseline: tuple[int, ...]
    best_of_n: tuple[int, ...]
    n_plans: tuple[int, ...]

    def points(self) -> list[dict[str, int]]:
        """Every budget of the space, cheap ones first, without those that differ only in what is never used."""
        return sorted(self._points(), key=lambda p: (_calls(p), sorted(p.items())))

    def _points(self) -> Iterator[dict[str, int]]:
        for baseline in self.num_attempts_baseline:
            for best_of_n in self.best_of_n if baseline != 1 else (0,):
                if not baseline and not best_of_n:
                    continue
                point = {"num_attempts_baseline": baseline}
                if baseline != 1:
                    point["best_of_n"] = best_of_n
                for n_plans in self.n_plans if best_of_n else ():
                    yield {**point, "n_plans": n_plans}
                if not best_of_n:
                    yield point

    def suggest(self, trial: Any) -> dict[str, int]:
        """The point that Optuna suggests; parameters that a point does not use are not asked for."""
        point = {"num_attempts_baseline": _suggest(trial, "num_attempts_baseline", self.num_attempts_baseline)}
        if point["num_attempts_baseline"] == 1:
            return point
        allowed = self.best_of_n if point["num_attempts_baseline"] else tuple(n for n in self.best_of_n if n)
        name = "best_of_n" if point["num_attempts_baseline"] else "best_of_n_without_baseline"
        point["best_of_n"] = _suggest(trial, name, allowed)
        if point["best_of_n"]:
            point["n_plans"] = _suggest(trial, "n_plans", self.n_plans)
        return point


def _suggest(trial: Any, name: str, values: tuple[int, ...]) -> int:
    return int(trial.suggest_categorical(name, values))


def _calls(point: Mapping[str, int]) -> int:
    plans = point.get("n_plans", 0)
    return point["num_attempts_baseline"] + point.get("best_of_n", 0) * (2 * plans + 1)


def budget_at(base: Budget, point: Mapping[str, int]) -> Budget:
    """The budget of a point: `base` with the point's numbers.

    A single direct attempt decides by itself, so it is asked greedily and step 3 is left out.
    """
    changes: dict[str, Any] = {"num_attempts_baseline": point["num_attempts_baseline"]}
    if point["num_attempts_baseline"] == 1:
        return base.replace(**ASKED_ONCE)
    if not point["best_of_n"]:
        return base.replace(**changes, num_attempts_coda=0)
    return base.replace(**changes, num_attempts_coda=1, best_of_n=point["best_of_n"], n_plans=point["n_plans"])


def point_name(point: Mapping[str, int]) -> str:
    """A short name for files and runs: `baseline3-best1-plans2`."""
    short = {"num_attempts_baseline": "baseline", "best_of_n": "best", "n_plans": "plans"}
    return "-".join(f"{short[name]}{value}" for name, value in point.items())


@dataclass(frozen=True)
class Trial:
    """One budget, measured.

    Args:
        point: The numbers that were searched.
        accuracy: On the validation questions, with its interval.
        tokens: Tokens a question.
    """

    point: dict[str, int]
    accuracy: Accuracy
    tokens: float


class BudgetSearch:
    """Ask-and-tell search that goes on where an earlier process stopped.

    A space of up to 64 budgets is enumerated, from cheap to dear; a larger one is sampled by TPE.

    Args:
        space: What to search.
        storage: Optuna's journal file.
        seed: Seed of the sampler.
    """

    def __init__(self, space: Space, storage: Path, seed: int = 0) -> None:
        self.space = space
        self._points = space.points()
        self._study = _open_study(storage, self._sampler(seed))

    @property
    def _failed(self) -> Any:
        import optuna

        return optuna.trial.TrialState.FAIL

    def _sampler(self, seed: int) -> Any:
        import optuna

        if len(self._points) > MOST_TRIALS_TO_ENUMERATE:
            return optuna.samplers.TPESampler(seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.samplers.BruteForceSampler(seed=seed)

    def run(
        self,
        measure: Callable[[dict[str, int]], Sequence[Result] | None],
        max_trials: int,
        keep_going: Callable[[], bool] = lambda: True,
        on_trial: Callable[[Trial], None] = lambda trial: None,
    ) -> list[Trial]:
        """Measure budgets until the space or `max_trials` is exhausted, or `keep_going` says no.

        Args:
            measure: Results of one point on the validation questions; `None` where the time did not suffice.
            max_trials: The most trials, earlier processes' included.
            keep_going: Asked before each trial but the first.
            on_trial: Called with each trial as it ends, also for those of an earlier process.

        Returns:
            The finished trials, each point once.

        Raises:
            UserError: The engine reports no usage, so that tokens cannot be compared.
        """
        trials = {point_name(t.point): t for t in map(_trial_of, self._finished())}
        for trial in trials.values():
            on_trial(trial)
        limit = min(max_trials, len(self._points))
        for _ in range(ASKS_A_TRIAL * limit):  # a sampler may suggest a point again
            if len(trials) >= limit or (trials and not keep_going()):
                break
            asked = self._ask(trials)
            point = self.space.suggest(asked)
            results = measure(point)
            if results is None:
                self._study.tell(asked, state=self._failed)
                break
            trial = _measured(point, results)
            trials.setdefault(point_name(point), trial)
            on_trial(trial)
            self._tell(asked, trial)
        return list(trials.values())

    def _finished(self) -> list[Any]:
        import optuna

        return self._study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))

    def _ask(self, trials: Mapping[str, Trial]) -> Any:
        """Small spaces are walked from cheap to dear, so that a search that is cut short has seen the cheap ones."""
        if len(self._points) <= MOST_TRIALS_TO_ENUMERATE:
            nxt = next(p for p in self._points if point_name(p) not in trials)
            self._study.enqueue_trial(_as_params(nxt))
        return self._study.ask()

    def _tell(self, asked: Any, trial: Trial) -> None:
        asked.set_user_attr("point", trial.point)
        asked.set_user_attr("accuracy", list(trial.accuracy))
        try:
            self._study.tell(asked, [trial.accuracy.value, trial.tokens])
        except RuntimeError as error:
            # BruteForceSampler wants to stop the study when everything is seen; the values are stored before that.
            if "Study.stop" not in str(error):
                raise


def _as_params(point: Mapping[str, int]) -> dict[str, int]:
    if point["num_attempts_baseline"]:
        return dict(point)
    return {("best_of_n_without_baseline" if name == "best_of_n" else name): v for name, v in point.items()}


def _open_study(storage: Path, sampler: Any) -> Any:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage.parent.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name="budget",
        storage=JournalStorage(JournalFileBackend(str(storage))),
        sampler=sampler,
        directions=["maximize", "minimize"],
        load_if_exists=True,
    )
    for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)  # left by a process that died
    return study


def _trial_of(stored: Any) -> Trial:
    value, low, high, n = stored.user_attrs["accuracy"]
    return Trial(dict(stored.user_attrs["point"]), Accuracy(value, low, high, int(n)), float(stored.values[1]))


def _measured(point: dict[str, int], results: Sequence[Result]) -> Trial:
    tokens = mean_tokens(results)
    if tokens is None:
        raise UserError(
            "the engine does not report the usage of every call, so tokens cannot be compared; "
            "switch usage on at the server, or use one that reports it"
        )
    return Trial(point, accuracy(results), tokens)


def pick_cheapest(trials: Sequence[Trial]) -> Trial:
    """The cheapest budget within one standard error of the best (the one-standard-error rule).

    Args:
        trials: At least one. The standard error is the best trial's own, over its questions.
    """
    best = max(trials, key=lambda t: (t.accuracy.value, -t.tokens))
    bar = best.accuracy.value - best.accuracy.standard_error
    return min((t for t in trials if t.accuracy.value >= bar), key=lambda t: (t.tokens, -t.accuracy.value))
