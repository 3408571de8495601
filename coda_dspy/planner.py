"""The planner: maps out ways to solve a problem (Algorithm 1, `plan(Q)`)."""

import re
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import dspy

from coda_dspy.calling import Reply, ask
from coda_dspy.errors import EmptyReply
from coda_dspy.question import current_question, tried
from coda_dspy.sampling import Sample
from coda_dspy.signatures import Plan, PlanAndChoosePath, ProposeApproach

PATH_ENDING = "End with one line: Path: reason or Path: compute"
_PATH = re.compile(r"^\W*path\W+(reason|compute)\b.*$", re.IGNORECASE | re.MULTILINE)


class MadePlan(NamedTuple):
    """A plan, and whether it asks for a program that computes the answer rather than for reasoning in words."""

    reply: Reply
    computes: bool = False


class Planner(dspy.Module):
    """Writes plans: steps with a confidence each, and no final answer."""

    def __init__(self) -> None:
        super().__init__()
        self.plan = dspy.Predict(Plan)
        self.plan_and_path = dspy.Predict(PlanAndChoosePath)
        self.approach = dspy.Predict(ProposeApproach)

    def forward(self, sample: Sample, approach: str = "") -> MadePlan:
        """One plan; with `plan_paths`, for maths, one that says whether to reason or to compute.

        A plan that is cut off or empty is thrown away and tried again, at most `max_plan_tries` times; it is never
        executed.

        Raises:
            CallFailed: Every try failed; this is the last one's failure.
        """
        question = current_question()
        place = sample._replace(step="plan")
        tries = question.budget.max_plan_tries
        inputs = {"question": question.task.text, "approach": approach}
        if not question.budget.plan_paths or question.task.kind != "math":
            return MadePlan(ask(self.plan, "plan", place, inputs, tries))
        reply = ask(self.plan_and_path, "plan", place, {**inputs, "ending": PATH_ENDING}, tries)
        chosen = _PATH.findall(reply.text)
        computes = bool(chosen) and chosen[-1].lower() == "compute"
        plan = _PATH.sub("", reply.text).strip()
        if not plan:
            raise EmptyReply("plan")
        return MadePlan(replace(reply, text=plan), computes)

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
