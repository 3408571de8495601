"""Programs on cases, in the real sandbox."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from coda_dspy.data import builtin
from coda_dspy.errors import UserError
from coda_dspy.programs import Case, behaviour, check, compute, feedback_on

DOUBLE = "def double(x):\n    print('noise')\n    return 2 * x"
CASES = [Case("3", "6", "functional"), Case('"a"', '"aa"', "functional")]


def verdicts(program: str, cases: list[Case], entry_point: str | None = None) -> list[bool]:
    return [outcome.passed for outcome in check(program, cases, entry_point)]


def test_functions_are_called_and_their_prints_do_not_matter() -> None:
    assert verdicts(DOUBLE, CASES, "double") == [True, True]


def test_methods_of_solution_are_called_and_usual_imports_are_there() -> None:
    program = "class Solution:\n    def double(self, x: List[int]) -> int:\n        return x + x"
    assert verdicts(program, CASES, "double") == [True, True]


def test_programs_read_standard_input_and_are_compared_line_by_line() -> None:
    program = "n = int(input())\nprint(n, ' ')\nprint(n / 4)"
    assert verdicts(program, [Case("2\n", "2\n0.50\n"), Case("2\n", "2\n")]) == [True, False]


def test_snippets_have_to_be_run_to_their_end() -> None:
    good, bad = Case("assert double(2) == 4", form="snippet"), Case("assert double(2) == 5", form="snippet")
    assert verdicts(DOUBLE, [good, bad]) == [True, False]
    assert verdicts("import os\nos._exit(0)", [good]) == [False]
    assert verdicts("def double(x):\n    raise SystemExit(0)", [good]) == [False]


CHECK = """
def check(candidate):
    assert candidate(2) == 4
    assert candidate(70707) == 141414, "text"

