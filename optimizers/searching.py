"""The budget rounds of a tune: search on the validation questions, and measure the finalists again."""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import dspy

from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.evaluation import Gradable, PoolRecord, Result
from coda_dspy.evaluation.statistics import mean_tokens

from .budgets import BudgetSearch, Point, Trial, budget_at, canonical, finalists, measured, pick, point_name
from .budgets.study import Study
from .prompts.counting import most_calls_at
from .workbench import CHOICE_ENDS, SEARCH_ENDS, Workbench, at_budget

CHOICE = 104_729  # rollout base of the finalists: samples on which the search did not choose
_LESSONS = {"early_exit": "learned", "verifier": "weighted", "first_path": "learned"}  # what uses what was learned
TYPICAL_SHARE = 0.5  # of the calls of the dearest budget that a question takes: those that agree leave early


class Found(NamedTuple):
    """What a round came to.

    Args:
        program: With the round's prompts, at the base budget.
        trials: The budgets that were measured.
        chosen: The one to take.
        records: All candidates of the budget with the most of them, of those that were measured whole.
    """

    program: AdaptiveCoda
    trials: list[Trial]
    chosen: Trial
    records: Sequence[PoolRecord] = ()

    def tuned(self) -> AdaptiveCoda:
        """The program at the chosen budget."""
        return at(self.program, self.chosen.point)


def at(program: AdaptiveCoda, point: Point) -> AdaptiveCoda:
    """A copy at the budget of a point; without what was learned where that budget does not use it."""
    copy = at_budget(program, **budget_at(program.budget, point).dump_state())
    if not any(getattr(copy.budget, field) == value for field, value in _LESSONS.items()):
        copy.learned.load_state({})
    return copy


class Searching:
    """Searches the budget of a program.

    Args:
        bench: What answers questions.
        validation: The questions to choose on.
    """

    def __init__(self, bench: Workbench, validation: Sequence[Gradable]) -> None:
        self._bench, self._validation = bench, validation

    def round(self, number: int, program: AdaptiveCoda, asked: Sequence[Result]) -> Found:
        """Search at the present prompts.

        Args:
            number: Which round it is, from 1.
            program: With the prompts, at the base budget.
            asked: Results that tell how many tokens a call takes.
        """
        bench, plan = self._bench, self._bench.plan
        questions = self._validation[: self._fitting(program, asked)]
        search = BudgetSearch(plan.space, self._study(number), program.budget)
        measuring = Measuring(bench, f"budget {number}", program, questions)
        trials = search.run(
            measuring.measure,
            len(questions),
            plan.max_trials,
            prices=plan.prices,
            keep_going=measuring.keep_going,
            on_rung=measuring.rung,
            on_trial=measuring.ended,
        )
        chosen = pick(trials, plan.prefer)
        bench.log.front(trials, chosen)
        bench.log.importances(search.optuna_study)
        planned = search.most(plan.max_trials)
        if len(trials) < planned:
            bench.notes.append(f"{planned - len(trials)} of {planned} budgets were left unmeasured for lack of time")
        return Found(program, trials, chosen, measuring.records(trials))

    def _study(self, number: int) -> Study:
        return Study(self._bench.folder.path / f"study-{number}.log", seed=self._bench.plan.seed)

    def _fitting(self, program: AdaptiveCoda, asked: Sequence[Result]) -> int:
        """How many validation questions the search can afford: each pays for the samples of the dearest budget."""
        plan = self._bench.plan
        points = plan.space.points(program.budget)
        calls = most_calls_at(budget_at(program.budget, points[-1])) if points else None
        tokens = mean_tokens(asked) if asked else None
        each = TYPICAL_SHARE * calls * tokens if calls and tokens else None
        return self._bench.fitting("validation", plan.validation, each, SEARCH_ENDS)

    def choose(self, found: Found) -> tuple[Trial, list[Trial]]:
        """The finalists again, on fresh samples: the best of many has been lucky, and its figure flatters it.

        Beside them the chosen budget that uses what was learned, where the program holds something of it.

        Returns:
            The choice, and the finalists' fresh figures; none where there was nothing to choose, or no time.
        """
        bench, plan = self._bench, self._bench.plan
        near = [trial.point for trial in finalists(found.trials, plan.finalists)]
        if plan.finalists > 1:
            near += with_lessons(found.chosen.point, found.program)
        if len(near) < 2:
            return found.chosen, []
        questions = self._validation[: len(found.chosen.right)]
        fresh = []
        with dspy.context(lm=bench.lm.copy(rollout_id=CHOICE)):
            for point in near:
                results = bench.evaluate(
                    f"choice {point_name(point)}", at(found.program, point), questions, CHOICE_ENDS
                )
                if len(results) < len(questions):
                    bench.notes.append("the time limit left no time to measure the finalists again on fresh samples")
                    return found.chosen, []
                fresh.append(measured(point, results, plan.prices))
        return pick(fresh, plan.prefer), fresh


