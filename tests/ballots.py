"""Candidates of one question, and what a selector makes of them."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import dspy
from scripts import engine

from coda_dspy import Budget
from coda_dspy.candidate import Candidate
from coda_dspy.learned import Learned
from coda_dspy.question import open_question
from coda_dspy.task import Path, Task
from coda_dspy.testing import ScriptedCall
from coda_dspy.verifier import Verifier

WORKED = "First I add what there is, then I take away what was given, and so I get it.\nAnswer: {}"
MATH = Task("Which number is it?")


class Chosen(NamedTuple):
    """The answer that was chosen, and the calls that it took."""

    answer: str
    calls: list[ScriptedCall]


def cast(answers: str, path: Path = "direct", text: str = WORKED) -> list[Candidate]:
    """A vote for each letter."""
    return [Candidate(answer, text.format(answer), path, i, 10) for i, answer in enumerate(answers)]


def chosen(
    verifier: str,
    candidates: Sequence[Candidate],
    script: Callable[[ScriptedCall], object],
    learned: Learned | None = None,
    task: Task = MATH,
    budget: Budget | None = None,
) -> Chosen:
    """What the verifier makes of candidates where the engine answers by a script."""
    made, lm = engine(script)
    with dspy.context(lm=lm), open_question(task, (budget or Budget()).replace(verifier=verifier), "plain", learned):
        verdict = Verifier()(candidates)
    assert verdict is not None
    return Chosen(verdict.candidate.answer, made.calls)


def solutions_in(prompt: str) -> list[str]:
    """The solutions that a judge reads, in their order."""
    return re.split(r"^Solution(?: \d+)?:", prompt, flags=re.MULTILINE)[1:]
