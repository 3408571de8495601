"""Measure the budgets that a search asks for."""

from collections.abc import Sequence
from math import inf
from typing import Any

from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.evaluation import Gradable, PoolRecord, Result

from .budgets import Point, Trial, budget_at, pick, point_name
from .candidates import outlines
from .workbench import SEARCH_ENDS, Workbench, at_budget

# What uses what was learned.
_LESSONS = {"early_exit": ("learned",), "verifier": ("weighted", "agreement"), "first_path": ("learned",)}


def at(program: AdaptiveCoda, point: Point) -> AdaptiveCoda:
    """A copy at the budget of a point; without what was learned where that budget does not use it."""
    copy = at_budget(program, **budget_at(program.budget, point).dump_state())
    if not any(getattr(copy.budget, field) in values for field, values in _LESSONS.items()):
        copy.learned.load_state({})
    return copy


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
        self.own = 0  # trials that were measured here

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
        self._bench.log.rung(self._phase, trial.point, len(trial.right), trial.accuracy.value, trial.cost)

    def ended(self, trial: Trial) -> None:
        """A trial has ended, here or in another process."""
        self._seen.append(trial)
        results = self._results.pop(point_name(trial.point), None)
        if results is not None:
            self.own += 1
            self._bench.log.trial(self._phase, trial.point, results, "FINISHED" if trial.whole else "KILLED")
        if any(seen.whole for seen in self._seen):  # another process may have told of those that it stopped first
            best = pick(self._seen, self._bench.plan.prefer)
            self._bench.watcher.best(f"{point_name(best.point)}: {best.accuracy.value:.0%}, {best.cost:.6g} each")

    def candidates(self, point: Point) -> list[dict[str, Any]]:
        """What lessons need of the candidates of a budget that was measured here, by question."""
        records = self._bench.folder.pool(f"{self._phase} {point_name(point)}").read()
        # In one order, whatever the order in which they ended: what is learned of them must not depend on it.
        return outlines(sorted(records, key=lambda record: record.id))

    def keep_going(self) -> bool:
        """Whether another trial may begin: once the held-out questions are being asked, the choice is made."""
        return "test" not in self._bench.folder.sizes() and self._bench.seconds_to(SEARCH_ENDS) > 0


def most_candidates(trials: Sequence[Trial]) -> list[PoolRecord]:
    """The candidates of the whole trial that has most of them, whichever process measured it."""

    def number(trial: Trial) -> int:
        return sum(len(row["candidates"]) for row in trial.candidates)

    richest = max((t for t in trials if t.whole), key=lambda t: (number(t), point_name(t.point)))
    return [PoolRecord.from_json(row) for row in richest.candidates]
