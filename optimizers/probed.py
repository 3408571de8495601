"""What a probe of the engine changes in a tune: fewer budgets to search."""

from collections.abc import Mapping, Sequence
from typing import Any

from coda_dspy.evaluation import Gradable

from .budgets import Space


def narrowed(space: Space, questions: Sequence[Gradable], probe: Mapping[str, Any] | None = None) -> Space:
    """The budgets that are worth a search for this engine and these questions.

    Programs that compute an answer are for maths only; temperatures are searched only where the engine honours them;
    reasoning efforts, one for all stages, only where it is known to take several. Whoever wants one stage to think less
    than another names it in the search.

    Args:
        space: What would be searched otherwise.
        questions: What the tune is about.
        probe: What `coda probe` measured of the engine, as a profile holds it.
    """
    if not any(question.task.kind == "math" for question in questions):
        space = space.without("num_attempts_coding")
    if probe is None:
        return space
    honours = probe.get("honours", {})
    if honours.get("temperature") is False:
        space = space.without(*(name for name in space.values if name.startswith("temperature")))
    efforts = tuple(probe.get("efforts", ()))
    if honours.get("effort") and len(efforts) > 1 and not any(name.startswith("reasoning") for name in space.values):
        space = space.but({"reasoning_effort": (None, *efforts)})
    return space