check(double)
"""


@pytest.mark.parametrize("snippet", ["assert double(2) == 4\nassert double(70707) == 141414", CHECK])
def test_what_an_assertion_expects_does_not_enter_the_sandbox(snippet: str) -> None:
    """A program that reads its own source, and says what it finds, finds only the calls."""
    case = Case(snippet, form="snippet")
    assert verdicts(DOUBLE, [case]) == [True]
    spy = "import linecache, sys\ndef double(x):\n    return sys._coda[1] + ''.join(linecache.getlines('main.py'))"
    (outcome,) = check(spy, [case])
    assert not outcome.passed
    assert "double(70707)" in outcome.got and "141414" not in outcome.got


@pytest.mark.parametrize(
    "program",
    [
        "def double(x): return (2 * x,)",
        "import os\ndef double(x): os._exit(0)",
        "def double(x): raise SystemExit(0)",
        "class Equal:\n    def __eq__(self, other): return True\ndef double(x): return Equal()",
        "import sys\nsys.stdout.write('4\\n4\\n')",
    ],
)
def test_assertions_are_judged_outside(program: str) -> None:
    assert verdicts(program, [Case("assert double(2) == 4\nassert double(2) == 4", form="snippet")]) == [False]


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        ("(1, [2])", "(1, [2])"),
        ("__import__('collections').Counter('aab')", "{'a': 2, 'b': 1}"),
        ("{1, 2}", "{2, 1}"),
        ("__import__('numpy').int64(3)", "3"),
        ("1e-7", "0.0000001"),
        ("'ä\\n'", "'ä\\n'"),
        ("True", "1"),
    ],
)
def test_values_of_assertions_are_compared_as_python_compares_them(value: str, literal: str) -> None:
    cases = [Case(f"assert f() == {literal}", form="snippet"), Case("assert f() == [1, [2]]", form="snippet")]
    assert verdicts(f"def f():\n    return {value}", cases) == [True, False]


def test_assertions_that_cannot_be_taken_apart_still_count() -> None:
    near = Case("import math\nassert math.isclose(double(1.5), 3.0)", form="snippet")
    assert verdicts(DOUBLE, [near]) == [True]
    assert verdicts("def double(x): return x", [near]) == [False]


def test_feedback_on_an_assertion_names_the_call_and_both_values() -> None:
    case = Case("assert double(2) == 4\nassert double(5) == 10", form="snippet")
    feedback = feedback_on(check("def double(x):\n    return 4", [case]))
    assert feedback == "Call:\ndouble(5)\nExpected:\n10\nGot:\n4"
    assert "ZeroDivisionError" in feedback_on(check("def double(x):\n    return 1 / 0", [case]))


def test_programs_are_compared_on_the_calls_of_assertions() -> None:
    case = Case("assert double(2) == 5\nassert double(3) == 6", form="snippet")
    one, two = "def double(x): return 2 * x", "def double(x): return 4"
    assert behaviour(one, [case]) == behaviour("def double(y): return y + y", [case]) != behaviour(two, [case])


def test_forms_may_be_mixed_and_outcomes_keep_their_order() -> None:
    cases = [Case("assert double(1) == 2", form="snippet"), *CASES, Case("assert double(1) == 3", form="snippet")]
    assert verdicts(DOUBLE, cases, "double") == [True, True, True, False]


def test_without_cases_there_is_no_verdict() -> None:
    assert check(DOUBLE, []) == []


def test_a_functional_case_needs_an_entry_point() -> None:
    with pytest.raises(UserError, match="needs entry_point"):
        check(DOUBLE, CASES)


@pytest.mark.parametrize(
    "program",
    ["def double(x): return None", "def double(x): raise ValueError('no')", "def double(x): return {1}", "x = 1", "("],
)
def test_wrong_and_broken_programs_pass_nothing(program: str) -> None:
    assert verdicts(program, CASES, "double") == [False, False]


@pytest.mark.parametrize(
    "extra", ["print(double(3))", "if __name__ == '__main__':\n    print('hi')", "import sys\nsys.stdin.read()"]
)
def test_what_a_program_prints_and_reads_beside_its_function_does_not_matter(extra: str) -> None:
    assert verdicts(f"{DOUBLE}\n{extra}", CASES, "double") == [True, True]


def test_output_that_no_parser_can_hold_is_no_crash() -> None:
    program = "def double(x):\n    return 1\nimport sys\nsys._coda[0].write('[' * 100000 + '\\n')\nsys._coda = None"
    assert verdicts(program, CASES, "double") == [False, False]


def test_a_program_that_prints_the_result_itself_does_not_pass_by_it() -> None:
    assert verdicts("def double(x):\n    print(6)\n    return 0", [CASES[0]], "double") == [False]


def test_feedback_names_input_expectation_and_what_came() -> None:
    feedback = feedback_on(check("def double(x):\n    return x + 1", CASES, "double"))
    assert "Input:\n3\nExpected:\n6\nGot:\n4" in feedback
    assert "TypeError" in feedback


def test_long_values_are_cut_in_feedback() -> None:
    outcomes = check("print('x' * 5000)", [Case("", "y")])
    assert len(feedback_on(outcomes)) < 1000


def test_programs_that_do_the_same_behave_the_same() -> None:
    inputs = [Case("3", "", "functional"), Case("-1", "", "functional")]
    one = behaviour("def f(x): return x * x", inputs, "f")
    assert one == behaviour("def f(y):\n    return y ** 2", inputs, "f")
    assert one != behaviour("def f(x): return abs(x) * abs(x) if x > 0 else 0", inputs, "f")


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ("print(6 * 7)", "42"),
        ("print('working')\nprint(7)", "7"),
        ("def solution():\n    return 12", "12"),
        ("def helper(x):\n    return x\ndef answer(x=2):\n    return helper(x) + 1", "3"),
        ("total = 3 * 4\ntotal", "12"),
        ("a = 5\nresult = a + 1", "6"),
        ("from fractions import Fraction\nprint(Fraction(1, 2) + Fraction(1, 4))", "3/4"),
        ("import sympy\nprint(sympy.sqrt(8))", "2*sqrt(2)"),
        ("from sympy import log\nprint(2*log(3))", "2*ln(3)"),
        ("def main():\n    print(42)", "42"),
        ("print(7)\nprint(None)", "7"),
        (" + ".join(["1"] * 900), "900"),
        ("print(0.1 + 0.2)", "0.3"),
        ("print(f'It costs ${1.1 * 3} in all')", "It costs $3.3 in all"),
        ("print(18 - 4e-15)", "18"),
        ("print(100 / 3)", "33.333333333333336"),
        ("print('3.14159265358979323846264338327950288')", "3.14159265358979323846264338327950288"),
        ("def total(a, b):\n    return a + b\n\nif __name__ == '__main__':\n    total(3, 4)", "7"),
    ],
)
def test_what_a_program_computes_is_taken(program: str, answer: str) -> None:
    assert compute(program).answer == answer


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("print(1 / 0)", "ZeroDivisionError"),
        ("def f(x):\n    return x", "it printed nothing"),
        ("import this_is_not_there", "ModuleNotFoundError"),
        ("def f():\n    pass", "it printed nothing"),
    ],
)
def test_why_a_program_computes_nothing_is_said(program: str, problem: str) -> None:
    computed = compute(program)
    assert computed.answer is None
    assert problem in computed.problem


def test_references_of_our_own_tasks_pass_and_stubs_do_not() -> None:
    for question in builtin("code")[::8]:
        assert question.grade(question.answer), question.id
        assert not question.grade(question.meta["broken"]), question.id
        assert question.grade(f"def {question.entry_point or 'main'}(*a):\n    return None") is False


LIAR = """
class Same:
    def __eq__(self, other): return True
    __lt__ = __le__ = __eq__
    def __sub__(self, other): return self
    def __abs__(self): return self

def double(*args, **named): return Same()

class Solution:
    double = staticmethod(double)
