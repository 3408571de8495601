"""What a case brings along: code that goes before the program, and how long it may take."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from coda_dspy.errors import UserError
from coda_dspy.programs import Case, check, passes
from coda_dspy.programs.running import problem_of
from coda_dspy.sandbox import ExecutionResult

BEFORE = "import math as given\ndef helper(x):\n    return x + 1"
USES = "def f(x):\n    return helper(given.floor(x))"


@pytest.mark.parametrize(
    "case",
    [
        Case("1", "2", "functional", BEFORE),
        Case("assert f(1) == 2", form="snippet", before=BEFORE),
        Case("assert abs(f(1) - 2) < 1", form="snippet", before=BEFORE),
    ],
)
def test_code_before_the_program_is_there_in_every_form(case: Case) -> None:
    assert passes(USES, [case], "f")
    assert not passes(USES, [Case(case.input, case.output, case.form)], "f")
    assert passes(f"from __future__ import annotations\n{USES}", [case], "f")


def test_code_before_a_program_on_standard_input_is_there_too() -> None:
    assert passes("print(helper(int(input())))", [Case("1\n", "2\n", before=BEFORE)])


def test_what_the_program_defines_again_wins() -> None:
    assert passes("def helper(x):\n    return 7\n" + USES, [Case("1", "7", "functional", BEFORE)], "f")


def test_cases_that_bring_different_code_may_be_mixed() -> None:
    cases = [Case("", f"{n}", before=f"n = {n}") for n in (1, 2, 1)]
    assert [outcome.got.strip() for outcome in check("print(n)", cases)] == ["1", "2", "1"]


LOOP = "import time\nwhile time.process_time() < {seconds}:\n    pass\nprint('done')"


def test_a_case_may_take_as_long_as_it_says() -> None:
    program = LOOP.format(seconds=0.8)
    short, long = check(program, [Case("", "done", seconds=0.3), Case("", "done", seconds=20)])
    assert (short.passed, long.passed) == (False, True)
    assert short.problem.startswith("it did not end within 0.3 seconds")


def test_a_program_that_waits_is_ended_too() -> None:
    begun = time.monotonic()
    assert not passes("import time; time.sleep(100)", [Case("", "", seconds=0.3)])
    assert time.monotonic() - begun < 10


@pytest.fixture
def busy() -> Iterator[None]:
    """More processes that compute than there are cores."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    yield
    for other in others:
        other.kill()
        other.wait()


def test_on_a_busy_machine_the_programs_own_time_counts(busy: None) -> None:
    assert passes(LOOP.format(seconds=0.5), [Case("", "done", seconds=1.0)])


def test_a_limit_that_ran_out_is_told_from_a_wrong_output() -> None:
    late, wrong = check(
        "while input() == 'loop':\n    while True: pass\nprint(1)",
        [Case("loop", "2", seconds=0.3), Case("x", "2", seconds=0.3)],
    )
    assert late.problem and not wrong.problem and wrong.got == "1\n"
    assert problem_of(ExecutionResult(timed_out=True), 6.0) == "it did not end within 6 seconds"


def test_one_slow_case_fails_alone() -> None:
    """The limit is for each case, not for all of them together."""
    program = "import time\nseconds = float(input())\nwhile time.process_time() < seconds: pass\nprint('done')"
    cases = [Case("0", "done", seconds=0.5), Case("9", "done", seconds=0.5), Case("0", "done", seconds=0.5)]
    assert [outcome.passed for outcome in check(program, cases)] == [True, False, True]


def test_many_cases_may_take_longer_together_than_one_may() -> None:
    program = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\nprint('done')"
    assert passes(program, [Case(f"{n}", "done", seconds=0.5) for n in range(6)])


def test_a_wrong_program_is_not_run_on_every_case() -> None:
    begun = time.monotonic()
    assert not passes("while True: pass", [Case(f"{n}", "", seconds=0.2) for n in range(200)])
    assert time.monotonic() - begun < 20


def test_without_cases_nothing_passes() -> None:
    assert not passes("print(1)", [])


@pytest.mark.parametrize(
    "row", ["assert f(1)", {"input": "1", "output": "2", "testtype": "stdin", "before": "n = 1", "seconds": 60.0}]
)
def test_a_case_is_written_as_it_is_read(row: object) -> None:
    assert Case.of(row).as_row() == row


@pytest.mark.parametrize(
    ("change", "message"),
    [({"seconds": 0}, "seconds 0"), ({"seconds": "6"}, "a number from"), ({"before": 1}, "before that is no text")],
)
def test_settings_that_are_none_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Case.of({"input": "", "output": "", **change})
