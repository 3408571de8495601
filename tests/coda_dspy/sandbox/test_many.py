"""Many inputs of one program give what one run for each of them gives."""

from dataclasses import replace

import pytest

from coda_dspy.sandbox import ExecutionResult, Limits, Sandbox

NUMBERS = [str(n) for n in range(7)]
PROGRAMS = {
    "plain": "print(int(input()) ** 2)",
    "fails on one": "n = int(input())\nprint(n)\nprint(6 // (n - 3))",
    "fails on all": "print(input())\nraise ValueError('no')",
    "does not compile": "print(",
    "leaves with a code": "import sys\nn = int(input())\nprint(n)\nsys.exit(n % 3)",
    "leaves past Python": "import os\nprint(input(), flush=True)\nos._exit(0)",
    "writes past Python": "import os\nos.write(1, input().encode())",
    "writes past Python, to stderr": "import os\nos.write(2, input().encode())\nprint('x')",
    "reads descriptor 0": "print(open(0).read())",
    "stderr": "import sys\nprint(input(), file=sys.stderr)",
    "bytes": "import sys\nsys.stdout.buffer.write(b'\\xff' + sys.stdin.buffer.read())",
    "exit handlers": "import atexit\nn = input()\natexit.register(print, 'bye', n)",
    "threads": "import threading\nn = input()\nt = threading.Thread(target=print, args=(n,))\nt.start()\nt.join()",
    "a thread left over": (
        "import threading, time\nn = input()\n"
        "threading.Thread(target=lambda: (time.sleep(.02), print(n))).start()"
    ),
    "a recursion limit": "import sys\nprint(sys.getrecursionlimit())\nsys.setrecursionlimit(5000)",
    "builtins": (
        "import builtins\nprint(hasattr(builtins, 'left'), abs(-int(input())))\nbuiltins.left = 1\n"
        "builtins.abs = None"
    ),
    "environment": "import os\nprint(os.environ.get('LEFT'), input())\nos.environ['LEFT'] = '1'",
    "replaced streams": (
        "import io, sys\nn = input()\nsys.stdout = io.StringIO()\nprint(n)\nsys.__stdout__.write(n + '!')"
    ),
    "closed streams": "import sys\nprint(input())\nsys.stdout.close()",
    "decimal's precision": (
        "import decimal\nn = input()\nprint(decimal.getcontext().prec)\ndecimal.getcontext().prec = 50"
    ),
    "crashes on one": "import ctypes\nn = int(input())\nprint(n)\nif n == 2: ctypes.string_at(0)",
    "prints too much on one": "n = int(input())\nprint('x' * (5000 if n == 4 else 5))",
    "main": "import __main__\nprint(hasattr(__main__, 'left'), input())\nleft = 1",
    "a closed descriptor": "import os\nprint(input())\nos.close(0)",
}  # fmt: skip
LIMITS = Limits(output_bytes=1000, seconds=5)


def comparable(result: ExecutionResult) -> ExecutionResult:
    return replace(result, seconds=0.0, cpu_seconds=0.0, max_rss_mb=0.0)


@pytest.mark.parametrize("code", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_together_as_one_by_one(contained: Sandbox, code: str) -> None:
    together = contained.run_many(code, NUMBERS, LIMITS)
    one_by_one = [contained.run(code, stdin, limits=LIMITS) for stdin in NUMBERS]
    assert list(map(comparable, together)) == list(map(comparable, one_by_one))


FEW = ("plain", "fails on one", "leaves past Python", "crashes on one")


@pytest.mark.parametrize("any_sandbox", ["unsafe-subprocess"], indirect=True)
@pytest.mark.parametrize("name", FEW)
def test_without_walls(any_sandbox: Sandbox, name: str) -> None:
    test_together_as_one_by_one(any_sandbox, PROGRAMS[name])


@pytest.mark.parametrize("name", FEW)
def test_of_an_ordinary_user(place, name: str) -> None:
    together = place.sandbox.run_many(PROGRAMS[name], NUMBERS, LIMITS)
    one_by_one = [place.sandbox.run(PROGRAMS[name], stdin, limits=LIMITS) for stdin in NUMBERS]
    assert list(map(comparable, together)) == list(map(comparable, one_by_one))


@pytest.mark.parametrize(
    "loop",
    [
        "while True: pass",
        "while True:\n        try:\n            while True: pass\n        except BaseException: pass",
        "import signal; signal.setitimer(signal.ITIMER_REAL, 0)\n    while True: pass",
        "import time; time.sleep(100)",
    ],
)
def test_each_input_has_a_limit_of_its_own(contained: Sandbox, loop: str) -> None:
    code = f"n = int(input())\nprint(n)\nif n == 2:\n    {loop}"
    results = contained.run_many(code, NUMBERS, Limits(seconds=0.5))
    assert [result.timed_out for result in results] == [n == "2" for n in NUMBERS]
    assert [result.stdout for result in results if not result.timed_out] == [f"{n}\n" for n in NUMBERS if n != "2"]
    assert results[2].exit_code is None


def test_stop_ends_it_there(contained: Sandbox) -> None:
    seen: list[int] = []

    def stop(index: int, result: ExecutionResult) -> bool:
        seen.append(index)
        return result.stdout != f"{index}\n"

    code = "n = int(input())\nprint(n if n < 4 else 'wrong')"
    results = contained.run_many(code, NUMBERS, stop=stop)
    assert seen == [0, 1, 2, 3, 4]
    assert [result.stdout for result in results] == ["0\n", "1\n", "2\n", "3\n", "wrong\n"]


def test_stop_ends_single_runs_too(contained: Sandbox) -> None:
    results = contained.run_many(PROGRAMS["leaves past Python"], NUMBERS, stop=lambda index, _: index == 1)
    assert len(results) == 2


@pytest.mark.parametrize("count", [0, 1, 2, 32, 33, 70])
def test_any_number_of_inputs(contained: Sandbox, count: int) -> None:
    stdins = [str(n) for n in range(count)]
    results = contained.run_many(PROGRAMS["plain"], stdins)
    assert [result.stdout for result in results] == [f"{n * n}\n" for n in range(count)]


def test_a_large_input_among_others(contained: Sandbox) -> None:
    results = contained.run_many("print(len(input()))", ["x" * (1 << 20), "x", b"\xff"])
    assert [result.stdout for result in results] == ["1048576\n", "1\n", "1\n"]
