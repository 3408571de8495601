"""The algorithms that one set of prompts and budget serves: the paper's two, and the plain paths beside them."""

from typing import Any, Literal, get_args

from coda_dspy.conductor import AdaptiveCoda, Coda
from coda_dspy.errors import UserError
from coda_dspy.program import Conductor

# The engine alone: one direct, greedy call and nothing behind it.
ASKED_ONCE: dict[str, Any] = {
    "num_attempts_baseline": 1,
    "num_attempts_coding": 0,
    "num_attempts_coda": 0,
    "best_of_n": 1,
    "n_plans": 1,
    "first_path": "direct",
    "stop_on_agreement": False,
    "refine_rounds": 0,
    "temperature": {"direct": 0.0},
}
# The coding agent alone: one greedy program, run once.
CODED_ONCE: dict[str, Any] = {
    **ASKED_ONCE,
    "num_attempts_baseline": 0,
    "num_attempts_coding": 1,
    "temperature": {"code": 0.0},
}
# Direct attempts and their vote, nothing else.
VOTED: dict[str, Any] = {"num_attempts_coding": 0, "num_attempts_coda": 0, "stop_on_agreement": False}
_CHANGES = {"direct": ASKED_ONCE, "code": CODED_ONCE, "self-consistency": VOTED}
Algorithm = Literal["adaptive", "coda", "direct", "code", "self-consistency"]
ALGORITHMS: tuple[str, ...] = get_args(Algorithm)


def with_algorithm(program: AdaptiveCoda, algorithm: str) -> Conductor:
    """The program that runs one of the algorithms with the prompts and the budget of an `AdaptiveCoda`.

    `direct` is the engine asked once, greedily: the path that easy questions take. `code` is one greedy program for a
    maths problem, run once. `self-consistency` is the vote of `num_attempts_baseline` direct attempts. These three
    change the program's budget.

    Raises:
        UserError: There is no algorithm of that name.
    """
    if algorithm == "adaptive":
        return program
    if algorithm == "coda":
        coda: Coda = program.coda
        coda.adapter, coda.lm = program.adapter, program.lm
        return coda
    if algorithm in _CHANGES:
        program.budget.load_state(program.budget.replace(**_CHANGES[algorithm]).dump_state())
        return program
    raise UserError(f"algorithm {algorithm!r} does not exist; choose one of: {', '.join(ALGORITHMS)}")
