"""Ordinary programs run as they would under plain Python, in every kind of sandbox."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coda_dspy.errors import UserError
from coda_dspy.sandbox import Limits, Sandbox

IDIOMS = {
    "input": ("a, b = map(int, input().split())\nprint(a + b)", "1 2\n", "3\n"),
    "stdin, line by line": ("import sys\nprint(sum(int(line) for line in sys.stdin))", "1\n2\n3\n", "6\n"),
    "stdin, all of it": ("import sys\nprint(sys.stdin.read().split())", "a b\nc", "['a', 'b', 'c']\n"),
    "stdin, its bytes": ("import sys\nprint(sys.stdin.buffer.readline())", "x\n", "b'x\\n'\n"),
    "open(0)": ("print(open(0).read())", "zero", "zero\n"),
    "os.read": ("import os\nprint(os.read(0, 100))", "bytes", "b'bytes'\n"),
    "readline by another name": ("import sys\ninput = sys.stdin.readline\nprint(input().strip())", "x\ny", "x\n"),
    "end of input": ("try:\n    input()\nexcept EOFError:\n    print('end')", "", "end\n"),
    "write": ("import sys\nsys.stdout.write('a')\nsys.stdout.buffer.write(b'')", "", "a"),
    "unflushed at exit": ("import atexit\natexit.register(print, 2)\nprint(1, end=' ')", "", "1 2\n"),
    "main guard": ("if __name__ == '__main__':\n    print(__name__)", "", "__main__\n"),
    "exit": ("print(1)\nexit(0)", "", "1\n"),
    "quit": ("print(1)\nquit()", "", "1\n"),
    "argv": ("import sys\nprint(sys.argv)", "", "['main.py']\n"),
    "recursion, 100,000 deep": (
        "import sys\nsys.setrecursionlimit(200_000)\ndef f(n): return n if n == 0 else f(n - 1) + 1\nprint(f(100_000))",
        "",
        "100000\n",
    ),
    "recursion in a thread with its own stack": (
        "import sys, threading\nthreading.stack_size(128 << 20)\nsys.setrecursionlimit(10**6)\n"
        "def f(n): return 0 if n == 0 else f(n - 1) + 1\n"
        "t = threading.Thread(target=lambda: print(f(50_000)))\nt.start()\nt.join()",
        "",
        "50000\n",
    ),
    "a thread that is not waited for": (
        "import threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print('late'))).start()\nprint('now')",
        "",
        "now\nlate\n",
    ),
    "a pool": (
        "from concurrent.futures import ThreadPoolExecutor as P\nwith P(4) as p: print(list(p.map(abs, range(-2, 2))))",
        "",
        "[2, 1, 0, 1]\n",
    ),
    "a pool that nobody closes": (
        "from concurrent.futures import ThreadPoolExecutor as P\nprint(P(4).submit(abs, -1).result())",
        "",
        "1\n",
    ),
    "asyncio": ("import asyncio\nasync def f(): await asyncio.sleep(0); return 1\nprint(asyncio.run(f()))", "", "1\n"),
    "dataclasses and typing": (
        "from dataclasses import *\nfrom typing import *\n@dataclass\nclass P:\n    x: List[int]\nprint(P([1]))",
        "",
        "P(x=[1])\n",
    ),
    "pickle of its own class": (
        "import pickle\nclass A: x = 1\nprint(pickle.loads(pickle.dumps(A())).x)",
        "",
        "1\n",
    ),
    "copy of a nested function's closure": ("def f(x):\n    return lambda: x\nprint(f(2)())", "", "2\n"),
    "large integers": ("import sys\nsys.set_int_max_str_digits(0)\nprint(len(str(10**5000)))", "", "5001\n"),
    "unicode": ("print(input())", "żółć ∑ 🎉", "żółć ∑ 🎉\n"),
    "random, seeded": ("import random\nrandom.seed(1)\nprint(random.randint(1, 100))", "", "18\n"),
    "time": ("import time\nt = time.perf_counter()\ntime.sleep(0.01)\nprint(time.perf_counter() > t)", "", "True\n"),
    "doctest": (
        "def f():\n    '''\n    >>> 1 + 1\n    2\n    '''\nimport doctest\nprint(doctest.testmod())",
        "",
        "TestResults(failed=0, attempted=1)\n",
    ),
    "inspect its own source": ("import inspect\ndef f(): 1\nprint(inspect.getsource(f), end='')", "", "def f(): 1\n"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "stdin", "expected"), IDIOMS.values(), ids=IDIOMS.keys())
def test_idiom(any_sandbox: Sandbox, code: str, stdin: str, expected: str) -> None:
    result = any_sandbox.run(code, stdin)
    assert (result.stdout, result.stderr, result.exit_code) == (expected, "", 0)
    assert result.ok and result.isolation == any_sandbox.isolation


@pytest.mark.parametrize("place", ["namespaces-ordinary", "landlock-ordinary"], indirect=True)
@pytest.mark.parametrize(("code", "stdin", "expected"), IDIOMS.values(), ids=IDIOMS.keys())
def test_idiom_of_an_ordinary_user(place, code: str, stdin: str, expected: str) -> None:
    result = place.sandbox.run(code, stdin)
    assert (result.stdout, result.stderr, result.exit_code) == (expected, "", 0)


def test_numpy_and_sympy(any_sandbox: Sandbox) -> None:
    pytest.importorskip("sympy")
    pytest.importorskip("numpy")
    code = "import numpy as np, sympy as sp\nx = sp.symbols('x')\n"
    code += "print(sp.integrate(x**2, (x, 0, 3)), np.linalg.det(np.eye(3)))"
    result = any_sandbox.run(code, limits=Limits(seconds=60))
    assert (result.stdout, result.stderr) == ("9 1.0\n", "")


def test_packages_are_found_where_no_import_line_shows_them(any_sandbox: Sandbox) -> None:
    pytest.importorskip("sympy")
    code = "print(__import__('sym' + 'py').factorint(12))"
    assert any_sandbox.run(code, limits=Limits(seconds=60)).stdout == "{2: 2, 3: 1}\n"


def test_files_are_in_the_folder_it_starts_in(any_sandbox: Sandbox) -> None:
    files = {"data.txt": "ü\n", "raw.bin": b"\x00\xff", "helper.py": "x = 3"}
    code = "print(open('data.txt', encoding='utf-8').read(), open('raw.bin', 'rb').read())"
    assert any_sandbox.run(code, files=files).stdout == "ü\n b'\\x00\\xff'\n"


def test_root_s_programs_read_their_files_as_another_user(roots_sandbox) -> None:
    code = """
