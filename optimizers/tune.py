"""Tune for an engine: prompts and budget together, measure the choice once, write down what was found.

Everything that a question cost is kept in the run's folder. The same command goes on after a crash: finished questions
are read back, and the calls of an unfinished one come from DSPy's cache, which lies in the folder too.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy

from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.engines import engine_name
from coda_dspy.evaluation import Result, locked, own_cache, settings_of
from coda_dspy.evaluation.statistics import accuracy, mean_tokens, paired_difference
from coda_dspy.profile import Profile
from coda_dspy.tracking import Tracker

from .budgets import compared
from .compiling import Compiling
from .folder import TuneFolder
from .held_out import measure_held_out
from .learning import learn
from .log import TuneLog
from .path_order import with_path_order
from .paths import PathComparison
from .plan import TunePlan
from .probed import narrowed
from .prompts import self_taught
from .report import Row, TuneReport, scores_of
from .searching import Found, Searching
from .sharing import Meeting
from .sharing import work as work_at
from .workbench import PROMPTS_END, SEARCH_ENDS, Silent, Watcher, Workbench, small


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
    probe: Mapping[str, Any] | None = None,
    trace_sample: float = 0.0,
    storage: str | None = None,
) -> TuneReport:
    """Tune a program for one engine.

    The best prompt depends on the budget, and the best budget on the prompts (IAPO, arXiv 2508.10030): rounds compile
    prompts at the current budget and search the budget at the current prompts, until one gains less than its noise.

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
        probe: What `coda probe` measured of the engine: it narrows the search, and goes into the profile.
        trace_sample: Share of the questions that are traced in MLflow, 0 to 1.
        storage: Address of a database (`postgresql://…`) where `work` on other machines takes part in the search.

    Raises:
        UserError: Too few questions; too few for the prompt optimizer; another plan was begun in the folder, or is
            running there; the disk is full.
        EngineError: The engine cannot be used at all.
    """
    plan = replace(plan, space=narrowed(plan.space, questions, probe))
    with locked(folder), own_cache(folder / "cache"), dspy.context(lm=lm):
        kept = TuneFolder(folder)
        begun = (time.monotonic() if started is None else started) - kept.spent()
        log = TuneLog(tracker)
        traces = log.traces(trace_sample)
        bench = Workbench(lm, plan, kept, workers, log, watcher or Silent(), adapter, begun, traces)
        return _Tune(bench, questions, data, teacher, storage).report(decoding=dict(decoding or {}), probe=probe)


def work(
    lm: dspy.LM,
    questions: Sequence[Any],
    plan: TunePlan,
    folder: Path,
    storage: str,
    *,
    data: str = "math",
    workers: int = 8,
    watcher: Watcher | None = None,
    adapter: str = "plain",
    teacher: dspy.LM | None = None,
    probe: Mapping[str, Any] | None = None,
) -> int:
    """Measure budgets for a tune that runs elsewhere, until it is done; the arguments are those of that tune.

    Args:
        folder: A folder of this worker's own.

    Returns:
        How many budgets this worker measured.

    Raises:
        UserError: The database cannot be used, or no such tune has begun there for an hour.
    """
    plan = replace(plan, space=narrowed(plan.space, questions, probe))
    with locked(folder), own_cache(folder / "cache"), dspy.context(lm=lm):
        kept = TuneFolder(folder)
        bench = Workbench(lm, plan, kept, workers, TuneLog(None), watcher or Silent(), adapter, time.monotonic())
        same = _Tune(bench, questions, data, teacher)
        return work_at(bench, Meeting(storage, same.described, plan.seed), same.parts.validation)


class _Tune:
    """One tune: rounds of prompts and budgets, the choice among the best, and one look at the held-out questions."""

    def __init__(
        self, bench: Workbench, questions: Sequence[Any], data: str, teacher: dspy.LM | None, storage: str | None = None
    ) -> None:
        from coda_dspy.data import fingerprint, split

        plan = bench.plan
        self.bench, self.plan = bench, plan
        self.parts = split(questions, plan.seed, plan.train, plan.validation, plan.test)
        optimizer = plan.prompt_optimizer()
        optimizer.plan(AdaptiveCoda(plan.budget), self.parts.train, self.parts.validation, teacher)  # refused at once
        warning = self_taught(bench.lm, teacher) if optimizer.reflects else None
        bench.notes += [warning] if warning else []
        sizes = {"train": plan.train, "validation": plan.validation, "test": plan.test}
        self.data = {"name": data, "hash": fingerprint(questions), "seed": plan.seed, **sizes}
        self.described = {
            "engine": str(bench.lm.model),
            "teacher": str(teacher.model) if teacher is not None else None,
            "settings": settings_of(bench.lm),
            "adapter": bench.adapter,
            "data": self.data,
            "plan": plan.describe(),
        }
        bench.folder.begin(self.described)
        bench.log.begin(self.described)
        self.compiling = Compiling(bench, self.parts.train, self.parts.validation, teacher)
        self.meeting = Meeting(storage, self.described, plan.seed) if storage is not None else None
        self.searching = Searching(bench, self.parts.validation, self.meeting)
        self.compared: PathComparison | None = None

    def report(self, **fields: Any) -> TuneReport:
        """The whole tune; `fields` are further ones of the profile."""
        bench = self.bench
        found = self._with_lessons(self._rounds())
        if self.meeting is not None:
            self.meeting.close()
        chosen, finalists = self.searching.choose(found)
        program = found._replace(chosen=chosen).tuned()
        train = bench.evaluate("train, tuned", program, self.parts.train)
        plain, tuned = measure_held_out(bench, program, self.parts.test, self._tokens_each(train))
        difference = paired_difference(plain, tuned)
        scores = scores_of(found.trials, finalists, chosen, train, plain, tuned, difference)
        scores |= {"paths": {"math": self.compared.describe()}} if self.compared is not None else {}
        scores |= {"optimizer": self.plan.optimizer, "prompts": self.compiling.records}
        program.learned.load_state(found.program.learned.dump_state())
        profile = Profile.of(program, engine_name(bench.lm), scores=scores, data=self.data, **fields)
        rows = [Row("plain engine", plain), Row("tuned conductor", tuned)]
        trained = accuracy(train) if train else None
        report = TuneReport(profile, rows, difference, trained, chosen.accuracy, found.trials, bench.notes)
        profile.save(bench.folder.path / "profile.json")
        bench.log.report(report, bench.folder.path / "profile.json")
        return report

    def _rounds(self) -> Found:
        """Prompts at the current budget, the budget at the current prompts, until a round gains less than its noise."""
        program = self.compiling.of_roles(AdaptiveCoda(self.plan.budget, adapter=self.bench.adapter))
        program, self.compared = with_path_order(self.bench, program, self.parts.validation)
        found = self.searching.round(1, program, self.compiling.asked)
        for number in range(2, self.plan.rounds + 1):
            again = self._round(number, found)
            if again is None:
                break
            progress = compared(found.chosen, again.chosen, self.plan.prefer)
            if progress.taken:
                found = again
            if progress.within_noise:
                self.bench.notes.append(f"round {number} {progress}")
                break
        return found

    def _round(self, number: int, found: Found) -> Found | None:
        """One more round; `None` where the prompts stay as they are."""
        asks_once = found.tuned().budget == small(found.program, "direct").budget
        if self.plan.optimizer == "none" or (asks_once and "direct" in self.plan.roles):
            return None  # the direct role has been compiled on its own
        if self.bench.seconds_to(PROMPTS_END) <= 0:
            return None
        tuned = self.compiling.at_budget(f"round {number}", found.tuned(), SEARCH_ENDS)
        if tuned is None:
            return None
        base = found.program.budget
        tuned.budget.load_state(base.dump_state())
        return self.searching.round(number, tuned, self.compiling.asked)

    def _with_lessons(self, found: Found) -> Found:
        """The program with what can be learned from everything that was measured on the validation questions."""
        program = found.program.deepcopy()
        program.learned.load_state(learn(self.parts.validation, found.records, self.compared).dump_state())
        return found._replace(program=program)

    def _tokens_each(self, train: Sequence[Result]) -> float:
        """Tokens that a question takes the plain engine and the tuned program together."""
        alone = mean_tokens(self.compiling.asked) or 0.0
        return alone + (mean_tokens(train) or alone if train else alone)
