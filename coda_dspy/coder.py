"""The coder: answers by program, and corrects itself on what happened when the program ran.

Two jobs: `compute` writes a program for a maths problem and takes what it computes (the coding agent of Algorithm 2);
`implement` writes the program that a code task asks for, and tries it on the public tests (Table 7 of the paper).
"""

from dataclasses import replace

import dspy

from coda_dspy import answers
from coda_dspy.calling import Reply, ask
from coda_dspy.errors import NoAnswer
from coda_dspy.programs import Case, check, compute, feedback_on, has_input, probe_like, program_in, shown_input
from coda_dspy.programs.source import blocks_in
from coda_dspy.question import Step, current_question, tried
from coda_dspy.sampling import Sample
from coda_dspy.signatures import (
    ComputePlan,
    FixProgram,
    ImplementPlan,
    ImplementTask,
    ProposeInputs,
    ReformulateProgram,
    WriteProgram,
)
from coda_dspy.solution import Solution

PROGRAM_ENDING = "Give one ```python code block with a function solution() that takes nothing and returns the answer."
BEGUN = "```python\ndef solution():"
NO_PROGRAM = "The reply holds no complete Python program in a code block."

MOST_PROBES = 3

# Small models follow an example better than a description. Its comments have them say what each line is for, which
# costs tokens and seems to pay (experiments/results/paths.md).
EXAMPLE = dspy.Example(
    question="A box holds 24 pens. Mia buys 3 boxes and gives away 17 pens. How many pens does she have left?",
    ending=PROGRAM_ENDING,
    program=(
        "```python\ndef solution():\n    # Mia buys 3 boxes of 24 pens each.\n    bought = 3 * 24\n"
        "    # She gives away 17 of these pens.\n    left = bought - 17\n    return left\n```"
    ),
)

EXAMPLE_PLAN = "1. Multiply the boxes by the pens in one. (high)\n2. Subtract what is given away. (high)"


class Coder(dspy.Module):
    """Writes programs, runs them in the sandbox, and mends them on feedback."""

    def __init__(self) -> None:
        super().__init__()
        self.write = dspy.Predict(WriteProgram)
        self.write.demos = [EXAMPLE]
        self.follow = dspy.Predict(ComputePlan)
        self.follow.demos = [EXAMPLE.copy(plan=EXAMPLE_PLAN)]
        self.reformulate = dspy.Predict(ReformulateProgram)
        self.task = dspy.Predict(ImplementTask)
        self.plan = dspy.Predict(ImplementPlan)
        self.fix = dspy.Predict(FixProgram)
        self.inputs = dspy.Predict(ProposeInputs)

    def forward(self, sample: Sample, stage: str = "code", plan: str | None = None) -> Solution:
        """One run of the coding agent on a maths problem: write a program, run it, take what it computes.

        On an error, no output or a time limit it reformulates: the problem, the program and the feedback, at most
        `refine_rounds` times.

        Args:
            sample: Its place in the search.
            stage: `code` for the coding attempts of Algorithm 2, `execute` within Algorithm 1.
            plan: The plan to follow.

        Returns:
            The answer, and a text that shows the program and what it computes.

        Raises:
            CallFailed: A reply was cut off or empty, the engine failed, or no program computed an answer (`NoAnswer`).
        """
        question = current_question()
        inputs = {"question": question.task.text, "ending": PROGRAM_ENDING}
        place = sample._replace(step="code")
        if plan is None:
            reply = ask(self.write, stage, place, inputs, begun=BEGUN)
        else:
            reply = ask(self.follow, stage, place, {**inputs, "plan": plan}, begun=BEGUN)
        for step in range(question.budget.refine_rounds + 1):
            program = program_in(reply.text)
            computed = compute(program) if program is not None else None
            answer = computed.answer if computed is not None else None
            if answer is not None:
                answer = answers.extract(question.task, f"Answer: {answer}") or answers.extract(question.task, answer)
            if answer is not None:
                shown = f"{reply.text.rstrip()}\n\nThe program computes:\nAnswer: {answer}"
                return Solution(answer, replace(reply, text=shown))
            problem = computed.problem if computed is not None else NO_PROGRAM
            feedback = f"{problem or 'What it printed is no answer.'}\n{computed.output if computed else ''}".strip()
            question.transcript.append(Step(stage, sample, f"The program gives no answer:\n{feedback}"))
            if step < question.budget.refine_rounds:
                attempt = {"attempt": program or reply.text, "feedback": feedback}
                place = sample._replace(step=f"refine-{step}")
                reply = ask(self.reformulate, "refine", place, {**inputs, **attempt}, begun=BEGUN).after(reply)
        raise NoAnswer(stage)

    def implement(self, sample: Sample, stage: str, plan: str | None = None) -> Solution:
        """One program for a code task, tried on the public tests and mended at most `refine_rounds` times.

        Args:
            sample: Its place in the search.
            stage: `execute` within Algorithm 1, `direct` for the baseline attempts of Algorithm 2.
            plan: The plan to follow.

        Returns:
            The first program that passes; or else the one that passes most tests, which is not `trusted`.

        Raises:
            CallFailed: A reply was cut off or empty, the engine failed, or there is no program in it.
        """
        task = current_question().task
        inputs = {"question": task.text, "ending": answers.wanted(task)}
        place = sample._replace(step=stage)
        if plan is None:
            reply = ask(self.task, stage, place, inputs)
        else:
            reply = ask(self.plan, stage, place, {**inputs, "plan": plan})
        return self.mended(sample, stage, reply)

    def probes(self) -> tuple[Case, ...]:
        """Further inputs for a code task, of which no output is known: programs that agree on them too vote together.

        One call a question. Inputs that do not have the form of the example are left out.
        """
        task = current_question().task
        example = next(filter(has_input, task.cases), None)
        if example is None:
            return ()
        inputs = {"question": task.text, "example": shown_input(example)}
        reply = tried(lambda: ask(self.inputs, "judge", Sample("probe", step="inputs"), inputs))
        blocks = blocks_in(reply.text)[:MOST_PROBES] if reply is not None else []
        return tuple(probe for block in blocks if (probe := probe_like(example, block)) is not None)

    def mended(self, sample: Sample, stage: str, reply: Reply) -> Solution:
        """Iterative refinement on rich feedback: the task, the program, and the tests that it fails."""
        question = current_question()
        task = question.task
        best: tuple[int, Solution] | None = None
        for step in range(question.budget.refine_rounds + 1):
            program = program_in(reply.text, task.entry_point)
            outcomes = check(program, task.cases, task.entry_point) if program is not None else []
            passed = sum(outcome.passed for outcome in outcomes)
            if program is not None and passed == len(outcomes):
                return Solution(program, reply)
            if program is not None and (best is None or passed > best[0]):
                best = passed, Solution(program, reply, trusted=False)
            feedback = feedback_on(outcomes) if program is not None else NO_PROGRAM
            question.transcript.append(Step(stage, sample, f"The program fails:\n{feedback}"))
            if step < question.budget.refine_rounds:
                fixed = self._fixed(sample._replace(step=f"refine-{step}"), program or reply.text, feedback)
                if fixed is None:
                    break
                reply = fixed.after(reply)
        if best is None:
            raise NoAnswer(stage)
        return best[1]

    def _fixed(self, place: Sample, attempt: str, feedback: str) -> Reply | None:
        """A corrected program; `None` where the call failed, for the program that is there is better than none."""
        task = current_question().task
        inputs = {"question": task.text, "attempt": attempt, "feedback": feedback, "ending": answers.wanted(task)}
        return tried(lambda: ask(self.fix, "refine", place, inputs))
