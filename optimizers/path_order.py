"""Which of steps 1 and 2 of Algorithm 2 comes first: found out by asking each path once."""

from collections.abc import Sequence

from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.evaluation import Gradable
from coda_dspy.sandbox import SandboxUnavailable

from .paths import PathComparison
from .workbench import Workbench, at_budget, small

CODING = 3  # coding attempts where programs are better: the fewest in which a majority means something


def with_path_order(
    bench: Workbench, program: AdaptiveCoda, questions: Sequence[Gradable]
) -> tuple[AdaptiveCoda, PathComparison | None]:
    """Programs first, where maths questions show that they are better; else the paper's order.

    Returns:
        The program, and the comparison; none where no paths were compared.
    """
    questions = [question for question in questions if question.task.kind == "math"]
    if not questions:
        return program, None
    try:
        direct = bench.evaluate("path direct", small(program, "direct"), questions)
        code = bench.evaluate("path code", small(program, "code"), questions)
    except SandboxUnavailable as error:
        bench.notes.append(f"programs cannot run here, so the paths were not compared: {error}")
        return program, None
    if min(len(direct), len(code)) < len(questions):
        bench.notes.append("the time limit left no time to compare the paths; the paper's order stays")
        return program, None
    compared = PathComparison(questions, direct, code)
    bench.log.paths(compared)
    if compared.better == "code":
        coding = max(program.budget.num_attempts_coding, CODING)
        program = at_budget(program, first_path="code", num_attempts_coding=coding)
    return program, compared
