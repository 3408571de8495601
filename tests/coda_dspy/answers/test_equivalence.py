"""The child process: it may hang, crash or be killed, and only that one comparison is lost."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coda_dspy.answers import equivalence
from coda_dspy.answers.equivalence import Comparer
from coda_dspy.errors import UserError

HANGS = r"\int_0^1 e^{x^{x^x}} dx"


@pytest.fixture(scope="module")
def comparer() -> Iterator[Comparer]:
    made = Comparer()
    yield made
    made.close()


def pid(comparer: Comparer) -> int:
    assert comparer._child is not None
    return comparer._child.process.pid


def test_a_hang_ends_in_time_and_the_next_comparison_works() -> None:
    assert equivalence.LIMIT_SECONDS <= 3
    comparer = Comparer(limit=1.5)
    comparer.same("1", "2")
    begun = time.monotonic()
    assert not comparer.same(HANGS, "1")
    assert not comparer.same("1", HANGS)  # known by now
    assert time.monotonic() - begun < 2.5
    assert comparer.same(r"\sqrt{8}", r"2\sqrt{2}")
    comparer.close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_a_killed_child_is_replaced(comparer: Comparer) -> None:
    assert comparer.same(r"\sqrt{12}", r"2\sqrt{3}")
    first = pid(comparer)
    os.kill(first, 9)
    assert comparer.same(r"\sqrt{20}", r"2\sqrt{5}")
    assert pid(comparer) != first


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_a_child_killed_in_the_middle_is_asked_again() -> None:
    comparer = Comparer(limit=1.0)
    assert comparer.same(r"\sqrt{28}", r"2\sqrt{7}")
    first = pid(comparer)
    threading.Timer(0.3, os.kill, (first, 9)).start()
    assert not comparer.same(HANGS, "1")
    assert comparer.same(r"\sqrt{44}", r"2\sqrt{11}")
    assert pid(comparer) != first
    comparer.close()


def test_many_threads_at_once(comparer: Comparer) -> None:
    def compare(n: int) -> bool:
        return comparer.same(rf"\sqrt{{{n * n * 3}}}", rf"{n + n % 2}\sqrt{{3}}")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(compare, range(2, 26))) == [n % 2 == 0 for n in range(2, 26)]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_the_child_sees_no_key(comparer: Comparer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    comparer.close()
    comparer.same("1", "2")
    comparer.same(r"\pi", "3")
    assert b"KEY" not in Path(f"/proc/{pid(comparer)}/environ").read_bytes()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_no_descriptor_is_left_open(comparer: Comparer) -> None:
    comparer.close()
    before = len(list(Path("/proc/self/fd").iterdir()))
    comparer.same(r"\pi", "4")
    comparer.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_child_that_cannot_start_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit(1)\n")
    monkeypatch.setattr(equivalence, "_WORKER", broken)
    with pytest.raises(UserError, match="math-verify"):
        Comparer().same(r"\pi", "3")


def test_nothing_heavy_is_imported_here() -> None:
    code = "import sys, coda_dspy.answers; sys.exit(bool({'sympy', 'math_verify', 'mpmath'} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ).returncode
        == 0
    )


def test_the_child_ends_with_its_program() -> None:
    code = (
        "from coda_dspy.answers import equivalence as e\n"
        "assert e.equivalent(r'\\sqrt{8}', r'2\\sqrt{2}')\n"
        "import sys; sys.stdout.write(str(e._comparer._child.process.pid))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    if sys.platform != "win32":
        with pytest.raises(ProcessLookupError):
            os.kill(int(done.stdout), 0)
