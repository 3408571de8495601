"""The verifier: picks the answer among candidates (Algorithm 1, `verify`), by the selector that the budget names."""

from collections.abc import Sequence

import dspy

from coda_dspy import answers
from coda_dspy.candidate import Candidate
from coda_dspy.question import current_question
from coda_dspy.selectors import Ballot, Judge, Pairwise, Selector, Verdict, decide, majority
from coda_dspy.voting import AnswerClass, classify


def answer_classes(candidates: Sequence[Candidate]) -> list[AnswerClass]:
    """The candidates of the current question, put together by what their answers mean."""
    task = current_question().task
    return classify([c.answer for c in candidates], lambda a, b: answers.same(task, a, b))


class Verifier(dspy.Module):
    """Picks one class of candidates. Judges are asked only where candidates disagree."""

    def __init__(self) -> None:
        super().__init__()
        self.judge = Judge()
        self.pairwise = Pairwise()

    def forward(self, candidates: Sequence[Candidate]) -> Verdict | None:
        """The verdict on all candidates; `None` if there are none."""
        ballot = Ballot(candidates, answer_classes(candidates))
        if not ballot.classes:
            return None
        name = current_question().budget.verifier if len(ballot.classes) > 1 else "majority"
        return decide(ballot, self.selector(name)(ballot))

    def selector(self, name: str) -> Selector:
        """The selector of a name, one of `coda_dspy.budget.VERIFIERS`."""
        selectors: dict[str, Selector] = {"majority": majority, "judge": self.judge, "pairwise": self.pairwise}
        return selectors[name]