class Measuring:
    """Measures the budgets that a search asks for, and tells of them.

    Args:
        bench: What answers questions.
        phase: What the measurements are called.
        program: With the prompts, at the base budget.
        questions: In the order that all trials share.
    """

    def __init__(self, bench: Workbench, phase: str, program: AdaptiveCoda, questions: Sequence[Gradable]) -> None:
        self._bench, self._phase, self._program, self._questions = bench, phase, program, questions
        self._results: dict[str, list[Result]] = {}
        self._seen: list[Trial] = []

    def measure(self, point: Point, part: slice) -> list[Result] | None:
        """Ask a budget a part of the questions; `None` where the time did not suffice."""
        name, questions = point_name(point), self._questions[part]
        # The first budget is measured whatever it takes: there has to be one to choose.
        ends = SEARCH_ENDS if self._seen else inf
        phase = f"{self._phase} {name}"
        pool = self._bench.folder.pool(phase)
        results = self._bench.evaluate(phase, at(self._program, point), questions, ends, pool)
        if len(results) < len(questions):
            return None
        self._results.setdefault(name, []).extend(results)
        return results

    def rung(self, trial: Trial) -> None:
        """A trial has come this far."""
        self._bench.log.rung(trial.point, len(trial.right), trial.accuracy.value, trial.cost)

    def ended(self, trial: Trial) -> None:
        """A trial has ended, here or in another process."""
        self._seen.append(trial)
        results = self._results.pop(point_name(trial.point), None)
        if results is not None:
            self._bench.log.trial(trial.point, results, "FINISHED" if trial.whole else "KILLED")
        best = pick(self._seen, self._bench.plan.prefer)
        self._bench.watcher.best(f"{point_name(best.point)}: {best.accuracy.value:.0%}, {best.cost:.0f} each")

    def records(self, trials: Sequence[Trial]) -> list[PoolRecord]:
        """The candidates of the trial that has most of them."""
        found: list[PoolRecord] = []
        for trial in trials:
            # In one order, whatever the order in which they ended: what is learned of them must not depend on it.
            pool = self._bench.folder.pool(f"{self._phase} {point_name(trial.point)}")
            records = sorted(pool.read(), key=lambda record: record.id)
            if trial.whole and _candidates(records) > _candidates(found):
                found = records
        return found

    def keep_going(self) -> bool:
        """Whether another trial may begin: once the held-out questions are being asked, the choice is made."""
        return "test" not in self._bench.folder.sizes() and self._bench.seconds_to(SEARCH_ENDS) > 0


def _candidates(records: Sequence[PoolRecord]) -> int:
    return sum(len(record.candidates) for record in records)


def with_lessons(point: Point, program: AdaptiveCoda) -> list[Point]:
    """A budget that uses what the program has learned: when to stop, what votes weigh, and both."""
    known = program.learned.root.values()
    variants: list[Point] = []
    if any(lessons.answers is not None for lessons in known):
        variants.append({"early_exit": "learned"})
    if any(lessons.votes for lessons in known):
        variants.append({"verifier": "weighted"})
    if len(variants) == 2:
        variants.append({**variants[0], **variants[1]})
    points = [canonical({**point, **variant}, program.budget) for variant in variants]
    return [other for other in points if other != point]
