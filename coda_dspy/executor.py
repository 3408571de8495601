"""The executor: solves a problem, with a plan or directly, and corrects itself on feedback."""

import dspy

from coda_dspy import answers
from coda_dspy.calling import Reply, ask
from coda_dspy.errors import NoAnswer
from coda_dspy.question import current_question
from coda_dspy.sampling import Sample
from coda_dspy.signatures import Execute, Refine, Solve
from coda_dspy.solution import Solution

NO_ANSWER = "The last line does not give a final answer in the form that was asked for."


class Executor(dspy.Module):
    """Solves a problem: `execute` follows a plan, `direct` goes straight for the answer, `refine` mends."""

    def __init__(self) -> None:
        super().__init__()
        self.execute = dspy.Predict(Execute)
        self.direct = dspy.Predict(Solve)
        self.refine = dspy.Predict(Refine)

    def forward(self, sample: Sample, stage: str, plan: str | None = None) -> Solution:
        """One execution; without a plan, a direct one.

        Args:
            sample: Its place in the search.
            stage: `execute` within Algorithm 1, `direct` for the baseline attempts of Algorithm 2.
            plan: The plan to follow.

        Raises:
            CallFailed: The reply was cut off or empty, the engine failed, or no answer can be read in it
                (`NoAnswer`), also after `refine_rounds` rounds of feedback.
        """
        task = current_question().task
        inputs = {"question": task.text, "ending": answers.wanted(task)}
        place = sample._replace(step=stage)
        if plan is None:
            reply = ask(self.direct, stage, place, inputs)
        else:
            reply = ask(self.execute, stage, place, {**inputs, "plan": plan})
        return self._refined(sample, stage, reply)

    def _refined(self, sample: Sample, stage: str, reply: Reply) -> Solution:
        """Iterative refinement: the problem, the attempt and what is wrong with it, until an answer can be read."""
        question = current_question()
        task = question.task
        for step in range(question.budget.refine_rounds + 1):
            answer = answers.extract(task, reply.text)
            if answer is not None:
                return Solution(answer, reply)
            if step < question.budget.refine_rounds:
                place = sample._replace(step=f"refine-{step}")
                inputs = {"question": task.text, "attempt": reply.text, "feedback": NO_ANSWER}
                inputs["ending"] = answers.wanted(task)
                reply = ask(self.refine, "refine", place, inputs).after(reply)
        raise NoAnswer(stage)
