"""The verifier: picks the answer among candidates (Algorithm 1, `verify`), by the selector that the budget names."""

from collections.abc import Sequence

import dspy

from coda_dspy import answers
from coda_dspy.budget import OF_ALGORITHM_1
from coda_dspy.candidate import Candidate
from coda_dspy.question import current_question
from coda_dspy.selectors import (
    Ballot,
    Check,
    CodeT,
    Distinguish,
    GenSelect,
    Judge,
    Pairwise,
    Selector,
    Verdict,
    Weighted,
    agreement,
    decide,
    majority,
)
from coda_dspy.task import Path
from coda_dspy.voting import AnswerClass, classify


def answer_classes(candidates: Sequence[Candidate]) -> list[AnswerClass]:
    """The candidates of the current question, put together by what their answers mean."""
    task, weights = current_question().task, [vote_weight(c.path) for c in candidates]
    return classify([c.answer for c in candidates], lambda a, b: answers.same(task, a, b), weights)


def vote_weight(path: Path) -> int:
    """What a vote of a path weighs in the current question: 1, unless votes are weighted."""
    question = current_question()
    return question.lessons.vote_weight(path) if question.budget.verifier in ("weighted", "agreement") else 1


class Verifier(dspy.Module):
    """Picks one class of candidates. Judges are asked only where candidates disagree."""

    def __init__(self) -> None:
        super().__init__()
        self.judge = Judge()
        self.pairwise = Pairwise()
        self.genselect = GenSelect()
        self.check = Check()
        self.distinguish = Distinguish()
        self.codet = CodeT()

    def forward(self, candidates: Sequence[Candidate]) -> Verdict | None:
        """The verdict on all candidates; `None` if there are none."""
        ballot = Ballot(candidates, answer_classes(candidates))
        if not ballot.classes:
            return None
        name = current_question().budget.verifier if len(ballot.classes) > 1 else "majority"
        return decide(ballot, self.selector(name)(ballot))

    def selector(self, name: str) -> Selector:
        """The selector of a name, one of `coda_dspy.budget.VERIFIERS`."""
        if name == "weighted":
            return Weighted(self._weighing(), self._corroboration())
        selectors: dict[str, Selector] = {"majority": majority, "agreement": agreement}
        return selectors[name] if name in selectors else getattr(self, name)

    def votes_alone_decide(self) -> bool:
        """Whether no judge is asked, so that a vote can be settled before all of it is in."""
        name = current_question().budget.verifier
        weighed = name == "weighted" and not self._weighing() and not self._corroboration()
        return name == "majority" or weighed

    def decides_last_vote(self) -> bool:
        """Whether the last vote of Algorithm 2 is decided here, and not by its plurality."""
        return current_question().budget.verifier not in OF_ALGORITHM_1 and not self.votes_alone_decide()

    def _weighing(self) -> list[tuple[Selector, int]]:
        lessons = current_question().lessons
        weights = [(self.selector(name), lessons.judge_weight(name)) for name in lessons.judges]
        return [(judge, weight) for judge, weight in weights if weight]

    def _corroboration(self) -> int:
        """What `weighted` adds where paths agree: nothing, unless it was learned."""
        lessons = current_question().lessons
        return lessons.corroboration_weight if lessons.corroboration is not None else 0
