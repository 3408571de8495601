"""Tune for an engine: compile the prompts, search the budget, measure the choice once, write down what was found.

Everything that a question cost is kept in the run's folder. The same command goes on after a crash: finished questions
are read back, and the calls of an unfinished one come from DSPy's cache, which lies in the folder too.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import dspy

from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.engines import engine_name
from coda_dspy.evaluation import Gradable, Result, evaluate, locked, new_session, own_cache, settings_of
from coda_dspy.evaluation.statistics import mean_tokens, paired_difference
from coda_dspy.profile import Profile, with_algorithm
from coda_dspy.program import Conductor
from coda_dspy.sandbox import SandboxUnavailable
from coda_dspy.tracking import Tracker

from .budgets import BudgetSearch, Trial, budget_at, pick_cheapest, point_name
from .folder import TuneFolder
from .log import TuneLog
from .paths import PathComparison
from .plan import TunePlan
from .prompts import Compiled, OptimizerFailed, compile_once, prompts_of, put_prompts, self_taught
from .report import Row, TuneReport, scores_of

FRESH = 7919  # rollout base of the held-out measurement: samples that no choice was made on

# Shares of a time limit after which the prompt optimizer, compiling and search, and then the test start nothing new.
PROMPTS_END, SEARCH_ENDS, TEST_ENDS = 0.4, 0.65, 1.0
FEWEST = 4
_CODING = 3  # coding attempts where programs are better: the fewest in which a majority means something
TYPICAL_SHARE = 0.5  # of the calls of the dearest budget that a question takes: those that agree leave early


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
    workers: int = 8,
    tracker: Tracker | None = None,
    watcher: Watcher | None = None,
    started: float | None = None,
    adapter: str = "plain",
    decoding: Mapping[str, Any] | None = None,
    teacher: dspy.LM | None = None,
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
        teacher: The model that proposes instructions, for optimizers that reflect; by default the engine itself.

    Raises:
        UserError: Too few questions; too few for the prompt optimizer; another plan was begun in the folder, or is
            running there; the disk is full.
        EngineError: The engine cannot be used at all.
    """
    with locked(folder), own_cache(folder / "cache"):
        log = TuneLog(tracker)
        run = _Tune(lm, questions, plan, TuneFolder(folder), data, workers, log, watcher or _Silent(), adapter, teacher)
        run.begun = (time.monotonic() if started is None else started) - run.folder.spent()
        with dspy.context(lm=lm):
            return run.report(dict(decoding or {}))


