"""How direct answers are asked for: with working, or at once. Small models argue themselves out of what they know."""

from collections.abc import Sequence
from math import inf
from typing import Any

from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.evaluation import Gradable
from coda_dspy.evaluation.statistics import accuracy, mean_tokens, paired_difference
from coda_dspy.signatures import SolveAtOnce

from .workbench import Workbench, small

SAVING = 0.5  # at most this share of the tokens makes the same accuracy worth more


def with_better_wording(
    bench: Workbench, program: AdaptiveCoda, questions: Sequence[Gradable]
) -> tuple[AdaptiveCoda, dict[str, Any] | None]:
    """Asked at once where that is right more often, or as often at half the tokens; else as written.

    Returns:
        The program, and what was measured of an answer at once; nothing where there was nothing to compare.
    """
    questions = [question for question in questions if question.task.kind != "code"]
    if bench.plan.optimizer == "none" or "direct" not in bench.plan.compiled or not questions:
        return program, None
    at_once = asked_at_once(program)
    before = bench.evaluate("direct, prompts as written", small(program, "direct"), questions, inf)  # needed anyway
    after = bench.evaluate("direct, at once", small(at_once, "direct"), questions)
    if min(len(before), len(after)) < len(questions):
        bench.notes.append("the time limit left no time to try answers without working")
        return program, None
    gain = paired_difference(before, after)
    tokens = mean_tokens(before), mean_tokens(after)
    cheaper = None not in tokens and (tokens[1] or 0) <= SAVING * (tokens[0] or 0)
    kept = gain.value > 0 or (gain.value == 0 and cheaper)
    found = {"kept": kept, "gain": gain._asdict(), **accuracy(after)._asdict(), "tokens": tokens[1]}
    bench.log.wording(found)
    return (at_once if kept else program), found


def asked_at_once(program: AdaptiveCoda) -> AdaptiveCoda:
    """A copy whose direct answers come without working."""
    copy: AdaptiveCoda = program.deepcopy()
    predict = copy.coda.executor.direct
    predict.signature = predict.signature.with_instructions(SolveAtOnce.instructions)
    return copy
