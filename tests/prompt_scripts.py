"""Engines with known skills, and teachers that know what they lack."""

from collections.abc import Callable
from typing import Any

import dspy
from dspy.lm15 import LM15Error
from scripts import engine

from coda_dspy import AdaptiveCoda, Budget, connect
from coda_dspy.data import Question
from coda_dspy.optimizers.prompts import Optimizer, Planned
from coda_dspy.program import Conductor
from coda_dspy.testing import Reply, ScriptedCall, ScriptedEngine

QUESTIONS = [Question(f"q{i}", f"What is {i} + 1?", str(i + 1)) for i in range(60)]
TRAIN, VALIDATION = QUESTIONS[:12], QUESTIONS[12:24]
DIRECT = Budget(num_attempts_baseline=1, num_attempts_coda=0, temperature={"direct": 0.0})
WORD = "CAREFULLY"


def number_in(call: ScriptedCall) -> int:
    return int(call.prompt.split("What is ")[-1].split()[0])


def needs_the_word(call: ScriptedCall) -> str:
    """Right only where the instruction holds a certain word."""
    return f"Answer: {number_in(call) + 1 if WORD in call.prompt else 777}"


def is_sometimes_right(call: ScriptedCall) -> str:
    """Always right with the word; without it by luck, which the sample decides."""
    lucky = bool(call.request.config.temperature) and (call.request.config.seed or 0) % 2 == 0
    return f"Answer: {number_in(call) + 1 if WORD in call.prompt or lucky else 777}"


def needs_a_demonstration(call: ScriptedCall) -> str:
    shown = len(call.request.messages) > 1
    return f"Answer: {number_in(call) + 1 if shown or number_in(call) % 4 == 0 else 777}"


def knows_the_word(every: int) -> Callable[[ScriptedCall], str]:
    """A teacher of whose proposals every n-th holds the word."""

    def script(call: ScriptedCall) -> str:
        said = f"Solve the problem {WORD}." if call.index % every == every - 1 else f"Try hard, variant {call.index}."
        if "module_advice" in str(call.request):
            advice = f'{{"coda.executor.direct": "{said}"}}'
            return f"[[ ## discussion ## ]]\nSo.\n\n[[ ## module_advice ## ]]\n{advice}\n\n[[ ## completed ## ]]"
        return said

    return script


def seeded(script: Callable[[ScriptedCall], Any]) -> tuple[ScriptedEngine, dspy.LM]:
    """An engine that is told the seed of each sample."""
    made = ScriptedEngine(script)
    made.takes_seed = True  # type: ignore[attr-defined]
    return made, connect(made, num_retries=0)


class Compiling:
    """One compile on scripted engines, and what it came to."""

    def __init__(
        self,
        optimizer: Optimizer,
        script: Callable[[ScriptedCall], Any],
        teacher: Callable[[ScriptedCall], Any] | None = None,
        program: Conductor | None = None,
    ) -> None:
        self.optimizer = optimizer
        self.tokens = 0  # as the engine and the teacher counted them
        self.engine, self.lm = seeded(self._counted(script))
        self.taught, lm = engine(self._counted(teacher)) if teacher is not None else (None, None)
        self.teacher: dspy.LM | None = lm
        self.program = program or AdaptiveCoda(DIRECT)
        self.results: list[Any] = []

    def _counted(self, script: Callable[[ScriptedCall], Any]) -> Callable[[ScriptedCall], Any]:
        def counting(call: ScriptedCall) -> Any:
            reply = script(call)
            if not isinstance(reply, LM15Error):
                texts = [reply.text if isinstance(reply, Reply) else reply, *(m.text for m in call.request.messages)]
                self.tokens += sum(len((text or "").split()) for text in texts)
            return reply

        return counting

    def spent(self) -> Planned:
        """What was asked: calls and tokens by the engine's and the teacher's own books, failed tries included."""
        calls = [call for made in (self.engine, self.taught) if made is not None for call in made.calls]
        return Planned(len(self.results), len(calls), self.tokens)

    def plan(self) -> Any:
        with dspy.context(lm=self.lm):
            return self.optimizer.plan(self.program, TRAIN, VALIDATION, self.teacher)

    def run(self, **options: Any) -> Conductor:
        options = {"on_question": self.results.append} | options
        with dspy.context(lm=self.lm):
            return self.optimizer.compile(self.program, TRAIN, VALIDATION, teacher=self.teacher, **options)

    def right(self, program: Conductor) -> int:
        """How many questions a program answers that nobody has asked before."""
        with dspy.context(lm=self.lm):
            return sum(bool(q.grade(program(question=q.question).answer)) for q in QUESTIONS[24:34])
