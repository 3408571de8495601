"""What both algorithms share: the question's books, the adapter and the engine, and the prediction."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import dspy

from coda_dspy.budget import Budget
from coda_dspy.candidate import Candidate
from coda_dspy.errors import EngineFailed, EngineSilent, UserError
from coda_dspy.learned import Learned
from coda_dspy.question import Question, open_question
from coda_dspy.selectors import Verdict
from coda_dspy.task import Path, Task
from coda_dspy.voting import AnswerClass, plurality


class Outcome(NamedTuple):
    """What an algorithm ends with: the chosen candidate, the votes by class, and every candidate there was."""

    chosen: Candidate | None
    path: Path | None
    classes: Sequence[AnswerClass]
    candidates: list[Candidate]
    trace: tuple[object, ...] = ()


class Conductor(dspy.Module):
    """The base of both algorithms: answers one question within its own books.

    Args:
        budget: How much compute a question may take; by default `Budget()`.
        adapter: `plain`, `sections`, or `None` for the adapter of `dspy.settings`.
        lm: The engine; by default the one of `dspy.settings`.
        learned: What tuning learned of the engine; by default nothing.
    """

    def __init__(
        self,
        budget: Budget | None = None,
        adapter: str | None = "plain",
        lm: dspy.LM | None = None,
        learned: Learned | None = None,
    ) -> None:
        super().__init__()
        self.budget = budget if budget is not None else Budget()
        self.adapter = adapter
        self.lm = lm
        self.learned = learned if learned is not None else Learned()
        self.compose()

    def compose(self) -> None:
        """Make the modules that the algorithm is composed of; none by default."""

    def forward(
        self,
        question: str,
        kind: str = "math",
        choices: Sequence[str] | None = None,
        tests: Sequence[Any] = (),
        entry_point: str | None = None,
    ) -> dspy.Prediction:
        """Answer one question.

        Args:
            question: The problem, in words.
            kind: `math`, `choice`, `text` or `code`.
            choices: The options of a `choice` question, without letters.
            tests: Public tests of a `code` question: cases, or objects of `input`, `output` and `testtype`.
            entry_point: The function that a `code` question asks for.

        Returns:
            A prediction with `answer` (`None` if no attempt gave one), `solution` (the text that gave it), `trusted`
            (False also for a program that fails a public test), `path` (`direct`, `code` or `coda`), `candidates`,
            `votes` (votes by answer), `failures` (why steps gave nothing), `broke_off` (whether the engine was silent
            in a step, also after its retries), `transcript` (what every role said) and `ledger`.

        Raises:
            UserError: The question does not fit its kind.
            EngineError: The engine cannot be used at all, or never gave a single reply.
        """
        task = Task.of(question, kind, choices, tests, entry_point)
        if not self.budget.use_tests:
            task = replace(task, tests=(), examples=False)
        opening = open_question(task, self.budget, self.adapter, self.learned)
        with dspy.context(**self._engine()), opening as opened:
            outcome = self.solve()
        _extend_trace(outcome)
        return _prediction(opened, outcome)

    async def aforward(self, **arguments: Any) -> dspy.Prediction:
        """The same for `acall`, in a thread of its own."""
        return await asyncio.to_thread(self.forward, **arguments)

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """The state to save. Where nothing was learned it does not say so: names made from it stay what they were."""
        state: dict[str, Any] = super().dump_state(json_mode)
        return {name: part for name, part in state.items() if part or name != "learned"}

    def load_state(self, state: dict[str, Any], **options: Any) -> None:
        """Load a saved state."""
        super().load_state({"learned": {}, **state}, **options)

    def _engine(self) -> dict[str, dspy.LM]:
        """The program's own engine, if it has one, on the rollout that an optimizer may have set."""
        if self.lm is None:
            return {}
        rollout = getattr(dspy.settings.lm, "kwargs", {}).get("rollout_id")
        return {"lm": self.lm if rollout is None else self.lm.copy(rollout_id=rollout)}

    def solve(self) -> Outcome:
        """Answer the question that is open in this context."""
        raise UserError(f"{type(self).__name__} is no algorithm; use coda_dspy.Coda or coda_dspy.AdaptiveCoda")


def elected(votes: list[Candidate], candidates: list[Candidate], classes: Sequence[AnswerClass]) -> Outcome:
    """The plurality of the votes. Its path is that of the last pass that voted for it."""
    winner = plurality(classes)
    if winner is None:
        return Outcome(None, None, (), candidates)
    members = [votes[position] for position in winner.members]
    trace = tuple(entry for member in members for entry in member.trace)
    return Outcome(members[0], members[-1].path, classes, candidates, trace)


def verified(votes: list[Candidate], candidates: list[Candidate], verdict: Verdict | None) -> Outcome:
    """What the verifier chose among the votes. Its path is that of the last pass that voted for it."""
    if verdict is None:
        return Outcome(None, None, (), candidates)
    path = votes[verdict.chosen.members[-1]].path
    trace = verdict.candidate.trace + verdict.trace
    return Outcome(verdict.candidate, path, verdict.classes, candidates, trace)


def _extend_trace(outcome: Outcome) -> None:
    """Optimizers learn from the winning branches only: the calls of losing ones would make bad demonstrations."""
    trace = dspy.settings.trace
    if trace is not None and dspy.settings.max_trace_size > 0:
        trace.extend(outcome.trace)
        del trace[: -dspy.settings.max_trace_size]


def _prediction(question: Question, outcome: Outcome) -> dspy.Prediction:
    refuse_silence(question)
    chosen = outcome.chosen
    return dspy.Prediction(
        answer=chosen.answer if chosen else None,
        solution=chosen.text if chosen else "",
        trusted=chosen.trusted if chosen else False,
        path=outcome.path,
        candidates=outcome.candidates,
        votes={c.answer: c.votes for c in outcome.classes},
        failures=[str(failure) for failure in question.failures],
        broke_off=_broke_off(question),
        transcript=question.transcript,
        ledger=question.ledger,
    )


def refuse_silence(question: Question) -> None:
    """An engine that never gave one reply is not a hard question: the run has to stop, not to count wrong answers."""
    entries = question.ledger.entries
    if entries and all(entry.error is not None for entry in entries):
        lost = [f for f in question.failures if isinstance(f, EngineFailed) and f.transient]
        if lost:
            raise EngineSilent(
                f"the engine gave no reply in {len(entries)} tries. Last reason: {lost[-1].reason}. "
                "Is the server running, and its address right (api_base)?",
                question.ledger,
            )


def _broke_off(question: Question) -> bool:
    """Whether the engine gave up on a step in all of its tries: it may have gone away in the middle of the question."""
    return any(isinstance(failure, EngineFailed) and failure.transient for failure in question.failures)
