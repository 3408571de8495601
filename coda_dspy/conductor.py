"""The conductor: Algorithms 1 and 2 of "The Conductor and the Engine" (arXiv 2509.19762)."""

from typing import NamedTuple

import dspy

from coda_dspy.budget import Budget
from coda_dspy.candidate import Candidate
from coda_dspy.concurrency import fan_out
from coda_dspy.errors import UserError
from coda_dspy.executor import Executor, Solution
from coda_dspy.planner import Planner
from coda_dspy.program import Conductor, Outcome, elected, refuse_silence
from coda_dspy.question import current_question, tried
from coda_dspy.reflector import Reflector
from coda_dspy.sampling import Sample
from coda_dspy.verifier import Verifier, answer_classes
from coda_dspy.voting import beta_is_sure, strict_majority
from coda_dspy.waves import Cast, rule_of_plurality, rule_of_step_1, vote


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
        refuse_silence(current_question())
        solution = tried(lambda: self.executor(Sample("last-resort"), "direct"))
        candidates = [Candidate.of(solution, "direct", 0)] if solution is not None else []
        return elected(candidates, candidates, answer_classes(candidates))

    def _attempts(self, attempt: Cast) -> list[Candidate]:
        """The candidates of best_of_n attempts; only a majority can be settled before all of them are in."""
        rule = rule_of_plurality(self.budget) if self.budget.verifier == "majority" else None
        votes_each = 1 if self.budget.use_reflection else self.budget.n_plans
        return vote(attempt, self.budget.best_of_n, rule, votes_each)

    def _attempt(self, path: str, i: int, approach: str, spare: dict[int, list[Candidate]]) -> list[Candidate]:
        """One attempt: for each j, plan_j = plan(Q) and e_j = execute(Q, plan_j); then s_i = reflect(e_1 … e_n)."""
        branches = fan_out(lambda j: tried(lambda: self._branch(path, i, j, approach)), range(self.budget.n_plans))
        done = [branch for branch in branches if branch is not None]
        executions = [Candidate.of(b.execution, "coda", i, plans=b.plans) for b in done]
        if not self.budget.use_reflection:
            return executions
        synthesis = tried(lambda: self.reflector(Sample(path, i), [b.execution for b in done])) if done else None
        if synthesis is None:
            spare[i] = executions
            return []
        return [Candidate.of_synthesis(synthesis, executions, i)]

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
        votes = vote(self._direct, budget.num_attempts_baseline, rule_of_step_1(budget))
        classes = answer_classes(votes)
        majority = strict_majority(classes, budget.num_attempts_baseline)
        if majority is not None or (budget.early_exit == "beta" and beta_is_sure(classes)):
            return elected(votes, votes, classes)
        # Step 3: num_attempts_coda runs of Algorithm 1, all into S; then the plurality of S.
        runs: dict[int, Outcome] = {}
        cast = vote(
            lambda run: self._coda_run(run, runs), budget.num_attempts_coda, rule_of_plurality(budget), before=votes
        )
        if not votes + cast:
            return self.coda.last_resort()
        syntheses = [candidate for run in sorted(runs) for candidate in runs[run].candidates]
        return elected(votes + cast, votes + syntheses, answer_classes(votes + cast))

    def _check_attempts(self) -> None:
        if not self.budget.num_attempts_baseline + self.budget.num_attempts_coda:
            raise UserError(
                "num_attempts_baseline and num_attempts_coda are both 0, so nothing would be tried; raise one of them"
            )

    def _direct(self, attempt: int) -> list[Candidate]:
        solution = tried(lambda: self.coda.executor(Sample("direct", attempt), "direct"))
        return [Candidate.of(solution, "direct", attempt)] if solution is not None else []

    def _coda_run(self, run: int, runs: dict[int, Outcome]) -> list[Candidate]:
        runs[run] = self.coda.run(run)
        chosen = runs[run].chosen
        return [chosen] if chosen is not None else []


class _Branch(NamedTuple):
    plans: tuple[str, ...]
    execution: Solution
