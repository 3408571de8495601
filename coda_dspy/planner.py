"""The planner: maps out ways to solve a problem (Algorithm 1, `plan(Q)`)."""

from functools import partial

import dspy

from coda_dspy.calling import Reply, ask
from coda_dspy.question import current_question, tried
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
        place = sample._replace(step="plan")
        tries = question.budget.max_plan_tries
        return ask(self.plan, "plan", place, {"question": question.task.text, "approach": approach}, tries)

    def propose(self, path: str, number: int) -> list[str]:
        """`number` different approaches, one an attempt (plan diversity); "" where a proposal failed.

        They are asked for one after the other, each with the earlier ones in view: the first approaches are then the
        same whatever their number, as nested sampling needs it.
        """
        approaches: list[str] = []
        for attempt in range(number):
            reply = tried(partial(self._propose, Sample(path, attempt, step="approach"), approaches))
            approaches.append(reply.text if reply is not None else "")
        return approaches

    def _propose(self, place: Sample, earlier: list[str]) -> Reply:
        seen = "\n".join(f"- {approach}" for approach in earlier if approach)
        return ask(self.approach, "approach", place, {"question": current_question().task.text, "earlier": seen})