import os
print(os.getuid() != 0, os.listdir("."), open("data.txt").read())
for way in (lambda: open("data.txt", "a"), lambda: open("new", "w"), lambda: os.listdir("..")):
    try:
        way()
    except PermissionError:
        print("refused")
"""
    result = roots_sandbox.run(code, files={"data.txt": "seen"})
    assert (result.stdout, result.error) == ("True ['data.txt'] seen\n" + 3 * "refused\n", "")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/passwd", "../x", "x\0y", "n" * 256])
def test_file_names_that_lead_elsewhere_are_refused(any_sandbox: Sandbox, name: str) -> None:
    with pytest.raises(UserError, match="no plain file name"):
        any_sandbox.run("print(1)", files={name: "x"})


@pytest.mark.parametrize("contained", ["namespaces"], indirect=True)
def test_files_that_do_not_fit_are_an_error_of_the_sandbox(contained: Sandbox) -> None:
    result = contained.run("print(1)", files={"large": "x" * (3 << 20)}, limits=Limits(disk_mb=1))
    assert "No space left" in result.error and not result.ok and result.stdout == ""


@pytest.mark.parametrize("any_sandbox", ["namespaces", "unsafe-subprocess"], indirect=True)
def test_a_private_folder_can_be_written(any_sandbox: Sandbox) -> None:
    code = """