"""


@pytest.mark.parametrize(
    "snippet",
    [
        "assert double(2) == 4",
        "solution = Solution()\ngiven = {'x': 2}\nassert solution.double(**given) == 4",
        "candidate = Solution().double\nassert candidate(x=2) == 4",
        "assert set(double([1])) == set([1, 1])",
        "assert abs(double(2) - 4.0) < 1e-6",
        "import math\nassert math.isclose(double(2), 4.0, rel_tol=0.01)",
        "assert double(2) == 4 and double(3) == 3 + 3",
        "def check(f):\n    assert f(2) == 2 * 2\n\ncheck(double)",
        "assert double(2) is 4",
    ],
)
def test_a_value_that_equals_everything_passes_nothing(snippet: str) -> None:
    honest = "def double(x):\n    return 2 * x\nclass Solution:\n    def double(self, x):\n        return 2 * x"
    assert verdicts(honest, [Case(snippet, form="snippet")]) == [True]
    assert verdicts(LIAR, [Case(snippet, form="snippet")]) == [False]


def test_an_assertion_of_identity_wants_the_same_type() -> None:
    case = Case("assert f() is True", form="snippet")
    assert verdicts("def f(): return True", [case]) == [True]
    assert verdicts("def f(): return 1", [case]) == [False]


def test_helpers_of_a_snippet_may_be_used() -> None:
    case = Case("def twice(n):\n    return double(n) * 2\nassert twice(3) == 12", form="snippet")
    assert verdicts(DOUBLE, [case]) == [True]
    assert verdicts("def double(x): return x", [case]) == [False]


@pytest.mark.parametrize("program", [DOUBLE, f"from __future__ import annotations\nprint('hi')\n{DOUBLE}"])
def test_imports_from_the_future_and_prints_do_not_matter(program: str) -> None:
    cases = [*CASES, Case("assert double(2) == 4", form="snippet")]
    assert verdicts(program, cases, "double") == [True, True, True]


def test_lines_in_feedback_are_the_programs_own() -> None:
    (outcome,) = check("def double(x):\n    y = x\n    return y / 0", [CASES[0]], "double")
    assert "line 3" in outcome.problem and "return y / 0" in outcome.problem


def test_a_loop_without_end_costs_two_cases_and_says_where_it_was() -> None:
    cases = [replace(case, seconds=0.3) for case in [Case("1", "2", "functional")] * 12]
    began = time.monotonic()
    outcomes = check("def f(x):\n    while True:\n        x += 1", cases, "f")
    assert time.monotonic() - began < 6  # and not 12 times the limit on top of a busy machine
    assert not any(outcome.passed for outcome in outcomes)
    assert "while True" in outcomes[0].problem or "x += 1" in outcomes[0].problem


@pytest.mark.parametrize(
    ("one", "two", "cases", "entry_point"),
    [
        ("def f(): return {'a': 1, 'b': 2}", "def f(): return {'b': 2, 'a': 1}", [Case("", "", "functional")], "f"),
        ("def f(): return 6", "def f(): return 6.0", [Case("", "", "functional")], "f"),
        ("def f(): return {0, 8}", "def f(): return {8, 0}", [Case("assert f() == {8, 0}", form="snippet")], "f"),
        ("print(0.5)", "print('0.50 ')", [Case("", "")], None),
    ],
)
def test_what_the_check_takes_for_the_same_votes_together(
    one: str, two: str, cases: list[Case], entry_point: str | None
) -> None:
    assert behaviour(one, cases, entry_point) == behaviour(two, cases, entry_point)


def test_many_right_programs_at_once_are_all_right() -> None:
    """Their limits are times: a busy machine must not make them wrong."""

    def passed(number: int) -> bool:
        busy = f"def f(x):\n    for i in range(10**6 + {number}): x += i % 2\n    return {number}"
        return verdicts(busy, [replace(Case("0", str(number), "functional"), seconds=3.0)], "f")[0]

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(passed, range(12)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_runs_programs_of_its_own() -> None:
    code = (
        "import os, sys, threading, time\n"
        "from coda_dspy.programs import Case, check\n"
        "def passes(n): return check(f'print({n})', [Case('', str(n))])[0].passed\n"
        "threading.Thread(target=passes, args=(1,)).start()\n"
        "time.sleep(0.05)\n"  # while the worker starts
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os._exit(0 if passes(2) else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) or not passes(3))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, timeout=60).returncode == 0


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ("total = 2\ntotal += 5", "7"),
        ("x: int = 7", "7"),
        ("def apples():\n    return 5\ntotal = apples() * 3", "15"),
        ("total = 0\nfor n in range(4):\n    total += n", "6"),
        ("if 3 > 2:\n    total = 7\nelse:\n    total = 8", "7"),
        ("try:\n    total = 7\nexcept ValueError:\n    pass", "7"),
        ("while True:\n    total = 5\n    break", "5"),
        ("total = 5\nassert total > 0\n'''The total is 5.'''", "5"),
    ],
)
def test_a_last_value_is_taken_before_a_function_is_called(program: str, answer: str) -> None:
    assert compute(program).answer == answer
