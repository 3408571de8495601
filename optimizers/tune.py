"""Tune for an engine: compile the prompts, search the budget, measure the choice once, write down what was found.

Everything that a question cost is kept in the run's folder. The same command goes on after a crash: finished questions
are read back, and the calls of an unfinished one come from DSPy's cache, which lies in the folder too.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import dspy
from filelock import FileLock, Timeout

from coda_dspy.budget import Budget
from coda_dspy.conductor import AdaptiveCoda, Conductor
from coda_dspy.engines import engine_name
from coda_dspy.errors import UserError
from coda_dspy.evaluation import Gradable, JsonLines, Result, evaluate, new_session
from coda_dspy.profile import Profile, with_algorithm, write_atomically
from coda_dspy.tracking import Tracker

from .budgets import BudgetSearch, Space, Trial, budget_at, pick_cheapest, point_name
from .prompts import NAME as OPTIMIZER
from .prompts import compile_prompts, demo_count
from .statistics import Difference, accuracy, mean_seconds, mean_tokens, paired_difference

FRESH = 7919  # rollout base of the held-out measurement: samples that no choice was made on


WIDE = Space((1, 3, 5), (0, 1, 2), (1, 2, 3))


@dataclass(frozen=True)
class TunePlan:
    """How much work a tune is.

    Args:
        train: Questions to compile prompts on.
        validation: Questions to choose prompts and budget on.
        test: Held-out questions, asked once, at the end.
        space: Budgets to search.
        max_trials: The most budgets to measure.
        max_demos: The most demonstrations of one role.
        budget: Everything that is not searched.
        roles: Algorithms whose roles get demonstrations: `direct`, `coda`.
        minutes: Wall time after which no further trial and no further test question is started; `None`: no limit.
        seed: Seed of the split and of the sampler.
    """

    train: int = 24
    validation: int = 40
    test: int = 60
    space: Space = WIDE
    max_trials: int = 24
    max_demos: int = 2
    budget: Budget = field(default_factory=lambda: Budget.preset("quick"))
    roles: tuple[str, ...] = ("direct", "coda")
    minutes: float | None = None
    seed: int = 0

    @classmethod
    def quick(cls) -> "TunePlan":
        """A first look in at most a quarter of an hour on two cores."""
        return cls(
            train=8,
            validation=12,
            test=24,
            space=Space((1, 3), (0, 1), (1, 2)),
            max_trials=4,
            max_demos=1,
            budget=Budget.preset("quick").replace(max_tokens=320, max_plan_tries=1),
            roles=("direct",),
            minutes=13.0,
        )

    def questions(self) -> int:
        """Questions that all phases answer together, repeated ones counted each time; for an estimate of time."""
        compiling = len(self.roles) * (2 * self.validation + self.train)
        trials = min(self.max_trials, len(self.space.points()))
        return compiling + trials * self.validation + 2 * self.test

    def describe(self) -> dict[str, Any]:
        """The plan as plain values, for `run.json` and MLflow."""
        described = asdict(self)
        described["budget"] = self.budget.dump_state()
        return json.loads(json.dumps(described))  # tuples become lists, as they read back


class Row(NamedTuple):
    """One line of the closing table: results on the held-out test questions."""

    name: str
    results: Sequence[Result]


@dataclass(frozen=True)
class TuneReport:
    """What a tune found.

    Args:
        profile: The profile.
        rows: Plain engine and tuned conductor on the same held-out questions.
        difference: Tuned minus plain, paired.
        trials: The budgets that were measured on the validation questions.
        notes: What a reader has to know: phases that the time limit cut short, and the like.
    """

    profile: Profile
    rows: Sequence[Row]
    difference: Difference
    trials: Sequence[Trial]
    notes: Sequence[str]


class Watcher(Protocol):
    """Whoever shows the progress of a tune."""

    def phase(self, name: str, questions: int) -> None:
        """A phase begins; it has so many questions."""

    def result(self, result: Result) -> None:
        """A question is done."""

    def best(self, text: str) -> None:
        """The best so far has changed."""


class _Silent:
    def phase(self, name: str, questions: int) -> None: ...
    def result(self, result: Result) -> None: ...
    def best(self, text: str) -> None: ...


def tune(
    lm: dspy.LM,
    questions: Sequence[Any],
    plan: TunePlan,
    folder: Path,
    *,
    data: str = "math",
    workers: int = 4,
    tracker: Tracker | None = None,
    watcher: Watcher | None = None,
    started: float | None = None,
    adapter: str = "plain",
    decoding: Mapping[str, Any] | None = None,
) -> TuneReport:
    """Tune a program for one engine.

    Args:
        lm: The engine.
        questions: All questions, with answers; they are split by id.
        plan: How much work to do.
        folder: The run's folder. A tune that was begun there with the same plan goes on.
        data: Name of the questions, for the profile.
        workers: Questions at the same time.
        tracker: MLflow run to log to.
        watcher: Shows progress.
        started: `time.monotonic()` from which `plan.minutes` count; by default now.
        adapter: `plain` or `sections`.
        decoding: What `connect` was given beside the engine's name; goes into the profile.

    Raises:
        UserError: Too few questions; another plan was begun in the folder, or is running there; the disk is full.
        EngineError: The engine cannot be used at all.
    """
    with _locked(folder), _own_cache(folder / "cache"):
        run = _Tune(lm, questions, plan, folder, data, workers, tracker, watcher or _Silent(), adapter)
        run.deadline = None if plan.minutes is None else (started or time.monotonic()) + 60 * plan.minutes
        with dspy.context(lm=lm):
            return run.report(dict(decoding or {}))


class _Tune:
    """One tune: its parts share the folder, the engine and the clock."""

    deadline: float | None = None

    def __init__(
        self,
        lm: dspy.LM,
        questions: Sequence[Any],
        plan: TunePlan,
        folder: Path,
        data: str,
        workers: int,
        tracker: Tracker | None,
        watcher: Watcher,
        adapter: str,
    ) -> None:
        from coda_dspy.data import fingerprint, split

        self.lm, self.plan, self.folder, self.workers = lm, plan, folder, workers
        self.tracker, self.watcher, self.adapter = tracker, watcher, adapter
        self.parts = split(questions, plan.seed, plan.train, plan.validation, plan.test)
        self.session = new_session()
        self.notes: list[str] = []
        sizes = {"train": plan.train, "validation": plan.validation, "test": plan.test}
        self.data = {"name": data, "hash": fingerprint(questions), "seed": plan.seed, **sizes}
        self._begin()

    def _begin(self) -> None:
        """Write down what this run is, or check that it is the one that was begun here."""
        described: dict[str, Any] = {
            "engine": str(self.lm.model),
            "adapter": self.adapter,
            "data": self.data,
            "plan": self.plan.describe(),
        }
        path = self.folder / "run.json"
        if path.exists():
            _check_same(json.loads(path.read_text(encoding="utf-8")), described, self.folder)
        else:
            write_atomically(path, json.dumps(described, indent=2) + "\n")
        if self.tracker is not None:
            flat = {f"plan.{name}": value for name, value in described["plan"].items() if name != "budget"}
            self.tracker.params({"engine": engine_name(self.lm), "adapter": self.adapter, **self.data, **flat})

    def report(self, decoding: dict[str, Any]) -> TuneReport:
        program = self._compiled()
        trials = self._search(program)
        chosen = pick_cheapest(trials)
        program = self._at(program, chosen.point)
        plain, tuned = self._test(program)
        difference = paired_difference(plain, tuned)
        scores = _scores(trials, chosen, plain, tuned, difference)
        profile = Profile.of(program, engine_name(self.lm), decoding=decoding, scores=scores, data=self.data)
        report = TuneReport(
            profile, [Row("plain engine", plain), Row("tuned conductor", tuned)], difference, trials, self.notes
        )
        self._track(report)
        return report

    # -- prompts -------------------------------------------------------------------------------------------------

    def _compiled(self) -> AdaptiveCoda:
        """Demonstrations for each algorithm of the plan, kept where they help on the validation questions."""
        program = AdaptiveCoda(self.plan.budget, adapter=self.adapter)
        for algorithm in self.plan.roles:
            program = self._with_demos(program, algorithm)
        return program

    def _with_demos(self, program: AdaptiveCoda, algorithm: str) -> AdaptiveCoda:
        before = self._evaluate(f"{algorithm}, prompts as written", _small(program, algorithm), self.parts.validation)
        # Side by side first: the optimizer asks one question after the other, and then finds every call in the cache.
        self._evaluate(f"{algorithm}, training questions", _small(program, algorithm), self.parts.train)
        compiled = compile_prompts(_small(program, algorithm), self.parts.train, self.plan.max_demos)
        if not demo_count(compiled):
            self.notes.append(f"{algorithm}: no training question was answered right, so there are no demonstrations")
            return program
        after = self._evaluate(f"{algorithm}, prompts with demonstrations", compiled, self.parts.validation)
        gain = paired_difference(before, after)
        self._track_compile(algorithm, before, after)
        if gain.value <= 0:
            self.notes.append(f"{algorithm}: {OPTIMIZER} does not help on the validation questions ({gain}); left out")
            return program
        return _with_prompts(program, compiled)

    # -- budget --------------------------------------------------------------------------------------------------

    def _search(self, program: AdaptiveCoda) -> list[Trial]:
        search = BudgetSearch(self.plan.space, self.folder / "study.log", self.plan.seed)
        seen: list[Trial] = []

        def measure(point: dict[str, int]) -> list[Result]:
            results = self._evaluate(f"budget {point_name(point)}", self._at(program, point), self.parts.validation)
            self._track_trial(point, results)
            return results

        def note_best(trial: Trial) -> None:
            seen.append(trial)
            best = pick_cheapest(seen)
            self.watcher.best(f"{point_name(best.point)}: {best.accuracy.value:.0%}, {best.tokens:.0f} tokens")

        trials = search.run(measure, self.plan.max_trials, lambda: self._time_for(0.55), note_best)
        planned = min(self.plan.max_trials, len(self.plan.space.points()))
        if len(trials) < planned:
            self.notes.append(f"the time limit left {planned - len(trials)} of {planned} budgets unmeasured")
        return trials

    def _at(self, program: AdaptiveCoda, point: dict[str, int]) -> AdaptiveCoda:
        changed = program.deepcopy()
        changed.budget.load_state(budget_at(self.plan.budget, point).dump_state())
        return changed

    # -- test ----------------------------------------------------------------------------------------------------

    def _test(self, program: AdaptiveCoda) -> tuple[list[Result], list[Result]]:
        """Plain engine and tuned conductor on the held-out questions, on fresh samples.

        In small groups that both answer, so that a time limit leaves both with the same questions.
        """
        plain_program = _small(AdaptiveCoda(self.plan.budget, adapter=self.adapter), "direct")
        plain: list[Result] = []
        tuned: list[Result] = []
        fresh = self.lm.copy(rollout_id=FRESH)
        test = self.parts.test
        self.watcher.phase("test, held out", 2 * len(test))
        with dspy.context(lm=fresh):
            for start in range(0, len(test), self.workers):
                if start and not self._time_for(1.0):
                    self.notes.append(f"the time limit left {len(test) - start} of {len(test)} test questions out")
                    break
                group = test[start : start + self.workers]
                plain += self._run("test-plain", plain_program, group)
                tuned += self._run("test-tuned", program, group)
        return plain, tuned

    # -- shared --------------------------------------------------------------------------------------------------

    def _time_for(self, share: float) -> bool:
        """Whether less than a share of the time limit has passed."""
        if self.deadline is None:
            return True
        left = self.deadline - time.monotonic()
        return left > (1 - share) * 60 * (self.plan.minutes or 0)

    def _evaluate(self, phase: str, program: Conductor, questions: Sequence[Gradable]) -> list[Result]:
        self.watcher.phase(phase, len(questions))
        return self._run(phase, program, questions)

    def _run(self, phase: str, program: Conductor, questions: Sequence[Gradable]) -> list[Result]:
        store = JsonLines(self.folder / "results" / f"{phase.replace(', ', '-').replace(' ', '-')}.jsonl")
        return evaluate(
            program,
            questions,
            store=store,
            workers=self.workers,
            session=self.session,
            on_result=self.watcher.result,
        )

    # -- tracking ------------------------------------------------------------------------------------------------

    def _track_trial(self, point: dict[str, int], results: Sequence[Result]) -> None:
        if self.tracker is None:
            return
        child = self.tracker.child(f"budget {point_name(point)}")
        child.params(point)
        child.metrics(_metrics(results))
        child.table(_columns(results), "questions.json")
        child.end()

    def _track_compile(self, algorithm: str, before: Sequence[Result], after: Sequence[Result]) -> None:
        if self.tracker is None:
            return
        child = self.tracker.child(f"prompts {algorithm}")
        child.params({"optimizer": OPTIMIZER, "max_demos": self.plan.max_demos})
        child.metrics({"accuracy_as_written": accuracy(before).value, **_metrics(after)})
        child.end()

    def _track(self, report: TuneReport) -> None:
        if self.tracker is None:
            return
        for row in report.rows:
            name = row.name.split()[0]
            self.tracker.metrics({f"test.{name}.{key}": value for key, value in _metrics(row.results).items()})
            self.tracker.table(_columns(row.results), f"test-{name}.json")
        self.tracker.metrics({"test.gain": report.difference.value})
        path = self.folder / "profile.json"
        report.profile.save(path)
        self.tracker.artifact(path)


def _small(program: AdaptiveCoda, algorithm: str) -> Conductor:
    """The smallest program in which every role of an algorithm takes part, with the prompts of `program`."""
    copy = program.deepcopy()
    copy.budget.load_state(copy.budget.replace(best_of_n=1, n_plans=1).dump_state())
    return with_algorithm(copy, algorithm)


def _with_prompts(program: AdaptiveCoda, compiled: Conductor) -> AdaptiveCoda:
    """`program` with the demonstrations of `compiled`, which is it or its part."""
    changed = program.deepcopy()
    prefix = "" if isinstance(compiled, AdaptiveCoda) else "coda."
    found = {prefix + name: predict.demos for name, predict in compiled.named_predictors()}
    for name, predict in changed.named_predictors():
        predict.demos = found.get(name) or predict.demos
    return changed


def _scores(
    trials: Sequence[Trial],
    chosen: Trial,
    plain: Sequence[Result],
    tuned: Sequence[Result],
    difference: Difference,
) -> dict[str, Any]:
    return {
        "validation": [{**t.point, **t.accuracy._asdict(), "tokens": t.tokens} for t in trials],
        "chosen": point_name(chosen.point),
        "test": {
            "plain": {**accuracy(plain)._asdict(), "tokens": mean_tokens(plain)},
            "tuned": {**accuracy(tuned)._asdict(), "tokens": mean_tokens(tuned)},
            "difference": difference._asdict(),
        },
    }


def _metrics(results: Sequence[Result]) -> dict[str, float | None]:
    score = accuracy(results)
    unanswered = sum(result.answer is None for result in results) / len(results)
    return {
        "accuracy": score.value,
        "accuracy_low": score.low,
        "accuracy_high": score.high,
        "questions": len(results),
        "tokens": mean_tokens(results),
        "seconds": mean_seconds(results),
        "unanswered": unanswered,
        **_failure_rates(results),
    }


def _failure_rates(results: Sequence[Result]) -> dict[str, float]:
    """Cut and failed calls by stage, as a share of the stage's calls."""
    rates = {}
    for stage in sorted({stage for result in results for stage in result.stages}):
        rows = [result.stages[stage] for result in results if stage in result.stages]
        calls = sum(row["calls"] for row in rows)
        rates[f"cut.{stage}"] = sum(row["cut"] for row in rows) / calls
        rates[f"failed.{stage}"] = sum(row["failed"] for row in rows) / calls
    return rates


def _columns(results: Sequence[Result]) -> dict[str, list[Any]]:
    names = ("id", "answer", "gold", "correct", "path", "calls", "tokens", "billed_tokens", "seconds", "error")
    return {name: [getattr(result, name) for result in results] for name in names}


def _check_same(begun: dict[str, Any], now: dict[str, Any], folder: Path) -> None:
    for key, value in now.items():
        if begun.get(key) != value:
            raise UserError(
                f"{folder} holds a tune with another {key}; give --output another folder, or remove this one"
            )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One tune at a time in a folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock", timeout=0)
        lock.acquire()
    except Timeout as error:
        raise UserError(f"{folder} is in use by another run; wait for it, or give --output another folder") from error
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}; give --output another folder") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _own_cache(folder: Path) -> Iterator[None]:
    """DSPy's cache in the run's folder: it outlives a crash, and no other run's replies make this one look cheap."""
    before = dspy.cache
    dspy.configure_cache(disk_cache_dir=str(folder), enable_disk_cache=True, enable_memory_cache=True)
    try:
        yield
    finally:
        dspy.cache = before
