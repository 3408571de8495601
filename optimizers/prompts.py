"""Compile the prompts of a program: demonstrations from questions that the engine itself got right.

BootstrapFewShot suits a weak model on few examples: it needs no model that can reflect on prompts, only worked
solutions, and the engine's own are in a style that it can follow.
"""

from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO

import dspy
from dspy.teleprompt import BootstrapFewShot

from coda_dspy.evaluation import Gradable
from coda_dspy.program import Conductor

from .metrics import is_correct, to_example

NAME = "BootstrapFewShot"


def compile_prompts(program: Conductor, questions: Sequence[Gradable], max_demos: int = 2) -> Conductor:
    """A copy of `program` with demonstrations for the roles that took part in right answers.

    Only calls of winning branches become demonstrations (the conductor's trace holds no others), and only complete
    replies. The questions are answered one by one; where they were answered before, DSPy's cache has the calls.

    Args:
        program: Any algorithm; its prompts stay as they are.
        questions: Training questions.
        max_demos: The most demonstrations of one role.

    Raises:
        EngineError: The engine cannot be used at all.
    """
    optimizer = BootstrapFewShot(
        metric=is_correct,
        max_bootstrapped_demos=max_demos,
        max_labeled_demos=0,  # a labelled example has an answer, but no working that a role could follow
        max_rounds=1,
        max_errors=len(questions),
    )
    examples = [to_example(question) for question in questions]
    with redirect_stdout(StringIO()):  # it prints
        compiled: Conductor = optimizer.compile(program.deepcopy(), trainset=examples)
    # A compiled part would be frozen, and left out of a larger program's state.
    compiled._compiled = False
    return compiled


def demo_count(program: dspy.Module) -> int:
    """How many demonstrations a program's roles have together."""
    return sum(len(predict.demos) for predict in program.predictors())
