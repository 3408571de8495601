"""One search under way: the program's copy that it works on, who is asked, and the books of all that."""

import contextvars
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import dspy

from coda_dspy.errors import CallFailed, UserError
from coda_dspy.evaluation import Gradable, Result, bill_of
from coda_dspy.ledger import Ledger
from coda_dspy.program import Conductor

from .allowance import Allowance
from .board import Board, Prompt, prompts_of
from .feedback import verdict_on
from .gate import Gate
from .watching import Asked, Watch

_MOST_DEMONSTRATION = 6000  # characters, given and replied


@dataclass
class Search:
    """What all parts of one search share.

    Args:
        program: The program's copy, which uses the engine of the context.
        train: Questions to learn from.
        validation: Questions to choose on.
        engine: The program's engine.
        teacher: The model that proposes, counted.
        seed: Seed of every random choice.
        workers: Questions at the same time.
        allowance: What may still be asked.
        adapter: The adapter of the caller; DSPy's own calls have another one.
        board: Every graded answer.
    """

    program: Conductor
    train: Sequence[Gradable]
    validation: Sequence[Gradable]
    engine: dspy.LM
    teacher: dspy.LM
    seed: int
    workers: int
    allowance: Allowance
    adapter: Any
    board: Board = field(default_factory=Board)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Search":
        return self  # copies of a program are counted together

    def ask(self, program: Conductor, question: Gradable, noted: bool = True) -> Asked:
        """Have a question answered, graded and counted.

        Args:
            program: The search's program with any prompts.
            question: What to ask.
            noted: Whether the answer counts when prompts are compared.

        Raises:
            Ended: The search has to end: the plan is spent, the time is over, or the engine cannot be used.
        """
        self.allowance.begin(questions=1)
        try:
            asked = self._answered(program, question)
            self.allowance.tell(asked.result)  # whoever is told may have run out of disk
        except UserError as error:
            raise self.allowance.fail(error) from error
        if noted:
            self.board.note(prompts_of(program), question.id, bool(asked.result.correct))
        return asked

    def ask_all(self, program: Conductor, questions: Sequence[Gradable]) -> list[Asked]:
        """The same for many questions, side by side, in their order."""
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="coda-prompts")
        try:
            asked = [pool.submit(contextvars.copy_context().run, self.ask, program, q) for q in questions]
            return [future.result() for future in asked]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def taking_part(self) -> frozenset[str]:
        """The predictors that take part in answers to the training questions."""
        return frozenset(call.role for asked in self.ask_all(self.program, self.train) for call in asked.calls)

    def shuffled(self, questions: Sequence[Gradable]) -> list[Gradable]:
        """The questions in the order of the seed."""
        return random.Random(self.seed).sample(questions, len(questions))

    def best(self) -> dict[str, Prompt]:
        """The prompts that answered most of the validation questions, of those that answered all of them."""
        judged = {question.id for question in self.validation}
        return self.board.best(judged, len(judged))

    def _answered(self, program: Conductor, question: Gradable) -> Asked:
        watch = Watch(program)
        callbacks = [*dspy.settings.get("callbacks", []), watch, Gate(self.allowance)]
        trace: list[Any] = []
        try:
            with dspy.context(callbacks=callbacks, adapter=self.adapter, trace=trace):
                prediction = program(**question.task.arguments())
        except CallFailed as error:
            prediction = dspy.Prediction(answer=None, failures=[str(error)], ledger=Ledger())
        asked = Asked(
            question,
            _result_of(question, prediction),
            watch.calls,
            prediction.get("transcript", ()),
            _texts(prediction),
        )
        _extend(dspy.settings.trace, trace, asked)
        return asked


def _extend(outer: list[Any] | None, trace: list[Any], asked: Asked) -> None:
    """Hand the trace on; that of a right answer without the calls that were wrong by themselves.

    A synthesis may be right though an execution behind it is wrong, and a wrong working makes a bad demonstration. So
    does a very long one, which every later call would have to read, and every teacher.
    """
    if outer is None:
        return
    wrong: set[int] = set()
    if asked.result.correct:
        wrong = {id(call.reply) for call in asked.calls if verdict_on(call, asked).right is False}
    outer.extend(entry for entry in trace if id(entry[2]) not in wrong and _length(entry) <= _MOST_DEMONSTRATION)


def _length(entry: Any) -> int:
    _, inputs, outputs = entry
    return sum(len(str(text)) for text in (*inputs.values(), *outputs.values()))


def _result_of(question: Gradable, prediction: dspy.Prediction) -> Result:
    ledger: Ledger = prediction.ledger
    return Result(
        id=question.id,
        answer=prediction.answer,
        correct=question.grade(prediction.answer),
        path=prediction.get("path"),
        seconds=ledger.seconds(),
        failures=prediction.failures,
        **bill_of(ledger),
    )


def _texts(prediction: dspy.Prediction) -> list[str]:
    candidates = prediction.get("candidates") or []
    return [text for candidate in candidates for text in (candidate.text, *candidate.executions)]
