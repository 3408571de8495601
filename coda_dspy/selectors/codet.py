"""Dual agreement of programs and generated tests (CodeT, arXiv 2207.10397)."""

from collections import Counter
from collections.abc import Sequence

import dspy

from coda_dspy.calling import Reply
from coda_dspy.concurrency import fan_out
from coda_dspy.programs import Case, check
from coda_dspy.programs.assertions import equations_in
from coda_dspy.programs.source import blocks_in
from coda_dspy.question import current_question
from coda_dspy.signatures import ProposeTests
from coda_dspy.task import Task

from .ballot import Ballot, Scores
from .contenders import contenders, values_of
from .judging import judged, traces

CALLS = 2
MOST_TESTS = 10  # of one call
_ASSERTIONS = "Give each test as one line in a ```python code block: assert {name}(<input>) == <output>"
_TEXTS = "For each test give two code blocks: first the whole standard input, then the whole standard output."


class CodeT(dspy.Module):
    """Programs that pass the same generated tests agree with each other, and with these tests.

    A set of programs counts its votes times the tests that all of them pass: many wrong tests may be passed by nobody,
    and a wrong program seldom passes the tests that a right one passes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tests = dspy.Predict(ProposeTests)

    def forward(self, ballot: Ballot) -> Scores:
        """For each class the votes of all that pass the same tests, times the number of these tests."""
        task, places = current_question().task, contenders(ballot)
        if task.kind != "code" or not places:
            return Scores([0.0] * len(ballot.classes))
        ending = _ASSERTIONS.format(name=task.entry_point) if task.entry_point else _TEXTS
        replies = fan_out(lambda call: judged(self.tests, call, ending=ending), range(CALLS))
        tests = list(dict.fromkeys(case for reply in replies for case in _tests_in(task, reply)))
        passed = {place: _passed(task, ballot.classes[place].answer, tests) for place in range(len(ballot.classes))}
        votes: Counter[frozenset[int]] = Counter()
        for place, of_one in passed.items():
            votes[of_one] += ballot.classes[place].votes
        agreed = {place: float(votes[passed[place]] * len(passed[place])) for place in passed}
        return Scores(values_of(ballot, agreed, passed), traces(replies))


def _passed(task: Task, program: str, tests: Sequence[Case]) -> frozenset[int]:
    return frozenset(number for number, o in enumerate(check(program, tests, task.entry_point)) if o.passed)


def _tests_in(task: Task, reply: Reply | None) -> list[Case]:
    """The tests that a reply gives in the form that was asked for."""
    blocks = blocks_in(reply.text) if reply is not None else []
    if task.entry_point is None:
        pairs = zip(blocks[::2], blocks[1::2], strict=False)
        return [Case(f"{given}\n", output) for given, output in pairs if given.strip()][:MOST_TESTS]
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    tests = [Case(line, form="snippet") for line in lines if line.startswith("assert ") and equations_in(line)]
    return [test for test in tests if _calls(test, task.entry_point)][:MOST_TESTS]


def _calls(test: Case, name: str) -> bool:
    """Whether a test calls the function that the task asks for, also as a method."""
    return f"{name}(" in equations_in(test.input)[0].call
