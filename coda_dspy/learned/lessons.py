"""What was learned of an engine, by kind of question: plain values, checked, and carried by the program."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from dspy.predict.parameter import Parameter
from pydantic import ConfigDict, RootModel, ValidationError, model_validator

from coda_dspy.errors import UserError
from coda_dspy.task import PATHS, Kind, Path

from .answer_counts import AnswerCounts
from .figures import Measured, Share, Stated, Weight

JudgeName = Literal["judge", "pairwise", "genselect", "check", "distinguish", "codet"]
CORROBORATION = 1.0  # log-odds, where nothing was learned: as much as one vote more
_UNITS = 1000  # weights are summed as whole thousandths, so that no sum depends on its order


class Voting(Stated):
    """How often the votes of a path are right, and what one weighs.

    Args:
        accuracy: Of its votes on questions on which paths meet and differ, which are hard ones; shrunk towards the
            mean of all paths, the more the fewer questions it voted on.
        weight: The logarithm of how much likelier the right answer is to get such a vote than a given wrong one; 0
            where it is not.
    """

    accuracy: Share
    weight: Weight


class Judging(Stated):
    """How often a judge prefers a right class, and what its preference weighs.

    Args:
        accuracy: Of its preferences, among classes of which some are right and some wrong.
        chance: The accuracy of a class drawn by chance.
        weight: As a vote's; 0 where the judge is not surely better than chance, or surely goes by the place.
        contradicting: How often it says something else when it reads the same in another order. One that guesses does
            so in half of the cases, one that goes by the place in more.
    """

    accuracy: Share
    chance: Share
    weight: Weight
    contradicting: Share | None = None


class Lessons(Stated):
    """What was learned on questions of one kind. What is missing could not be learned.

    Args:
        answers: How answers spread.
        votes: What votes weigh, by path: every path or none.
        alternatives: How many wrong answers a wrong vote in effect chooses among.
        corroboration: What it weighs, beside its votes, that an answer was reached both in words and by program, in
            log-odds; over the questions on which some answers were and others were not.
        judges: What judges weigh.
        first_path: The path that comes first.
        agreement: How often a direct and a coded answer mean the same.
    """

    answers: AnswerCounts | None = None
    votes: dict[Path, Voting] = {}
    alternatives: Measured | None = None
    corroboration: Measured | None = None
    judges: dict[JudgeName, Judging] = {}
    first_path: Literal["direct", "code"] | None = None
    agreement: Share | None = None

    @model_validator(mode="after")
    def _every_path(self) -> Self:
        missing = [path for path in PATHS if path not in self.votes]
        if self.votes and missing:
            raise ValueError(f"votes.{missing[0]} is missing")
        return self

    def vote_weight(self, path: Path) -> int:
        """What a vote of a path weighs; 1 for each where no path is known to be better than another."""
        return round(_UNITS * self.votes[path].weight) if self._votes_weigh else 1

    @property
    def corroboration_weight(self) -> int:
        """What it weighs beside votes that an answer was reached both in words and by program."""
        found = self.corroboration.value if self.corroboration is not None else CORROBORATION
        return round((_UNITS if self._votes_weigh else 1) * found)

    def judge_weight(self, name: JudgeName) -> int:
        """What a judge's preference weighs beside votes; 0 where votes do not weigh anything either."""
        return round(_UNITS * self.judges[name].weight) if self._votes_weigh and name in self.judges else 0

    @property
    def _votes_weigh(self) -> bool:
        """Whether some path is known to be better than chance."""
        return any(round(_UNITS * vote.weight) for vote in self.votes.values())


class Learned(RootModel[dict[Kind, Lessons]], Parameter):
    """What was learned of an engine, by kind. A DSPy parameter, so it is saved and loaded with its program.

    Example:
        >>> Learned({"math": {"first_path": "code"}}).of("math").first_path
        'code'
    """

    model_config = ConfigDict(frozen=True)

    root: dict[Kind, Lessons] = {}

    def of(self, kind: str) -> Lessons:
        """The lessons for a kind; empty ones where nothing was learned."""
        return next((lessons for name, lessons in self.root.items() if name == kind), Lessons())

    @property
    def asks_judges(self) -> bool:
        """Whether any judge weighs in."""
        return any(lessons.judge_weight(name) for lessons in self.root.values() for name in lessons.judges)

    @classmethod
    def parse(cls, content: Any) -> Self:
        """Check what a file says.

        Raises:
            UserError: It does not fit; the message names the field.
        """
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            raise UserError(f"learned.{'.'.join(map(str, first['loc']))}: {first['msg']}; tune again") from error

    # The protocol of a DSPy parameter: this is what saving and loading a program calls.
    def reset(self) -> None:
        """What was learned of the engine outlives prompts."""

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_defaults=True)

    def load_state(self, state: Mapping[str, Any]) -> None:
        # Checked first: a state with one bad field changes nothing.
        self.__dict__.update(self.parse(state).__dict__)
