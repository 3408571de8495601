"""Comparing formulas runs in the sandbox: it may hang, crash or be killed, and only that one comparison is lost."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coda_dspy.answers import equivalence
from coda_dspy.answers.equivalence import Comparer
from coda_dspy.errors import UserError
from coda_dspy.programs import choose_sandbox
from coda_dspy.sandbox import SandboxUnavailable, open_sandbox

HANGS = r"\int_0^1 e^{x^{x^x}} dx"


@pytest.fixture(scope="module", params=["auto", "unsafe-subprocess"])
def comparer(request: pytest.FixtureRequest) -> Iterator[Comparer]:
    choose_sandbox(request.param)
    made = Comparer(limit=1.5)
    made.same("1", "2")  # opens its sandbox
    choose_sandbox("auto")
    yield made
    made.close()


def workers(comparer: Comparer) -> list[int]:
    """The processes that compare."""
    assert comparer._sandbox is not None
    launcher = comparer._sandbox._launcher
    if comparer._sandbox.isolation == "none":
        return [run._process.pid for run in launcher._running]  # type: ignore[attr-defined]
    return list(launcher.pids())  # type: ignore[attr-defined]


def test_a_hang_ends_in_time_and_the_next_comparison_works(comparer: Comparer) -> None:
    assert equivalence.LIMIT_SECONDS <= 3
    begun = time.monotonic()
    assert not comparer.same(HANGS, "1")
    assert time.monotonic() - begun < 3.0
    assert comparer.same(r"\sqrt{8}", r"2\sqrt{2}")


def test_killed_workers_are_replaced(comparer: Comparer) -> None:
    assert comparer.same(r"\sqrt{12}", r"2\sqrt{3}")
    first = workers(comparer)
    for pid in first:
        os.kill(pid, 9)
    assert comparer.same(r"\sqrt{20}", r"2\sqrt{5}")
    assert not set(first) & set(workers(comparer))


def test_many_threads_at_once(comparer: Comparer) -> None:
    def compare(n: int) -> bool:
        return comparer.same(rf"\sqrt{{{n * n * 3}}}", rf"{n + n % 2}\sqrt{{3}}")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(compare, range(2, 26))) == [n % 2 == 0 for n in range(2, 26)]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_no_key_is_in_the_environment(comparer: Comparer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    for pid in workers(comparer):
        os.kill(pid, 9)
    comparer.same(r"\pi", "3")
    for pid in workers(comparer):
        assert b"KEY" not in Path(f"/proc/{pid}/environ").read_bytes()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_no_descriptor_is_left_open() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    comparer = Comparer()
    comparer.same(r"\pi", "4")
    comparer.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_it_runs_where_programs_run() -> None:
    comparer = Comparer()
    comparer.same(r"\pi", "3")
    assert comparer._sandbox is not None
    with open_sandbox() as sandbox:
        assert comparer._sandbox.isolation == sandbox.isolation
    comparer.close()


def test_many_comparisons_at_once_are_all_found_out() -> None:
    comparer = Comparer()

    def compare(k: int) -> bool:
        return comparer.same(f"(x+{k})^2", f"x^2+{2 * k}x+{k * k}")

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(compare, range(2, 14)))
    comparer.close()


def test_what_was_not_found_out_in_time_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    comparer = Comparer()
    verdicts = iter([None, True])
    monkeypatch.setattr(comparer, "_compared", lambda a, b: next(verdicts))
    assert [comparer.same("a", "b") for _ in range(3)] == [False, True, True]


def test_one_comparison_leaves_nothing_for_the_next() -> None:
    """In the sandbox, even code that took over one comparison could not change another verdict."""
    comparer = Comparer()
    for _ in range(2):
        with comparer._session() as session:
            assert session.execute("hasattr(formulas, 'taken')", {})["value"] is False
            session.execute("formulas.taken = True", {})
    comparer.close()


def test_where_no_sandbox_starts_a_plain_process_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(kind: str = "auto", *args: object, **kwargs: object) -> object:
        if kind != "unsafe-subprocess":
            raise SandboxUnavailable({"namespaces": "not here"})
        return open_sandbox(kind)

    monkeypatch.setattr(equivalence, "open_sandbox", refuse)
    comparer = Comparer()
    assert comparer.same(r"\sqrt{8}", r"2\sqrt{2}")
    assert comparer._sandbox is not None and comparer._sandbox.isolation == "none"
    comparer.close()


@pytest.mark.parametrize("kind", ["auto", "unsafe-subprocess"])
def test_what_cannot_be_loaded_is_named(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "formulas.py"
    broken.write_text("import a_package_that_nobody_has\n")
    monkeypatch.setattr(equivalence, "_FORMULAS", broken)
    monkeypatch.setattr(equivalence, "chosen_kind", lambda: kind)
    with pytest.raises(UserError, match=r"a_package_that_nobody_has.*math-verify"):
        Comparer().same(r"\pi", "3")


def test_nothing_heavy_is_imported_here() -> None:
    code = "import sys, coda_dspy.answers; sys.exit(bool({'sympy', 'math_verify', 'mpmath'} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ).returncode
        == 0
    )


def test_the_processes_end_with_their_program() -> None:
    code = (
        "from coda_dspy.answers import equivalence as e\n"
        "assert e.equivalent(r'\\sqrt{8}', r'2\\sqrt{2}')\n"
        "import sys; sys.stdout.write(' '.join(map(str, e._comparer._sandbox._launcher.pids())))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    for pid in map(int, done.stdout.split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
