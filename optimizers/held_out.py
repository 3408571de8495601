"""The one measurement on the held-out questions, on samples that no choice was made on."""

from collections.abc import Sequence

import dspy

from coda_dspy.budget import Budget
from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.evaluation import Gradable, Result
from coda_dspy.program import Conductor

from .workbench import TEST_ENDS, Workbench, key_of, small

FRESH = 7919  # rollout base of the held-out measurement


def engine_alone(budget: Budget, adapter: str) -> Conductor:
    """One direct, greedy answer to the prompt as written: what everything is compared with."""
    return small(AdaptiveCoda(budget, adapter=adapter), "direct")


def measure_held_out(
    bench: Workbench, program: AdaptiveCoda, questions: Sequence[Gradable], tokens_each: float
) -> tuple[list[Result], list[Result]]:
    """Plain engine and tuned conductor on the held-out questions.

    In small groups that both answer, so that a time limit leaves both with the same questions.

    Args:
        bench: What answers questions.
        program: The tuned one.
        questions: The held-out questions.
        tokens_each: Tokens that a question takes both of them together.
    """
    plain_program = engine_alone(bench.plan.budget, bench.adapter)
    plain: list[Result] = []
    tuned: list[Result] = []
    test = questions[: bench.fitting("test", len(questions), tokens_each, TEST_ENDS)]
    bench.watcher.phase("test, held out", 2 * len(test))
    with dspy.context(lm=bench.lm.copy(rollout_id=FRESH)):
        for start in range(0, len(test), bench.workers):
            group = test[start : start + bench.workers]
            paid_for = all(bench.is_stored("test", asked, group) for asked in (plain_program, program))
            if start and not paid_for and bench.seconds_to(TEST_ENDS) <= 0:
                bench.notes.append(f"the time limit left {len(test) - start} of {len(test)} test questions out")
                break
            plain += bench.run("test", plain_program, group)
            tuned += bench.run("test", program, group)
    if key_of(plain_program) == key_of(program):
        bench.notes.append("the plain engine was chosen: both rows are one and the same measurement")
    return plain, tuned
