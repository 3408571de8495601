"""The conductor: Algorithms 1 and 2 of "The Conductor and the Engine" (arXiv 2509.19762)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from coda_dspy.candidate import Candidate
from coda_dspy.coder import Coder
from coda_dspy.concurrency import fan_out
from coda_dspy.errors import UserError
from coda_dspy.executor import Executor
from coda_dspy.planner import Planner
from coda_dspy.program import Conductor, Outcome, elected, refuse_silence, verified
from coda_dspy.question import current_question, tried
from coda_dspy.reflector import Reflector
from coda_dspy.sampling import Sample
from coda_dspy.solution import Solution
from coda_dspy.task import Path
from coda_dspy.verifier import Verifier, answer_classes
from coda_dspy.waves import Cast, is_decided, rule_of_majority, rule_of_plurality, vote


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

    def compose(self) -> None:
        self.planner = Planner()
        self.executor = Executor()
        self.coder = Coder()
        self.reflector = Reflector()
        self.verifier = Verifier()

    def solve(self) -> Outcome:
        """answer = verify(Q, s_1 … s_best_of_n)."""
        self.probe(self.budget.best_of_n)
        outcome = self.run()
        return outcome if outcome.chosen is not None else self.last_resort()

    def run(self, number: int = 0) -> Outcome:
        """One run of Algorithm 1, without a last resort.

        Args:
            number: Which run it is within the question; each run draws samples of its own.
        """
        path = f"coda-{number}" if number else "coda"
        approaches = self._approaches(path)
        spare: dict[int, list[Candidate]] = {}  # of attempts that came to no candidate that can be trusted
        candidates = self._attempts(lambda i: self._attempt(path, i, approaches[i], spare))
        if not candidates:
            candidates = _flat(spare)
        return verified(candidates, candidates, self.verifier(candidates))

    def probe(self, votes: int) -> None:
        """For a code task on which there will be a vote: inputs on which its programs are compared."""
        question = current_question()
        if question.task.kind == "code" and votes > 1:
            question.task = replace(question.task, probes=self.coder.probes())

    def execute(self, sample: Sample, stage: str, plan: str | None = None, computes: bool = False) -> Solution:
        """e = execute(Q, plan): in words, by a program that computes the answer, or for a code task as a program."""
        if current_question().task.kind == "code":
            return self.coder.implement(sample, stage, plan)
        if computes:
            return self.coder(sample, stage, plan)
        return self.executor(sample, stage, plan)

    def last_resort(self) -> Outcome:
        """One direct attempt, when nothing else gave an answer: a question is not left without one."""
        refuse_silence(current_question())
        solution = tried(lambda: self.execute(Sample("last-resort"), "direct"))
        candidates = [Candidate.of(solution, "direct", 0)] if solution is not None else []
        return elected(candidates, candidates, answer_classes(candidates))

    def _attempts(self, attempt: Cast) -> list[Candidate]:
        """The candidates of best_of_n attempts; only a majority can be settled before all of them are in."""
        rule = rule_of_plurality("coda") if self.verifier.votes_alone_decide() else None
        votes_each = 1 if self.budget.use_reflection else self.budget.n_plans
        return vote(attempt, self.budget.best_of_n, rule, votes_each)

    def _attempt(self, path: str, i: int, approach: str, spare: dict[int, list[Candidate]]) -> list[Candidate]:
        """One attempt: for each j, plan_j = plan(Q) and e_j = execute(Q, plan_j); then s_i = reflect(e_1 … e_n)."""
        branches = fan_out(lambda j: tried(lambda: self._branch(path, i, j, approach)), range(self.budget.n_plans))
        refuse_silence(current_question())
        done = [branch for branch in branches if branch is not None]
        executions = [Candidate.of(b.execution, "coda", i, plans=b.plans) for b in done]
        if not self.budget.use_reflection:
            return _trusted(executions, i, spare)
        synthesis = tried(lambda: self.reflector(Sample(path, i), [b.execution for b in done])) if done else None
        # A program that passes the public tests is not lost to a synthesis that failed, or that breaks it.
        passing = [e for e in executions if e.trusted][:1] if current_question().task.kind == "code" else []
        if synthesis is None:
            return passing or _trusted([], i, spare, executions)
        made = Candidate.of_synthesis(synthesis, executions, i)
        return _trusted([made], i, spare, executions) or passing

    def _branch(self, path: str, i: int, j: int, approach: str) -> "_Branch":
        place = Sample(path, i, j)
        if not self.budget.use_planner:
            return _Branch((), self.execute(place, "execute"))
        plan, computes = self.planner(place, approach)
        execution = self.execute(place, "execute", plan.text, computes)
        return _Branch((plan.text,), replace(execution, reply=execution.reply.after(plan)))

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

    def compose(self) -> None:
        self.coda = Coda(self.budget, self.adapter, self.lm, self.learned)
        self._check_attempts(self.budget.num_attempts_coding)

    def solve(self) -> Outcome:
        """Steps 1 to 3 of Algorithm 2; S is the list of votes."""
        budget = self.budget
        verifier = self.coda.verifier
        coding = budget.num_attempts_coding if current_question().task.kind == "math" else 0
        self._check_attempts(coding)
        self.coda.probe(budget.num_attempts_baseline + budget.num_attempts_coda * budget.best_of_n)
        spare: dict[int, list[Candidate]] = {}  # programs that fail a public test: they vote where no other does
        direct, code = _once(lambda i: self._direct(i, spare)), _once(self._code)
        if budget.stop_on_agreement and coding and budget.num_attempts_baseline:
            first = [c for cast in fan_out(lambda one: one(0), (direct, code)) for c in cast]
            classes = answer_classes(first)
            if len(first) == 2 and len(classes) == 1:
                return elected(first, first, classes)
        # Step 1: num_attempts_baseline direct executions, all into S.
        # Step 2: num_attempts_coding runs of the coding agent, all into S.
        steps: list[tuple[Path, Cast, int]] = [("direct", direct, budget.num_attempts_baseline), ("code", code, coding)]
        if current_question().first_path == "code":
            steps.reverse()
        votes: list[Candidate] = []
        attempts: list[Path] = []  # of the steps so far, and of those that follow
        later: list[Path] = [path for path, _, number in steps for _ in range(number)]
        later += ["coda"] * budget.num_attempts_coda
        for _, cast, number in steps:
            attempts, later = attempts + later[:number], later[number:]
            only_majority = bool(later) or verifier.decides_last_vote()
            votes += vote(cast, number, rule_of_majority(attempts, later, only_majority), before=votes)
            classes = answer_classes(votes)
            refuse_silence(current_question())
            if is_decided(classes, attempts, later):
                return elected(votes, votes, classes)
        # Step 3: num_attempts_coda runs of Algorithm 1, all into S; then the plurality of S, or what the verifier says.
        runs: dict[int, Outcome] = {}
        rule = None if verifier.decides_last_vote() else rule_of_plurality("coda")
        cast_by_coda = vote(lambda run: self._coda_run(run, runs), budget.num_attempts_coda, rule, before=votes)
        in_order = [runs[run] for run in sorted(runs)]
        candidates = [*(votes or _flat(spare)), *(c for outcome in in_order for c in outcome.candidates)]
        s = votes + cast_by_coda or _flat(spare) + [o.chosen for o in in_order if o.chosen is not None]
        if not s and budget.num_attempts_coda:
            return self.coda.last_resort()
        if verifier.decides_last_vote():
            return verified(s, candidates, verifier(s))
        return elected(s, candidates, answer_classes(s))

    def _check_attempts(self, coding: int) -> None:
        if self.budget.num_attempts_baseline + coding + self.budget.num_attempts_coda:
            return
        if self.budget.num_attempts_coding:
            raise UserError(
                "num_attempts_baseline and num_attempts_coda are 0, and the coding agent answers questions of kind "
                "math only; raise one of the two"
            )
        raise UserError(
            "num_attempts_baseline, num_attempts_coding and num_attempts_coda are all 0, "
            "so nothing would be tried; raise one of them"
        )

    def _direct(self, attempt: int, spare: dict[int, list[Candidate]]) -> list[Candidate]:
        solution = tried(lambda: self.coda.execute(Sample("direct", attempt), "direct"))
        candidates = [Candidate.of(solution, "direct", attempt)] if solution is not None else []
        return _trusted(candidates, attempt, spare)

    def _code(self, attempt: int) -> list[Candidate]:
        solution = tried(lambda: self.coda.coder(Sample("code", attempt)))
        return [Candidate.of(solution, "code", attempt)] if solution is not None else []

    def _coda_run(self, run: int, runs: dict[int, Outcome]) -> list[Candidate]:
        runs[run] = self.coda.run(run)
        chosen = runs[run].chosen
        return [chosen] if chosen is not None and chosen.trusted else []


def _trusted(
    candidates: list[Candidate], place: int, spare: dict[int, list[Candidate]], others: Sequence[Candidate] = ()
) -> list[Candidate]:
    """The candidates that may vote; if none may, they and `others` are kept as spares."""
    found = [candidate for candidate in candidates if candidate.trusted]
    if not found:
        spare[place] = [*candidates, *others]
    return found


def _flat(spare: dict[int, list[Candidate]]) -> list[Candidate]:
    """The spares in the order of their places; those that can be trusted alone, where there are any."""
    found = [candidate for place in sorted(spare) for candidate in spare[place]]
    return [candidate for candidate in found if candidate.trusted] or found


def _once(cast: Cast) -> Cast:
    """Each attempt at most once: the first ones are asked for twice where agreement could have ended the question."""
    done: dict[int, list[Candidate]] = {}

    def cast_once(attempt: int) -> list[Candidate]:
        if attempt not in done:
            done[attempt] = cast(attempt)
        return done[attempt]

    return cast_once


class _Branch(NamedTuple):
    plans: tuple[str, ...]
    execution: Solution
