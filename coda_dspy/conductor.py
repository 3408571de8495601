"""The conductor: Algorithms 1 and 2 of "The Conductor and the Engine" (arXiv 2509.19762)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

import dspy

from coda_dspy.budget import Budget
from coda_dspy.candidate import Candidate, Path
from coda_dspy.concurrency import fan_out
from coda_dspy.errors import EngineError, EngineFailed, UserError
from coda_dspy.executor import Executor, Solution
from coda_dspy.planner import Planner
from coda_dspy.question import Question, current_question, open_question, tried
from coda_dspy.reflector import Reflector
from coda_dspy.sampling import Sample
from coda_dspy.task import Task
from coda_dspy.verifier import Verifier, answer_classes
from coda_dspy.voting import (
    AnswerClass,
    IsSettled,
    beta_is_settled,
    beta_is_sure,
    next_wave,
    plurality,
    plurality_is_settled,
    strict_majority,
)

Cast = Callable[[int], list[Candidate]]


class Outcome(NamedTuple):
    """What an algorithm ends with: the chosen candidate, the votes by class, and every candidate there was."""

    chosen: Candidate | None
    path: Path | None
    classes: Sequence[AnswerClass]
    candidates: list[Candidate]
    trace: tuple[object, ...] = ()


class Conductor(dspy.Module):
    """What both algorithms share: the question's books, its adapter and engine, and the prediction.

    Args:
        budget: How much compute a question may take; by default `Budget()`.
        adapter: `plain`, `sections`, or `None` for the adapter of `dspy.settings`.
        lm: The engine; by default the one of `dspy.settings`.
    """

    def __init__(self, budget: Budget | None = None, adapter: str | None = "plain", lm: dspy.LM | None = None) -> None:
        super().__init__()
        self.budget = budget if budget is not None else Budget()
        self.adapter = adapter
        self.lm = lm

    def forward(self, question: str, kind: str = "math", choices: Sequence[str] | None = None) -> dspy.Prediction:
        """Answer one question.

        Args:
            question: The problem, in words.
            kind: `math`, `choice` or `text`.
            choices: The options of a `choice` question, without letters.

        Returns:
            A prediction with `answer` (`None` if no attempt gave one), `solution` (the text that gave it), `path`
            (`direct`, `code` or `coda`), `candidates`, `votes` (votes by answer), `failures` (why steps gave nothing),
            `transcript` (what every role said) and `ledger`.

        Raises:
            UserError: The question does not fit its kind.
            EngineError: The engine cannot be used at all, or never gave a single reply.
        """
        task = Task.of(question, kind, choices)
        with dspy.context(**self._engine()), open_question(task, self.budget, self.adapter) as opened:
            outcome = self.solve()
        _extend_trace(outcome)
        return _prediction(opened, outcome)

    async def aforward(
        self, question: str, kind: str = "math", choices: Sequence[str] | None = None
    ) -> dspy.Prediction:
        """The same for `acall`, in a thread of its own."""
        return await asyncio.to_thread(self.forward, question, kind, choices)

    def _engine(self) -> dict[str, dspy.LM]:
        """The program's own engine, if it has one, on the rollout that an optimizer may have set."""
        if self.lm is None:
            return {}
        rollout = getattr(dspy.settings.lm, "kwargs", {}).get("rollout_id")
        return {"lm": self.lm if rollout is None else self.lm.copy(rollout_id=rollout)}

    def solve(self) -> Outcome:
        """Answer the question that is open in this context."""
        raise UserError(f"{type(self).__name__} is no algorithm; use coda_dspy.Coda or coda_dspy.AdaptiveCoda")


