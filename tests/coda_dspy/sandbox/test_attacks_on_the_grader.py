"""Programs that want to look right instead of being right, and that search for what the grader knows."""

import secrets

import pytest

from coda_dspy.programs import Case, check


def test_exit_code_0_is_no_answer(attack) -> None:
    for code in ("import os\nos._exit(0)", "raise SystemExit(0)", "import sys\nsys.exit(0)"):
        result = attack(code)
        assert (result.stdout, result.exit_code) == ("", 0)


def test_exit_codes_are_the_real_ones(attack) -> None:
    assert attack("import os\nos._exit(77)").exit_code == 77
    assert attack("raise SystemExit('message')").exit_code == 1
    # 125 is what a worker's child ends with when its walls do not stand; a program that ends so has failed, no more.
    result = attack("import os, sys\nsys.stderr.write('sandbox setup failed: no')\nsys.stderr.flush()\nos._exit(125)")
    assert (result.exit_code, result.error) == (125, "")


MARKERS = """
import json, os
texts = [b"PASSED\\n", b"OK\\n", b"All tests passed\\n", b'{"passed": true}\\n',
         json.dumps({"code": 0, "seconds": 0.1, "overdue": False, "cpu": 0, "rss": 1}).encode() + b"\\n",
         json.dumps({"setup": "failed"}).encode() + b"\\n"]
open_ones = []
for descriptor in range(3, 1024):
    for text in texts:
        try:
            os.write(descriptor, text)
            open_ones.append(descriptor)
        except OSError:
            pass
for text in texts:
    os.write(1, text)
print("open:", open_ones)
os._exit(9)
"""


def test_printed_markers_change_no_record(attack) -> None:
    result = attack(MARKERS)
    assert result.exit_code == 9 and not result.ok and not result.error
    assert result.seconds != 0.1
    assert result.stdout.startswith("PASSED\nOK\n")
    assert "open:" not in result.stdout or "open: []" in result.stdout


SEARCH = """
import ctypes, gc, sys
needle = "expected" + "-is-"
found = set()
for module in list(sys.modules.values()):
    for value in list(vars(module).values()):
        if isinstance(value, str) and needle in value:
            found.add(value)
for thing in gc.get_objects():
    text = repr(thing)[:2000] if isinstance(thing, (dict, list, tuple)) else ""
    if needle in text:
        found.add(text)
frame = sys._getframe()
while frame:
    found.update(str(v) for v in frame.f_locals.values() if isinstance(v, str) and needle in v and v != needle)
    frame = frame.f_back
"""


@pytest.mark.parametrize("form", ["stdin", "functional", "snippet"])
def test_the_expected_output_is_not_in_the_process(form: str) -> None:
    """A program that searches its whole process for what the grader expects of it."""
    expected = "expected-is-" + secrets.token_hex(8)
    spy = "def f():\n" + "".join(f"    {line}\n" for line in SEARCH.splitlines()) + "    return str(found)\n"
    program = {"stdin": f"{spy}\nprint(f())"}.get(form, spy)
    case = {
        "stdin": Case("", expected),
        "functional": Case("", f'"{expected}"', "functional"),
        "snippet": Case(f"assert f() == '{expected}'", form="snippet"),
    }[form]
    (outcome,) = check(program, [case], "f")
    assert not outcome.passed and outcome.problem == "" and outcome.got
    assert expected[12:] not in outcome.got


PATCH = """
import builtins, json, os, subprocess, sys, unittest
class Equal(str):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = str.__hash__
print(Equal("wrong"))
sys.stdout.flush()
builtins.print = lambda *a, **k: None
builtins.str = Equal
json.loads = json.dumps = lambda *a, **k: True
unittest.TestCase.assertEqual = lambda *a: None
subprocess.run = os._exit = lambda *a, **k: None
sys.exit = lambda *a: None
sys.modules["json"] = sys.modules["os"] = None
"""


def test_patches_reach_nobody(attack) -> None:
    result = attack(PATCH)
    assert result.stdout == "wrong\n"
    assert type(result.stdout) is str
    assert attack("import json, os\nprint(json.dumps([1]), 'right')").stdout == "[1] right\n"


@pytest.mark.parametrize("write", ["sys.stdout.buffer.write({0})", "os.write(1, {0})", "sys.stderr.buffer.write({0})"])
def test_bytes_that_are_no_text(attack, write: str) -> None:
    data = b"\xff\xfe\x00\x1b]0;title\x07\x1b[2J\x80ok"
    result = attack(f"import os, sys\n{write.format(data)}")
    assert (result.stdout + result.stderr) == data.decode("utf-8", "replace")
    assert result.ok


def test_lone_surrogates(attack) -> None:
    assert attack("print('\\ud800')").stdout == "\\ud800\n"


def test_no_other_engine_to_climb_through(attack) -> None:
    code = """
for name in ("js", "pyodide", "pyodide_js", "java", "clr"):
    try:
        __import__(name)
        print("GOT", name)
    except ImportError:
        pass
"""
    result = attack(code)
    assert result.stdout == "" and result.ok


def test_a_formula_that_is_a_program(attack) -> None:
    code = """
from sympy import sympify
try:
    print(sympify("__import__('os').environ.get('OPENAI_API_KEY', 'no key')"))
    print(sympify("__import__('os').system('echo GOT')"))
    print(sympify("open('/etc/passwd').read()"))
except Exception as error:
    print(type(error).__name__)
"""
    result = attack(code, seconds=30)
    assert "GOT" not in result.stdout and "root:" not in result.stdout


def test_one_of_many_inputs_cannot_write_the_report_of_another(place) -> None:
    code = """
import json, os
n = int(input())
lie = {"stdout": "MTAK", "stderr": "", "code": 0, "timed_out": False, "seconds": 0, "cpu": 0, "rss": 1}
for descriptor in range(3, 100):
    try:
        os.write(descriptor, (json.dumps(lie) + chr(10)).encode() * 3)
    except OSError:
        pass
print(n)
"""
    results = place.sandbox.run_many(code, [str(n) for n in range(6)])
    # It can only lie about itself, and there is nothing in its process that tells it which lie is right.
    assert len(results) == 6
    assert not any(result.error for result in results)
