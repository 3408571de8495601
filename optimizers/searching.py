"""The budget rounds of a tune: search on the validation questions, and measure the finalists again."""

from collections.abc import Sequence
from typing import NamedTuple

import dspy

from coda_dspy.budget import Budget
from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.evaluation import Gradable, PoolRecord, Result
from coda_dspy.evaluation.statistics import mean_tokens

from .budgets import BudgetSearch, Point, Trial, budget_at, canonical, finalists, measured, pick, point_name
from .budgets.study import Study
from .measuring import Measuring, at, most_candidates
from .prompts.counting import most_calls_at
from .sharing import Meeting
from .workbench import CHOICE_ENDS, SEARCH_ENDS, Workbench, key_of

CHOICE = 104_729  # rollout base of the finalists: samples on which the search did not choose
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


class Searching:
    """Searches the budget of a program.

    Args:
        bench: What answers questions.
        validation: The questions to choose on.
        meeting: Where workers on other machines are met, if there are any.
    """

    def __init__(self, bench: Workbench, validation: Sequence[Gradable], meeting: Meeting | None = None) -> None:
        self._bench, self._validation, self._meeting = bench, validation, meeting

    def round(self, number: int, program: AdaptiveCoda, asked: Sequence[Result]) -> Found:
        """Search at the present prompts.

        Args:
            number: Which round it is, from 1.
            program: With the prompts, at the base budget.
            asked: Results that tell how many tokens a call takes.
        """
        bench, plan = self._bench, self._bench.plan
        questions = self._validation[: self._fitting(program, asked)]
        paper = plan.space.paper(program.budget)
        in_time = self._fits(f"paper {number}", budget_at(program.budget, paper), asked, len(questions))
        search = BudgetSearch(plan.space, self._study(number, program), program.budget, paper=in_time)
        if self._meeting is not None:
            self._meeting.open(number, program, len(questions), in_time)
        measuring = Measuring(bench, f"budget {number}", program, questions)
        trials = search.run(
            measuring.measure,
            len(questions),
            plan.max_trials,
            prices=plan.prices,
            keep_going=measuring.keep_going,
            on_rung=measuring.rung,
            on_trial=measuring.ended,
            candidates=measuring.candidates,
        )
        chosen = pick(trials, plan.prefer)
        bench.log.front(trials, chosen)
        bench.log.importances(search.optuna_study)
        planned = search.most(plan.max_trials)
        if len(trials) < planned and not measuring.keep_going():
            bench.notes.append(f"{planned - len(trials)} of {planned} budgets were left unmeasured for lack of time")
        if point_name(paper) not in {point_name(trial.point) for trial in trials}:
            why = f"{plan.max_trials} trials" if in_time and len(trials) == planned else "the time limit"
            bench.notes.append(f"the paper's settings were not measured: {why} left no room for them")
        return Found(program, trials, chosen, most_candidates(trials))

    def _study(self, number: int, program: AdaptiveCoda) -> Study:
        """The trials of a round with these prompts, and of no others."""
        if self._meeting is not None:
            return self._meeting.round(number, program)
        return Study(self._bench.folder.path / f"study-{number}.log", key_of(program), self._bench.plan.seed)

    def _fitting(self, program: AdaptiveCoda, asked: Sequence[Result]) -> int:
        """How many validation questions the search can afford: each pays for the samples of the dearest budget."""
        plan = self._bench.plan
        each = self._tokens_each(plan.space.dearest(program.budget), asked)
        return self._bench.fitting("validation", plan.validation, each, SEARCH_ENDS)

    def _fits(self, name: str, budget: Budget, asked: Sequence[Result], questions: int) -> bool:
        """Whether there is time to ask a budget so many questions; once decided, it stays so."""
        folder = self._bench.folder
        if name not in folder.sizes():
            fit = self._bench.affordable(self._tokens_each(budget, asked), SEARCH_ENDS)
            folder.keep_size(name, int(fit is None or fit >= questions))
        return bool(folder.sizes()[name])

    def _tokens_each(self, budget: Budget, asked: Sequence[Result]) -> float | None:
        """Tokens that a question takes at a budget, as far as that can be told beforehand."""
        tokens = mean_tokens(asked) if asked else None
        # Judges compare everything with everything only where no attempt can be trusted.
        return TYPICAL_SHARE * most_calls_at(budget.replace(verifier="majority")) * tokens if tokens else None

    def choose(self, found: Found) -> tuple[Trial, list[Trial]]:
        """The finalists again, on fresh samples: the best of many has been lucky, and its figure flatters it.

        Beside them the chosen budget that uses what was learned, where the program holds something of it.

        Returns:
            The choice, and the finalists' fresh figures; none where there was nothing to choose, or no time.
        """
        bench, plan = self._bench, self._bench.plan
        near = [trial.point for trial in finalists(found.trials, plan.finalists, plan.prefer)]
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


def with_lessons(point: Point, program: AdaptiveCoda) -> list[Point]:
    """A budget that uses what the program has learned: when to stop, what votes weigh, and both."""
    known = program.learned.root.values()
    variants: list[Point] = []
    if any(lessons.answers is not None for lessons in known):
        variants.append({"early_exit": "learned"})
    if any(lessons.votes or lessons.corroboration for lessons in known):
        variants.append({"verifier": "weighted"})
    if len(variants) == 2:
        variants.append({**variants[0], **variants[1]})
    points = [canonical({**point, **variant}, program.budget) for variant in variants]
    return [other for other in points if other != point]
