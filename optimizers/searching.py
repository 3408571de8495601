"""The budget rounds of a tune: search on the validation questions, and measure the finalists again."""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import dspy

from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.evaluation import Gradable, Result
from coda_dspy.evaluation.statistics import mean_tokens

from .budgets import BudgetSearch, Point, Trial, budget_at, finalists, measured, pick, point_name
from .budgets.study import Study
from .prompts.counting import most_calls_at
from .workbench import CHOICE_ENDS, SEARCH_ENDS, Workbench, at_budget

CHOICE = 104_729  # rollout base of the finalists: samples on which the search did not choose
TYPICAL_SHARE = 0.5  # of the calls of the dearest budget that a question takes: those that agree leave early


class Found(NamedTuple):
    """What a round came to.

    Args:
        program: With the round's prompts, at the base budget.
        trials: The budgets that were measured.
        chosen: The one to take.
    """

    program: AdaptiveCoda
    trials: list[Trial]
    chosen: Trial

    def tuned(self) -> AdaptiveCoda:
        """The program at the chosen budget."""
        return at(self.program, self.chosen.point)


def at(program: AdaptiveCoda, point: Point) -> AdaptiveCoda:
    """A copy at the budget of a point."""
    return at_budget(program, **budget_at(program.budget, point).dump_state())


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
            on_trial=measuring.ended,
        )
        planned = search.most(plan.max_trials)
        if len(trials) < planned:
            bench.notes.append(f"{planned - len(trials)} of {planned} budgets were left unmeasured for lack of time")
        return Found(program, trials, pick(trials, plan.prefer))

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

        Returns:
            The choice, and the finalists' fresh figures; none where there was nothing to choose, or no time.
        """
        bench, plan = self._bench, self._bench.plan
        near = finalists(found.trials, plan.finalists)
        if len(near) < 2:
            return found.chosen, []
        questions = self._validation[: len(found.chosen.right)]
        fresh = []
        with dspy.context(lm=bench.lm.copy(rollout_id=CHOICE)):
            for trial in near:
                program = at(found.program, trial.point)
                results = bench.evaluate(f"choice {point_name(trial.point)}", program, questions, CHOICE_ENDS)
                if len(results) < len(questions):
                    bench.notes.append("the time limit left no time to measure the finalists again on fresh samples")
                    return found.chosen, []
                fresh.append(measured(trial.point, results, plan.prices))
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
        results = self._bench.evaluate(f"{self._phase} {name}", at(self._program, point), questions, ends)
        if len(results) < len(questions):
            return None
        self._results.setdefault(name, []).extend(results)
        return results

    def ended(self, trial: Trial) -> None:
        """A trial has ended, here or in another process."""
        self._seen.append(trial)
        results = self._results.pop(point_name(trial.point), None)
        if results is not None:
            self._bench.log.trial(trial.point, results)
        best = pick(self._seen, self._bench.plan.prefer)
        self._bench.watcher.best(f"{point_name(best.point)}: {best.accuracy.value:.0%}, {best.cost:.0f} each")

    def keep_going(self) -> bool:
        """Whether another trial may begin: once the held-out questions are being asked, the choice is made."""
        return "test" not in self._bench.folder.sizes() and self._bench.seconds_to(SEARCH_ENDS) > 0
