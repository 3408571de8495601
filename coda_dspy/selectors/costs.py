"""What selectors ask at most."""

from coda_dspy.learned import JudgeName

from . import checking, codet, contenders, genselect

_GENERAL: tuple[JudgeName, ...] = ("judge", "pairwise", "genselect")
_OF_KIND: dict[str, tuple[JudgeName, ...]] = {"math": ("check",), "code": ("distinguish", "codet")}
TELL_APART = 3  # the inputs, and the outputs in both orders


def judges_of(kind: str) -> tuple[JudgeName, ...]:
    """The judges that can say something of a question of a kind."""
    return (*_GENERAL, *_OF_KIND.get(kind, ()))


def most_calls(verifier: str, classes: int) -> int:
    """The most calls of one choice among so many classes, each at one reasoning effort."""
    if verifier == "weighted":  # which judges weigh in is learned; at most all of them do
        return max(sum(most_calls(name, classes) for name in judges_of(kind)) for kind in _OF_KIND)
    return {
        "judge": classes,
        "pairwise": 2 * (min(classes, contenders.MOST) - 1),
        "genselect": genselect.CALLS,
        "check": checking.CALLS,
        "distinguish": TELL_APART,
        "codet": codet.CALLS,
    }.get(verifier, 0)
