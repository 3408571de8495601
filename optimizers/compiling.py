"""Compile the prompts of a tune: try what the optimizer makes of them, and keep it only where it helps."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import dspy

from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.evaluation import Gradable, Result
from coda_dspy.evaluation.statistics import mean_tokens, paired_difference
from coda_dspy.program import Conductor

from .prompts import Compiled, OptimizerFailed, compile_once, prompts_of, put_prompts
from .workbench import PROMPTS_END, Workbench, key_of, small


class Compiling:
    """Compiles prompts, for one algorithm on its own or for the whole program at its budget.

    Args:
        bench: What answers questions.
        train: Questions to learn from.
        validation: Questions to choose on.
        teacher: The model that proposes instructions, for optimizers that reflect.
    """

    def __init__(
        self, bench: Workbench, train: Sequence[Gradable], validation: Sequence[Gradable], teacher: dspy.LM | None
    ) -> None:
        self._bench, self._plan = bench, bench.plan
        self._train, self._validation, self._teacher = train, validation, teacher
        self.records: dict[str, Any] = {}  # what the optimizer did, by what it was called for; for the profile
        self.asked: Sequence[Result] = ()  # the first results on the validation questions: what a call takes

    def of_roles(self, program: AdaptiveCoda) -> AdaptiveCoda:
        """Prompts for each algorithm of the plan, each compiled in the smallest program in which its roles take part.

        A small program is asked less, and its answer tells more of each role than that of a vote.
        """
        for place, algorithm in enumerate(self._plan.compiled, 1):
            ends = PROMPTS_END * place / len(self._plan.compiled)
            found = self._compiled(algorithm, small(program, algorithm), ends)
            program = _with_prompts(program, found) if found is not None else program
        return program

    def at_budget(self, name: str, program: AdaptiveCoda, ends: float) -> AdaptiveCoda | None:
        """Prompts for the whole program at its budget; `None` where nothing better was found."""
        found = self._compiled(name, program, ends)
        return _with_prompts(program, found) if found is not None else None

    def is_kept(self, name: str) -> bool:
        """Whether an earlier process has compiled this: what was paid for is used, also after the time limit."""
        return any((self._bench.folder.path / "prompts").glob(f"{name.replace(' ', '-')}-*.json"))

    def _compiled(self, name: str, as_written: Conductor, ends: float) -> Conductor | None:
        """The program with better prompts; `None` where there are none."""
        bench = self._bench
        # Whatever it takes: the figure that everything else is compared with, and the speed of the engine.
        before = bench.evaluate(f"{name}, prompts as written", as_written, self._validation, inf)
        self.asked = self.asked or before
        if self._plan.optimizer == "none":
            return None
        # Side by side first: an optimizer may ask one question after the other, and then finds them in the cache.
        trained = bench.evaluate(f"{name}, training questions", as_written, self._train)
        if len(trained) < len(self._train):
            bench.notes.append(f"{name}: the time limit left no time to compile the prompts")
            return None
        compiled = self._optimized(name, as_written, before, ends)
        if compiled is None:
            return None
        self.records[name] = {**compiled.record, "kept": False}
        if key_of(compiled.program) == key_of(as_written):
            why = "found nothing better" if any(r.correct for r in trained) else "had no right answer to learn from"
            bench.notes.append(f"{name}: {self._plan.optimizer} {why}; the prompts stay as written")
            return None
        return compiled.program if self._helps(name, as_written, compiled, before) else None

    def _helps(self, name: str, as_written: Conductor, compiled: Compiled, before: Sequence[Result]) -> bool:
        """Whether compiled prompts are better on the validation questions."""
        bench = self._bench
        after = bench.evaluate(f"{name}, compiled prompts", compiled.program, self._validation)
        if len(after) < len(before):
            bench.notes.append(f"{name}: the time limit left no time to try the compiled prompts")
            return False
        gain = paired_difference(before, after)
        kept = gain.value > 0
        self.records[name] |= {"kept": kept, "gain": gain._asdict()}
        bench.log.compiling(name, compiled.record, before, after)
        bench.log.prompts(name, as_written, compiled.program)
        if not kept:
            optimizer = self._plan.optimizer
            bench.notes.append(f"{name}: {optimizer} does not help on the validation questions ({gain}); left out")
        return kept

    def _optimized(self, name: str, as_written: Conductor, before: Sequence[Result], ends: float) -> Compiled | None:
        """What the optimizer makes of the prompts; `None` where it broke off."""
        bench, plan = self._bench, self._plan
        optimizer = plan.prompt_optimizer(tokens_each=mean_tokens(before), workers=bench.workers)
        planned = optimizer.plan(as_written, self._train, self._validation, self._teacher)
        bench.watcher.phase(f"{name}, {optimizer.name} ({planned})", planned.questions)
        # The training questions have just been answered; an optimizer that asks no others takes no time.
        known = planned.questions <= len(self._train)
        try:
            with bench.generating():
                return compile_once(
                    bench.folder.path / "prompts" / f"{name.replace(' ', '-')}-{key_of(as_written)}.json",
                    optimizer,
                    as_written,
                    self._train,
                    self._validation,
                    teacher=self._teacher,
                    seed=plan.seed,
                    keep_going=lambda: known or bench.seconds_to(ends) > 0,
                    on_question=lambda result: bench.on_result(replace(result, session=bench.session)),
                )
        except OptimizerFailed as error:
            bench.notes.append(f"{name}: {error}; the prompts stay as written")
            return None


def _with_prompts(program: AdaptiveCoda, compiled: Conductor) -> AdaptiveCoda:
    """`program` with the prompts of `compiled`, which is it or its part."""
    changed: AdaptiveCoda = program.deepcopy()
    prefix = "" if isinstance(compiled, AdaptiveCoda) else "coda."
    put_prompts(changed, {prefix + name: prompt for name, prompt in prompts_of(compiled).items()})
    return changed
