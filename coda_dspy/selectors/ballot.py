"""What a selector is asked, what it says, and how that becomes a choice."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from coda_dspy.candidate import Candidate
from coda_dspy.voting import AnswerClass, plurality

from .clarity import unclear


class Ballot(NamedTuple):
    """Candidates, and the classes of those that mean the same.

    Selectors choose among classes and see one representative each, so their cost grows with the classes.

    Args:
        candidates: In the order of their votes.
        classes: In the order of their first vote; at least one.
    """

    candidates: Sequence[Candidate]
    classes: Sequence[AnswerClass]

    def representative(self, index: int) -> Candidate:
        """The member that stands for a class: the clearest complete one, of equal ones the earliest."""
        return min(self.members(index), key=unclear)

    def members(self, index: int) -> list[Candidate]:
        """The candidates of a class."""
        return [self.candidates[member] for member in self.classes[index].members]

    def is_corroborated(self, index: int) -> bool:
        """Whether a class was reached both in words and by program."""
        return len({candidate.path == "code" for candidate in self.members(index)}) == 2


class Scores(NamedTuple):
    """What a selector says.

    Args:
        values: One number a class; the highest wins.
        trace: DSPy trace entries of its calls.
        contradicted: Whether it said something else when it read the same in another order; `None` where it did not
            read anything in two orders.
    """

    values: Sequence[float]
    trace: tuple[object, ...] = ()
    contradicted: bool | None = None

    @property
    def preferred(self) -> int | None:
        """Index of the class that is rated above all others; `None` where there is no single one."""
        best = max(self.values)
        return self.values.index(best) if list(self.values).count(best) == 1 else None


class Selector(Protocol):
    """Rates the classes of a ballot. May ask the engine, within the question that is open."""

    def __call__(self, ballot: Ballot) -> Scores: ...


@dataclass(frozen=True)
class Verdict:
    """What was decided.

    Args:
        candidate: The chosen candidate: the first member of the chosen class.
        chosen: That class.
        classes: All classes, in the order of their first vote.
        trace: DSPy trace entries of the selector's calls.
    """

    candidate: Candidate
    chosen: AnswerClass
    classes: tuple[AnswerClass, ...]
    trace: tuple[object, ...] = ()


def decide(ballot: Ballot, scores: Scores) -> Verdict:
    """The class with the best score. Ties go by votes, and then by the earlier first vote."""
    best = max(scores.values)
    finalists = [c for c, score in zip(ballot.classes, scores.values, strict=True) if score == best]
    chosen = plurality(finalists)
    assert chosen is not None  # there is at least one class
    return Verdict(ballot.candidates[chosen.members[0]], chosen, tuple(ballot.classes), scores.trace)