import os, tempfile
os.mkdir("folder")
with open("folder/file", "w") as file: file.write("content")
os.rename("folder/file", "other")
with tempfile.NamedTemporaryFile("w+") as file: file.write("x")
print(open("other").read(), os.listdir("folder"))
"""
    assert any_sandbox.run(code).stdout == "content []\n"


def test_five_megabytes_in_and_out(any_sandbox: Sandbox) -> None:
    data = "0123456789abcdef" * (5 << 16)
    result = any_sandbox.run("import sys\nprint(sys.stdin.read(), end='')", data, limits=Limits(output_bytes=6 << 20))
    assert result.stdout == data


def test_five_megabytes_that_nobody_reads(any_sandbox: Sandbox) -> None:
    assert any_sandbox.run("print(1)", b"x" * (5 << 20)).stdout == "1\n"


def test_an_error_shows_the_program_and_nothing_of_ours(any_sandbox: Sandbox) -> None:
    result = any_sandbox.run("def f():\n    return 1 / 0\nprint('before')\nf()")
    assert result.stdout == "before\n"
    assert result.exit_code == 1
    assert 'File "main.py", line 2, in f\n    return 1 / 0' in result.stderr
    assert result.stderr.count("File ") == 2
    assert result.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_a_syntax_error_shows_its_line(any_sandbox: Sandbox) -> None:
    result = any_sandbox.run("x = 1\ny = = 2\n")
    assert result.exit_code == 1
    assert "line 2" in result.stderr and "y = = 2" in result.stderr and "SyntaxError" in result.stderr


def test_a_time_limit_shows_where_the_program_stood(any_sandbox: Sandbox) -> None:
    result = any_sandbox.run("print('so far')\nwhile True:\n    pass", limits=Limits(seconds=0.4))
    assert result.timed_out
    assert result.stdout == "so far\n"
    assert 'File "main.py", line' in result.stderr
    assert result.stderr.endswith("TimeoutError: the limit of 0.4 seconds was reached\n")


def test_many_threads_use_one_sandbox(any_sandbox: Sandbox) -> None:
    def one(n: int) -> str:
        return any_sandbox.run("print(int(input()) ** 2)", str(n)).stdout

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(24))) == [f"{n * n}\n" for n in range(24)]


def test_the_thread_that_started_it_may_end(any_sandbox: Sandbox) -> None:
    from coda_dspy.sandbox import open_sandbox

    opened: list[Sandbox] = []
    thread = threading.Thread(target=lambda: opened.append(open_sandbox(any_sandbox.name)))
    thread.start()
    thread.join()
    with opened[0] as sandbox:
        assert sandbox.run("print(1)").stdout == "1\n"


ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.sampled_from(["\0", "\ud800", "(" * 500, "# coding: x"])
RELAXED = settings(max_examples=15, suppress_health_check=list(HealthCheck))


@RELAXED
@given(code=ANY_TEXT, stdin=ANY_TEXT)
def test_no_text_is_an_exception_here(contained: Sandbox, code: str, stdin: str) -> None:
    result = contained.run(code, stdin, limits=Limits(seconds=5))
    assert not result.error


@RELAXED
@given(data=st.binary(), text=ANY_TEXT)
def test_any_input_arrives_as_it_is(contained: Sandbox, data: bytes, text: str) -> None:
    code = "import sys\nprint(sys.stdin.buffer.read().hex())"
    assert contained.run(code, data).stdout == data.hex() + "\n"
    assert contained.run(code, text).stdout == text.encode("utf-8", "surrogatepass").hex() + "\n"


def test_python_is_this_python(any_sandbox: Sandbox) -> None:
    assert any_sandbox.run("import sys\nprint(tuple(sys.version_info))").stdout == f"{tuple(sys.version_info)}\n"