class _Tune:
    """One tune: its parts share the folder, the engine and the clock."""

    begun = 0.0  # `time.monotonic()` when the run began, earlier processes' time included
    asked: Sequence[Result] = ()  # the first results on the validation questions: how many tokens a call takes
    paths: Mapping[str, Any] = MappingProxyType({})  # what was found out about the paths, for the profile's scores
    generated = 0  # tokens of this process, and the seconds in which it generated them
    busy = 0.0

    def __init__(
        self,
        lm: dspy.LM,
        questions: Sequence[Any],
        plan: TunePlan,
        folder: TuneFolder,
        data: str,
        workers: int,
        log: TuneLog,
        watcher: Watcher,
        adapter: str,
        teacher: dspy.LM | None,
    ) -> None:
        from coda_dspy.data import fingerprint, split

        self.lm, self.plan, self.folder, self.workers = lm, plan, folder, workers
        self.log, self.watcher, self.adapter, self.teacher = log, watcher, adapter, teacher
        self.parts = split(questions, plan.seed, plan.train, plan.validation, plan.test)
        self.session = new_session()
        optimizer = plan.prompt_optimizer()
        optimizer.plan(AdaptiveCoda(plan.budget), self.parts.train, self.parts.validation, teacher)  # refused at once
        warning = self_taught(lm, teacher) if optimizer.reflects else None
        self.notes: list[str] = [warning] if warning else []
        self.prompts: dict[str, Any] = {}  # what the optimizer did for each algorithm, for the profile's scores
        sizes = {"train": plan.train, "validation": plan.validation, "test": plan.test}
        self.data = {"name": data, "hash": fingerprint(questions), "seed": plan.seed, **sizes}
        settings = settings_of(lm)
        described = {
            "engine": str(lm.model),
            "teacher": str(teacher.model) if teacher is not None else None,
            "settings": settings,
            "adapter": adapter,
            "data": self.data,
            "plan": plan.describe(),
        }
        folder.begin(described)
        log.begin(described)

    def report(self, decoding: dict[str, Any]) -> TuneReport:
        program = self._with_path_order(self._compiled())
        trials = self._search(program)
        chosen = pick_cheapest(trials)
        program = self._at(program, chosen.point)
        plain, tuned = self._test(program, chosen)
        difference = paired_difference(plain, tuned)
        scores = scores_of(trials, chosen, plain, tuned, difference) | dict(self.paths)
        scores |= {"optimizer": self.plan.optimizer, "prompts": self.prompts}
        profile = Profile.of(program, engine_name(self.lm), decoding=decoding, scores=scores, data=self.data)
        rows = [Row("plain engine", plain), Row("tuned conductor", tuned)]
        report = TuneReport(profile, rows, difference, trials, self.notes)
        profile.save(self.folder.path / "profile.json")
        self.log.report(report, self.folder.path / "profile.json")
        return report

    # -- prompts -------------------------------------------------------------------------------------------------

    def _compiled(self) -> AdaptiveCoda:
        """Compiled prompts for each algorithm of the plan, kept where they help on the validation questions."""
        program = AdaptiveCoda(self.plan.budget, adapter=self.adapter)
        for algorithm in self.plan.roles:
            program = self._with_compiled(program, algorithm)
        return program

    def _with_compiled(self, program: AdaptiveCoda, algorithm: str) -> AdaptiveCoda:
        as_written = _small(program, algorithm)
        # Whatever it takes: the figure that everything else is compared with, and the speed of the engine.
        before = self._evaluate(f"{algorithm}, prompts as written", as_written, self.parts.validation, inf)
        self.asked = self.asked or before
        if self.plan.optimizer == "none":
            return program
        # Side by side first: an optimizer may ask one question after the other, and then finds them in the cache.
        trained = self._evaluate(f"{algorithm}, training questions", as_written, self.parts.train)
        if len(trained) < len(self.parts.train):
            self.notes.append(f"{algorithm}: the time limit left no time to compile the prompts")
            return program
        compiled = self._optimized(as_written, algorithm, before)
        if compiled is None:
            return program
        self.prompts[algorithm] = {**compiled.record, "kept": False}
        if _key(compiled.program) == _key(as_written):
            why = "found nothing better" if any(r.correct for r in trained) else "had no right answer to learn from"
            self.notes.append(f"{algorithm}: {self.plan.optimizer} {why}; the prompts stay as written")
            return program
        after = self._evaluate(f"{algorithm}, compiled prompts", compiled.program, self.parts.validation)
        if len(after) < len(before):
            self.notes.append(f"{algorithm}: the time limit left no time to try the compiled prompts")
            return program
        gain = paired_difference(before, after)
        kept = gain.value > 0
        self.prompts[algorithm] |= {"kept": kept, "gain": gain._asdict()}
        self.log.compiling(algorithm, compiled.record, before, after)
        if not kept:
            self.notes.append(
                f"{algorithm}: {self.plan.optimizer} does not help on the validation questions ({gain}); left out"
            )
            return program
        return _with_prompts(program, compiled.program)

    def _optimized(self, as_written: Conductor, algorithm: str, before: Sequence[Result]) -> Compiled | None:
        """What the optimizer makes of an algorithm's prompts; `None` where it broke off."""
        optimizer = self.plan.prompt_optimizer(tokens_each=mean_tokens(before), workers=self.workers)
        planned = optimizer.plan(as_written, self.parts.train, self.parts.validation, self.teacher)
        self.watcher.phase(f"{algorithm}, {optimizer.name} ({planned})", planned.questions)
        # The training questions have just been answered; an optimizer that asks no others takes no time.
        known = planned.questions <= len(self.parts.train)
        ends = PROMPTS_END * (self.plan.roles.index(algorithm) + 1) / len(self.plan.roles)
        started = time.monotonic()
        try:
            return compile_once(
                self.folder.path / "prompts" / f"{algorithm}-{_key(as_written)}.json",
                optimizer,
                as_written,
                self.parts.train,
                self.parts.validation,
                teacher=self.teacher,
                seed=self.plan.seed,
                keep_going=lambda: known or self._seconds_to(ends) > 0,
                on_question=lambda result: self._on_result(replace(result, session=self.session)),
            )
        except OptimizerFailed as error:
            self.notes.append(f"{algorithm}: {error}; the prompts stay as written")
            return None
        finally:
            self.busy += time.monotonic() - started

    # -- paths ---------------------------------------------------------------------------------------------------

    def _with_path_order(self, program: AdaptiveCoda) -> AdaptiveCoda:
        """Programs first, where maths questions show that they are better; else the paper's order."""
        questions = [question for question in self.parts.validation if question.kind == "math"]
        if not questions:
            return program
        try:
            direct = self._evaluate("path direct", _small(program, "direct"), questions)
            code = self._evaluate("path code", _small(program, "code"), questions)
        except SandboxUnavailable as error:
            self.notes.append(f"programs cannot run here, so the paths were not compared: {error}")
            return program
        if min(len(direct), len(code)) < len(questions):
            self.notes.append("the time limit left no time to compare the paths; the paper's order stays")
            return program
        compared = PathComparison(questions, direct, code)
        self.paths = {"paths": {"math": compared.describe()}}
        self.log.paths(compared)
        if compared.better == "direct":
            return program
        coding = max(program.budget.num_attempts_coding, _CODING)
        changed = program.deepcopy()
        changed.budget.load_state(program.budget.replace(first_path="code", num_attempts_coding=coding).dump_state())
        return changed

    # -- budget --------------------------------------------------------------------------------------------------

    def _search(self, program: AdaptiveCoda) -> list[Trial]:
        questions = self.parts.validation[: self._fitting_validation()]
        search = BudgetSearch(self.plan.space, self.folder.path / "study.log", self.plan.seed)
        seen: list[Trial] = []

        def measure(point: dict[str, int]) -> list[Result] | None:
            # The first budget is measured whatever it takes: there has to be one to choose.
            ends = SEARCH_ENDS if seen else inf
            results = self._evaluate(f"budget {point_name(point)}", self._at(program, point), questions, ends)
            if len(results) < len(questions):
                return None
            self.log.trial(point, results)
            return results

        def note_best(trial: Trial) -> None:
            seen.append(trial)
            best = pick_cheapest(seen)
            self.watcher.best(f"{point_name(best.point)}: {best.accuracy.value:.0%}, {best.tokens:.0f} tokens")

        def keep_going() -> bool:
            # Once the held-out questions are being asked, the choice is made.
            return "test" not in self.folder.sizes() and self._seconds_to(SEARCH_ENDS) > 0

        trials = search.run(measure, self.plan.max_trials, keep_going, note_best)
        planned = min(self.plan.max_trials, len(self.plan.space.points()))
        if len(trials) < planned:
            self.notes.append(f"{planned - len(trials)} of {planned} budgets were left unmeasured for lack of time")
        return trials

    def _at(self, program: AdaptiveCoda, point: dict[str, int]) -> AdaptiveCoda:
        changed = program.deepcopy()
        changed.budget.load_state(budget_at(program.budget, point).dump_state())
        return changed

    def _fitting_validation(self) -> int:
        """How many validation questions the search can afford: each pays for the samples of the dearest budget."""
        space = self.plan.space
        calls = max(space.num_attempts_baseline) + max(space.best_of_n) * (2 * max(space.n_plans) + 1)
        tokens = mean_tokens(self.asked) if self.asked else None
        each = TYPICAL_SHARE * calls * tokens if tokens else None
        return self._fitting("validation", self.plan.validation, each, SEARCH_ENDS)

    # -- test ----------------------------------------------------------------------------------------------------

    def _test(self, program: AdaptiveCoda, chosen: Trial) -> tuple[list[Result], list[Result]]:
        """Plain engine and tuned conductor on the held-out questions, on fresh samples.

        In small groups that both answer, so that a time limit leaves both with the same questions.
        """
        plain_program = _small(AdaptiveCoda(self.plan.budget, adapter=self.adapter), "direct")
        plain: list[Result] = []
        tuned: list[Result] = []
        test = self.parts.test[: self._fitting("test", self.plan.test, 1.5 * chosen.tokens, TEST_ENDS)]
        self.watcher.phase("test, held out", 2 * len(test))
        with dspy.context(lm=self.lm.copy(rollout_id=FRESH)):
            for start in range(0, len(test), self.workers):
                group = test[start : start + self.workers]
                paid_for = all(self._is_stored("test", asked, group) for asked in (plain_program, program))
                if start and not paid_for and self._seconds_to(TEST_ENDS) <= 0:
                    self.notes.append(f"the time limit left {len(test) - start} of {len(test)} test questions out")
                    break
                plain += self._run("test", plain_program, group)
                tuned += self._run("test", program, group)
        if _key(plain_program) == _key(program):
            self.notes.append("the plain engine was chosen: both rows are one and the same measurement")
        return plain, tuned

    # -- shared --------------------------------------------------------------------------------------------------

    def _seconds_to(self, share: float) -> float:
        """Seconds until a share of the time limit has passed."""
        if self.plan.minutes is None:
            return inf
        return share * 60 * self.plan.minutes - (time.monotonic() - self.begun)

    def _fitting(self, part: str, most: int, tokens_each: float | None, share: float) -> int:
        """How many questions fit into the time until `share`, at the speed so far; once decided, it stays so."""
        if self.plan.minutes is not None and tokens_each and self.generated:
            fit = int(self._seconds_to(share) * self.generated / self.busy / tokens_each)
            self.folder.keep_size(part, max(min(most, fit), min(most, FEWEST)))
        elif self.plan.minutes is not None:
            self.folder.keep_size(part, most)
        size = self.folder.sizes().get(part, most)
        if size < most:
            self.notes.append(f"the time limit leaves {size} of {most} {part} questions")
        return size

    def _evaluate(
        self, phase: str, program: Conductor, questions: Sequence[Gradable], ends: float = SEARCH_ENDS
    ) -> list[Result]:
        self.watcher.phase(phase, len(questions))
        return self._run(phase, program, questions, lambda: self._seconds_to(ends) > 0)

    def _run(
        self,
        phase: str,
        program: Conductor,
        questions: Sequence[Gradable],
        keep_going: Callable[[], bool] = lambda: True,
    ) -> list[Result]:
        started = time.monotonic()
        try:
            return evaluate(
                program,
                questions,
                store=self.folder.store(f"{phase} {_key(program)}"),
                workers=self.workers,
                session=self.session,
                on_result=self._on_result,
                keep_going=keep_going,
            )
        finally:
            self.busy += time.monotonic() - started

    def _is_stored(self, phase: str, program: Conductor, questions: Sequence[Gradable]) -> bool:
        stored = {row["id"] for row in self.folder.store(f"{phase} {_key(program)}").read()}
        return all(question.id in stored for question in questions)

    def _on_result(self, result: Result) -> None:
        if result.session == self.session:
            self.generated += result.billed_tokens or 0
            self.folder.keep_spent(time.monotonic() - self.begun)
            self.watcher.result(result)
        else:
            self.watcher.result(replace(result, billed_tokens=0))  # generated, and paid for, by another process


def _key(program: Conductor) -> str:
    """Names a program by its prompts and its budget: results of another one must never be taken for its own."""
    content = json.dumps([type(program).__name__, program.dump_state()], sort_keys=True, default=str)
    return hashlib.blake2b(content.encode(), digest_size=4).hexdigest()


def _small(program: AdaptiveCoda, algorithm: str) -> Conductor:
    """The smallest program in which every role of an algorithm takes part, with the prompts of `program`."""
    copy = program.deepcopy()
    copy.budget.load_state(copy.budget.replace(best_of_n=1, n_plans=1).dump_state())
    return with_algorithm(copy, algorithm)


def _with_prompts(program: AdaptiveCoda, compiled: Conductor) -> AdaptiveCoda:
    """`program` with the prompts of `compiled`, which is it or its part."""
    changed = program.deepcopy()
    prefix = "" if isinstance(compiled, AdaptiveCoda) else "coda."
    put_prompts(changed, {prefix + name: prompt for name, prompt in prompts_of(compiled).items()})
    return changed
