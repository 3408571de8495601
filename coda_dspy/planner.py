"""The planner: maps out ways to solve a problem (Algorithm 1, `plan(Q)`)."""

import dspy

from coda_dspy.calling import Reply, ask, current_question
from coda_dspy.errors import EmptyReply, Truncated
from coda_dspy.sampling import Sample
from coda_dspy.signatures import Plan, ProposeApproach


class Planner(dspy.Module):
    """Writes plans: steps with a confidence each, and no final answer."""

    def __init__(self) -> None:
        super().__init__()
        self.plan = dspy.Predict(Plan)
        self.approach = dspy.Predict(ProposeApproach)

    def forward(self, sample: Sample, approach: str = "") -> Reply:
        """One plan.

        A plan that is cut off or empty is thrown away and tried again, at most `max_plan_tries` times; it is never
        executed.

        Raises:
            CallFailed: Every try failed; this is the last one's failure.
        """
        question = current_question()
        tries = question.budget.max_plan_tries
        for retry in range(tries):
            place = sample._replace(step="plan", retry=retry)
            try:
                return ask(self.plan, "plan", place, question=question.task.text, approach=approach)
            except (Truncated, EmptyReply):
                if retry == tries - 1:
                    raise
        raise AssertionError("max_plan_tries is at least 1")

    def propose(self, path: str, number: int) -> list[str]:
        """`number` different approaches, one an attempt (plan diversity).

        They are asked for one after the other, each with the earlier ones in view: the first approaches are then the
        same whatever their number, as nested sampling needs it.
        """
        question = current_question().task.text
        approaches: list[str] = []
        for attempt in range(number):
            earlier = "\n".join(f"- {approach}" for approach in approaches)
            place = Sample(path, attempt, step="approach")
            approaches.append(ask(self.approach, "approach", place, question=question, earlier=earlier).text)
        return approaches
