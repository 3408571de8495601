"""The most that a tune asks, phase by phase: what is told before it starts."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import dspy

from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.evaluation import Gradable
from coda_dspy.program import Conductor
from coda_dspy.selectors.costs import judges_of, most_calls

from .budgets import budget_at, has_a_choice, point_name
from .budgets.search import MOST_TO_ENUMERATE
from .budgets.space import is_possible
from .path_order import CODING
from .plan import MOST_JUDGED, TunePlan
from .probed import narrowed
from .prompts.counting import most_calls_at, most_of
from .prompts.teacher import most_reply
from .workbench import small

_WITH_LESSONS = 3  # budgets beside the finalists, which use what was learned


class Phase(NamedTuple):
    """The most that one phase asks.

    Args:
        name: What it does.
        questions: Questions, repeated ones counted each time.
        calls: Calls to the engine and the teacher, those that the cache answers included. Further tries of a call that
            fails are counted where an optimizer asks, and nowhere else.
        reply_tokens: Tokens of all replies.
    """

    name: str
    questions: int
    calls: int
    reply_tokens: int


def ceiling(
    plan: TunePlan,
    lm: dspy.LM,
    questions: Sequence[Gradable],
    teacher: dspy.LM | None = None,
    probe: Mapping[str, Any] | None = None,
) -> list[Phase]:
    """The most that `tune` asks with these arguments, in the order of its phases.

    Raises:
        UserError: The plan does not suffice for its optimizer, or the teacher has nothing to do.
    """
    most = _Most(plan, lm, questions, teacher, probe)
    rounds = range(2, plan.rounds + 1) if plan.optimizer != "none" else ()
    phases = [most.at_once()]
    phases += [most.compiling(f"prompts {role}", [most.small(role)]) for role in plan.compiled]
    phases += [most.paths(), most.searching("budgets, round 1")]
    for number in rounds:
        phases += [most.compiling(f"prompts, round {number}", most.found())]
        phases += [most.searching(f"budgets, round {number}")]
    phases += [most.judging()]
    finalists = plan.finalists + _WITH_LESSONS if plan.finalists > 1 else 0
    phases += [_asking("choice", most.chosen(), finalists * plan.validation)]
    phases += [_asking("training questions", most.chosen(), plan.train)]
    plain, tuned = _asking("", [most.small("direct")], plan.test), _asking("", most.chosen(), plan.test)
    return [phase for phase in (*phases, _together("test, held out", plain, tuned)) if phase.questions]


class _Most:
    """What the parts of a tune ask at most."""

    def __init__(
        self,
        plan: TunePlan,
        lm: dspy.LM,
        questions: Sequence[Gradable],
        teacher: dspy.LM | None,
        probe: Mapping[str, Any] | None,
    ) -> None:
        self._plan, self._lm, self._questions, self._teacher = plan, lm, questions, teacher
        self._space = narrowed(plan.space, questions, probe)
        self._has_paths = any(question.task.kind == "math" for question in questions)
        self._is_wordy = any(question.task.kind != "code" for question in questions)
        self._bases = [plan.budget]
        if self._has_paths:  # programs may turn out to be the better path
            coding = max(plan.budget.num_attempts_coding, CODING)
            self._bases.append(plan.budget.replace(first_path="code", num_attempts_coding=coding))

    def small(self, algorithm: str) -> Conductor:
        """The program in which one algorithm is compiled or measured by itself."""
        return small(AdaptiveCoda(self._plan.budget), algorithm)

    def found(self) -> list[Conductor]:
        """Programs of which one takes as many calls as any that a search may find."""
        dearest = [self._space.dearest(base) for base in self._bases]
        paper = [budget_at(base, self._space.paper(base)) for base in self._bases]
        return [AdaptiveCoda(budget) for budget in (*dearest, *paper)]

    def chosen(self) -> list[Conductor]:
        """The same of the choice among the finalists, whose votes may be weighted."""
        if self._plan.finalists < 2:
            return self.found()
        return [AdaptiveCoda(program.budget.replace(verifier="weighted")) for program in self.found()] + self.found()

    def at_once(self) -> Phase:
        """Direct answers with working and without, where prompts are compiled."""
        tried = self._plan.optimizer != "none" and "direct" in self._plan.compiled
        number = 2 * self._plan.validation if tried and self._is_wordy else 0
        return _asking("at once", [self.small("direct")], number)

    def paths(self) -> Phase:
        """One direct and one coded answer to each maths question."""
        number = self._plan.validation if self._has_paths else 0
        direct, code = (_asking("", [self.small(path)], number) for path in ("direct", "code"))
        return _together("paths", direct, code)

    def compiling(self, name: str, programs: Sequence[Conductor]) -> Phase:
        """The prompts as written, what the optimizer asks, and what it found."""
        plan, optimizer = self._plan, self._plan.prompt_optimizer()
        before = _asking(name, programs, plan.validation)
        if plan.optimizer == "none":
            return before
        train, validation = self._questions[: plan.train], self._questions[: plan.validation]
        with dspy.context(lm=self._lm):
            planned = [optimizer.plan(program, train, validation, self._teacher) for program in programs]
        asked = _asking(name, programs, planned[0].questions)
        calls = max(each.calls or 0 for each in planned)
        lessons = (calls - asked.calls) * most_reply(self._teacher or self._lm)
        optimizing = Phase(name, asked.questions, calls, asked.reply_tokens + lessons)
        return _together(name, before, _asking(name, programs, plan.train), optimizing, before)

    def judging(self) -> Phase:
        """Each judge that suits the questions on pairs of answers."""
        judging = [program.budget for program in self.found() if has_a_choice(program.budget)]
        if not judging:
            return Phase("judges", 0, 0, 0)
        pairs = min(MOST_JUDGED, self._plan.validation)
        judges = [judges_of(question.task.kind) for question in self._questions]
        dearest = max(judges, key=lambda names: sum(most_calls(name, 2) for name in names))
        efforts = max(len(budget.efforts("judge")) for budget in judging)
        calls = pairs * sum(most_calls(name, 2) for name in dearest) * efforts
        return Phase("judges", pairs * max(map(len, judges)), calls, calls * judging[0].max_tokens["judge"])

    def searching(self, name: str) -> Phase:
        """Every trial on all validation questions, for a race may stop none."""
        most, listed = self._plan.max_trials, [self._space.points(base) for base in self._bases]
        phases = []
        for base, points in zip(self._bases, listed, strict=True):
            if points is None or len(points) > MOST_TO_ENUMERATE:
                return _asking(name, self.found(), most * self._plan.validation)
            first = (*self._space.plain(base), self._space.paper(base))
            tried = {point_name(point): point for point in (*first, *points) if is_possible(point, base)}
            budgets = sorted((budget_at(base, point) for point in tried.values()), key=most_calls_at)[-most:]
            trials = [_asking(name, [AdaptiveCoda(budget)], self._plan.validation) for budget in budgets]
            phases.append(_together(name, *trials))
        return Phase(name, *(max(part) for part in zip(*(phase[1:] for phase in phases), strict=True)))


def _asking(name: str, programs: Sequence[Conductor], questions: int) -> Phase:
    """So many questions to whichever of these programs takes most."""
    each = [most_of(program) for program in programs]
    return Phase(name, questions, questions * max(e.calls for e in each), questions * max(e.reply_tokens for e in each))


def _together(name: str, *phases: Phase) -> Phase:
    return Phase(name, *(sum(part) for part in zip(*(phase[1:] for phase in phases), strict=True)))