class Coda(Conductor):
    """Algorithm 1: best_of_n attempts, each of which plans, executes and reflects; then verify.

    Example:
        >>> import coda_dspy
        >>> from coda_dspy.testing import ScriptedEngine
        >>> lm = coda_dspy.connect(ScriptedEngine(lambda call: "Answer: 4"))
        >>> coda = coda_dspy.Coda(budget=coda_dspy.Budget(best_of_n=1, n_plans=2), lm=lm)
        >>> coda(question="What is 2 + 2?").answer
        '4'
    """

    def __init__(self, budget: Budget | None = None, adapter: str | None = "plain", lm: dspy.LM | None = None) -> None:
        super().__init__(budget, adapter, lm)
        self.planner = Planner()
        self.executor = Executor()
        self.reflector = Reflector()
        self.verifier = Verifier()

    def solve(self) -> Outcome:
        """answer = verify(Q, s_1 … s_best_of_n)."""
        outcome = self.run()
        return outcome if outcome.chosen is not None else self.last_resort()

    def run(self, number: int = 0) -> Outcome:
        """One run of Algorithm 1, without a last resort.

        Args:
            number: Which run it is within the question; each run draws samples of its own.
        """
        path = f"coda-{number}" if number else "coda"
        approaches = self._approaches(path)
        spare: dict[int, list[Candidate]] = {}  # executions of attempts that came to no synthesis
        candidates = self._attempts(lambda i: self._attempt(path, i, approaches[i], spare))
        if not candidates:
            candidates = [execution for i in sorted(spare) for execution in spare[i]]
        verdict = self.verifier(candidates)
        if verdict is None:
            return Outcome(None, None, (), candidates)
        chosen = verdict.candidate
        return Outcome(chosen, chosen.path, verdict.classes, candidates, chosen.trace + verdict.trace)

    def last_resort(self) -> Outcome:
        """One direct attempt, when nothing else gave an answer: a question is not left without one."""
        _refuse_silence(current_question())
        solution = tried(lambda: self.executor(Sample("last-resort"), "direct"))
        candidates = [_candidate(solution, "direct", 0)] if solution is not None else []
        return _elected(candidates, candidates, answer_classes(candidates))

    def _attempts(self, attempt: Cast) -> list[Candidate]:
        """The candidates of best_of_n attempts; only a majority can be settled before all of them are in."""
        rule = _rule(self.budget) if self.budget.verifier == "majority" else None
        votes_each = 1 if self.budget.use_reflection else self.budget.n_plans
        return vote(attempt, self.budget.best_of_n, rule, votes_each)

    def _attempt(self, path: str, i: int, approach: str, spare: dict[int, list[Candidate]]) -> list[Candidate]:
        """One attempt: for each j, plan_j = plan(Q) and e_j = execute(Q, plan_j); then s_i = reflect(e_1 … e_n)."""
        branches = fan_out(lambda j: tried(lambda: self._branch(path, i, j, approach)), range(self.budget.n_plans))
        done = [branch for branch in branches if branch is not None]
        executions = [_candidate(b.execution, "coda", i, plans=b.plans) for b in done]
        if not self.budget.use_reflection:
            return executions
        synthesis = tried(lambda: self.reflector(Sample(path, i), [b.execution for b in done])) if done else None
        if synthesis is None:
            spare[i] = executions
            return []
        return [_synthesis_candidate(synthesis, executions, i)]

    def _branch(self, path: str, i: int, j: int, approach: str) -> "_Branch":
        place = Sample(path, i, j)
        if not self.budget.use_planner:
            return _Branch((), self.executor(place, "execute"))
        plan = self.planner(place, approach)
        execution = self.executor(place, "execute", plan.text)
        return _Branch((plan.text,), Solution(execution.answer, execution.reply.after(plan)))

    def _approaches(self, path: str) -> list[str]:
        """One approach an attempt, where plan diversity asks for them; otherwise none."""
        if self.budget.plan_diversity and self.budget.use_planner:
            return self.planner.propose(path, self.budget.best_of_n)
        return [""] * self.budget.best_of_n


class AdaptiveCoda(Conductor):
    """Algorithm 2: direct attempts first, the whole of Algorithm 1 only where they do not agree.

    Example:
        >>> import coda_dspy
        >>> from coda_dspy.testing import ScriptedEngine
        >>> lm = coda_dspy.connect(ScriptedEngine(lambda call: "Answer: 4"))
        >>> prediction = coda_dspy.AdaptiveCoda(lm=lm)(question="What is 2 + 2?")
        >>> prediction.answer, prediction.path, prediction.ledger.calls()
        ('4', 'direct', 2)
    """

    def __init__(self, budget: Budget | None = None, adapter: str | None = "plain", lm: dspy.LM | None = None) -> None:
        super().__init__(budget, adapter, lm)
        self.coda = Coda(self.budget, adapter, lm)
        self._check_attempts()

    def solve(self) -> Outcome:
        """Steps 1 and 3 of Algorithm 2; S is the list of votes."""
        self._check_attempts()
        budget = self.budget
        # Step 1: num_attempts_baseline direct executions, all into S.
        votes = vote(self._direct, budget.num_attempts_baseline, _rule_of_step_1(budget))
        classes = answer_classes(votes)
        majority = strict_majority(classes, budget.num_attempts_baseline)
        if majority is not None or (budget.early_exit == "beta" and beta_is_sure(classes)):
            return _elected(votes, votes, classes)
        # Step 3: num_attempts_coda runs of Algorithm 1, all into S; then the plurality of S.
        runs: dict[int, Outcome] = {}
        cast = vote(lambda run: self._coda_run(run, runs), budget.num_attempts_coda, _rule(budget), before=votes)
        if not votes + cast:
            return self.coda.last_resort()
        syntheses = [candidate for run in sorted(runs) for candidate in runs[run].candidates]
        return _elected(votes + cast, votes + syntheses, answer_classes(votes + cast))

    def _check_attempts(self) -> None:
        if not self.budget.num_attempts_baseline + self.budget.num_attempts_coda:
            raise UserError(
                "num_attempts_baseline and num_attempts_coda are both 0, so nothing would be tried; raise one of them"
            )

    def _direct(self, attempt: int) -> list[Candidate]:
        solution = tried(lambda: self.coda.executor(Sample("direct", attempt), "direct"))
        return [_candidate(solution, "direct", attempt)] if solution is not None else []

    def _coda_run(self, run: int, runs: dict[int, Outcome]) -> list[Candidate]:
        runs[run] = self.coda.run(run)
        chosen = runs[run].chosen
        return [chosen] if chosen is not None else []


class _Branch(NamedTuple):
    plans: tuple[str, ...]
    execution: Solution


def vote(
    cast: Cast, number: int, rule: IsSettled | None, votes_each: int = 1, before: Sequence[Candidate] = ()
) -> list[Candidate]:
    """Launch `number` attempts, in waves where a rule can end the vote early (DESIGN.md, decision 4).

    Args:
        cast: One attempt, by its index; gives its candidates, or none where it failed.
        number: The most attempts.
        rule: When no further vote matters; `None` launches everything at once.
        votes_each: The most candidates that one attempt gives.
        before: Votes cast earlier, which count as well.
    """
    cast_so_far: list[Candidate] = []
    launched = 0
    while launched < number:
        wave = number - launched
        if rule is not None:
            wave = next_wave(answer_classes([*before, *cast_so_far]), wave, rule, votes_each)
        if wave == 0:
            break
        for candidates in fan_out(cast, range(launched, launched + wave)):
            cast_so_far.extend(candidates)
        launched += wave
    return cast_so_far


def _rule(budget: Budget) -> IsSettled | None:
    return {"off": None, "lossless": plurality_is_settled, "beta": beta_is_settled}[budget.early_exit]


def _rule_of_step_1(budget: Budget) -> IsSettled | None:
    """Step 1 ends with a strict majority of all its attempts; without one, every vote is needed in S for step 3."""

    def is_settled(classes: Sequence[AnswerClass], remaining: int) -> bool:
        majority = strict_majority(classes, budget.num_attempts_baseline) is not None
        return majority or (budget.early_exit == "beta" and beta_is_sure(classes))

    if budget.early_exit == "off":
        return None
    return is_settled if budget.num_attempts_coda else _rule(budget)


def _elected(votes: list[Candidate], candidates: list[Candidate], classes: Sequence[AnswerClass]) -> Outcome:
    """The plurality of the votes. Its path is that of the last pass that voted for it."""
    winner = plurality(classes)
    if winner is None:
        return Outcome(None, None, (), candidates)
    members = [votes[position] for position in winner.members]
    trace = tuple(entry for member in members for entry in member.trace)
    return Outcome(members[0], members[-1].path, classes, candidates, trace)


def _candidate(solution: Solution, path: Path, attempt: int, plans: tuple[str, ...] = ()) -> Candidate:
    reply = solution.reply
    return Candidate(
        solution.answer, reply.text, path, attempt, reply.tokens, plans, thinking=reply.thinking, trace=reply.trace
    )


def _synthesis_candidate(synthesis: Solution, executions: Sequence[Candidate], attempt: int) -> Candidate:
    tokens = [synthesis.reply.tokens, *(e.tokens for e in executions)]
    return Candidate(
        synthesis.answer,
        synthesis.reply.text,
        "coda",
        attempt,
        None if None in tokens else sum(t for t in tokens if t is not None),
        plans=tuple(plan for e in executions for plan in e.plans),
        executions=tuple(e.text for e in executions),
        thinking=synthesis.reply.thinking,
        trace=tuple(entry for e in executions for entry in e.trace) + synthesis.reply.trace,
    )


def _extend_trace(outcome: Outcome) -> None:
    """Optimizers learn from the winning branches only: the calls of losing ones would make bad demonstrations."""
    trace = dspy.settings.trace
    if trace is not None and dspy.settings.max_trace_size > 0:
        trace.extend(outcome.trace)
        del trace[: -dspy.settings.max_trace_size]


def _prediction(question: Question, outcome: Outcome) -> dspy.Prediction:
    _refuse_silence(question)
    chosen = outcome.chosen
    return dspy.Prediction(
        answer=chosen.answer if chosen else None,
        solution=chosen.text if chosen else "",
        path=outcome.path,
        candidates=outcome.candidates,
        votes={c.answer: c.votes for c in outcome.classes},
        failures=[str(failure) for failure in question.failures],
        transcript=question.transcript,
        ledger=question.ledger,
    )


def _refuse_silence(question: Question) -> None:
    """An engine that never gave one reply is not a hard question: the run has to stop, not to count wrong answers."""
    entries = question.ledger.entries
    if entries and all(entry.error is not None for entry in entries):
        lost = [f for f in question.failures if isinstance(f, EngineFailed) and f.transient]
        if lost:
            raise EngineError(f"the engine gave no reply in {len(entries)} tries. Last reason: {lost[-1].reason}")
