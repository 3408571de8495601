"""Nothing is left behind: no process, no file, no descriptor, whoever dies first."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from coda_dspy.errors import UserError
from coda_dspy.sandbox import (
    ExecutionResult,
    Limits,
    Sandbox,
    SandboxUnavailable,
    forkserver,
    open_sandbox,
    report,
)
from coda_dspy.sandbox.errors import SandboxLost

LEVELS = ("namespaces", "landlock")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc")


def session_of(leader: int) -> set[int]:
    """The living processes of the session that a worker leads, its namespaces' included."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.add(int(path.parent.name))
    return found


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def pids(sandbox: Sandbox) -> list[int]:
    launcher = sandbox._launcher
    assert isinstance(launcher, forkserver.ForkServer)
    return launcher.pids()


def test_two_hundred_runs_leave_nothing(fresh: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    count = 200 if fresh.isolation != "none" else 12
    fresh.run("print(1)", files={"a": "b"})
    workers = pids(fresh) if fresh.isolation != "none" else []
    before = descriptors(), [session_of(pid) for pid in workers], threading.active_count()
    for number in range(count):
        result = fresh.run("print(int(input()) + 1)", str(number), files={"a": "b"})
        assert result.stdout == f"{number + 1}\n", result
    assert within(2, lambda: threading.active_count() <= before[2])
    assert (descriptors(), [session_of(pid) for pid in workers]) == before[:2]
    assert list(tmp_path.iterdir()) == []
    assert [len(list(Path(f"/proc/{pid}/fd").iterdir())) < 12 for pid in session_of(workers[0])] if workers else True


def test_runs_that_fail_leave_nothing(fresh: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    limits = Limits(seconds=0.2, output_bytes=1000)
    fresh.run("print(1)")
    workers = pids(fresh) if fresh.isolation != "none" else []
    before = descriptors(), [session_of(pid) for pid in workers]
    for code in ("1/0", "while True: pass", "print('x' * 10**6)", "import os\nos.abort()", "import os\nos._exit(3)"):
        fresh.run(code, limits=limits, files={"a": "b"})
        fresh.run_many(code, ["1", "2"], limits=limits)
    assert within(2, lambda: (descriptors(), [session_of(pid) for pid in workers]) == before)
    assert list(tmp_path.iterdir()) == []


def test_close_ends_everything(fresh: Sandbox) -> None:
    fresh.run("import sympy")
    workers = pids(fresh) if fresh.isolation != "none" else []
    results = []
    thread = threading.Thread(target=lambda: results.append(fresh.run("import time\ntime.sleep(60)")))
    thread.start()
    time.sleep(0.3)
    fresh.close()
    thread.join(5)
    assert not thread.is_alive()
    assert not results[0].ok
    assert within(2, lambda: not any(session_of(pid) for pid in workers))
    fresh.close()


def test_a_closed_sandbox_says_so(fork_server: Sandbox) -> None:
    fork_server.close()
    assert fork_server.run("print(1)").error == "the sandbox is closed"
    assert [result.error for result in fork_server.run_many("print(1)", ["", ""])] == ["the sandbox is closed"] * 2
    with pytest.raises(SandboxLost, match="closed"):
        fork_server.session()


def started(sandbox: Sandbox, code: str) -> tuple[threading.Thread, list[ExecutionResult]]:
    """A run in the background, and where its result goes."""
    results: list[ExecutionResult] = []
    thread = threading.Thread(target=lambda: results.append(sandbox.run(code)))
    thread.start()
    return thread, results


def kill_worker(sandbox: Sandbox, but: set[int] = frozenset()) -> int:  # type: ignore[assignment]
    """End the worker, another one than those in `but`, and everything below it."""
    assert within(10, lambda: bool(set(pids(sandbox)) - but))
    (worker,) = set(pids(sandbox)) - but
    time.sleep(0.3)
    # The worker first: it would report a run that was killed below it, and the run would be over.
    for pid in sorted(session_of(worker), key=lambda pid: pid != worker):
        with suppress(ProcessLookupError):  # the first of them may take the others with it
            os.kill(pid, signal.SIGKILL)
    return worker


def test_a_run_whose_worker_dies_is_repeated_in_another(fork_server: Sandbox) -> None:
    thread, results = started(fork_server, "import time\ntime.sleep(1)\nprint('done')")
    worker = kill_worker(fork_server)
    thread.join(30)
    assert (results[0].stdout, results[0].error) == ("done\n", "")
    assert within(2, lambda: not session_of(worker))


def test_workers_that_die_again_are_told_of_and_replaced(fork_server: Sandbox) -> None:
    thread, results = started(fork_server, "import time\ntime.sleep(60)")
    first = kill_worker(fork_server)
    kill_worker(fork_server, but={first})
    thread.join(10)
    assert not thread.is_alive()
    assert "died during the run" in results[0].error and not results[0].ok
    for _ in range(3):
        assert fork_server.run("print(1)").stdout == "1\n"


def test_a_process_below_the_worker_that_dies_ends_one_run(fork_server: Sandbox) -> None:
    thread, _ = started(fork_server, "import time\ntime.sleep(60)")
    time.sleep(0.5)
    (worker,) = pids(fork_server)
    os.kill(max(session_of(worker) - {worker}, default=worker), signal.SIGKILL)
    thread.join(1)
    assert fork_server.run("print(1)").stdout == "1\n"
    fork_server.close()
    thread.join(10)
    assert not thread.is_alive()


HOST = """
import sys, threading, time
from coda_dspy.sandbox import open_sandbox
sandbox = open_sandbox(sys.argv[1])
sandbox.run("print(1)")
session = sandbox.session()
for code in ("while True: pass", "import time\\ntime.sleep(99)"):
    threading.Thread(target=sandbox.run, args=(code,), daemon=True).start()
time.sleep(0.3)
print(*sandbox._launcher.pids(), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("level", LEVELS)
def test_when_the_host_is_killed_all_are_gone(level: str) -> None:
    root = Path(__file__).parents[3]
    host = subprocess.Popen([sys.executable, "-c", HOST, level], stdout=subprocess.PIPE, text=True, cwd=root)
    assert host.stdout is not None
    workers = [int(pid) for pid in host.stdout.readline().split()]
    if not workers:
        pytest.skip("this level does not start here")
    alive = set().union(*(session_of(pid) for pid in workers))
    host.kill()
    host.wait()
    host.stdout.close()
    assert len(alive) >= 3
    assert within(2, lambda: not any(session_of(pid) for pid in workers))


def test_a_fork_of_the_host_starts_its_own_workers(fork_server: Sandbox) -> None:
    assert fork_server.run("print(1)").stdout == "1\n"
    if (pid := os.fork()) == 0:
        result = fork_server.run("print(2)")
        fork_server.close()
        os._exit(0 if result.stdout == "2\n" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert fork_server.run("print(3)").stdout == "3\n"


def test_a_warm_worker_starts_for_programs_that_need_it(fork_server: Sandbox) -> None:
    pytest.importorskip("sympy")
    fork_server.run("print('sympy')  # import of nothing")
    assert len(pids(fork_server)) == 1
    fork_server.run("from sympy import *\nprint(1)")
    fork_server.run("import os, numpy as np")
    assert len(pids(fork_server)) == 2


def test_unknown_kinds_are_named() -> None:
    with pytest.raises(UserError, match=r"'docker'.*auto, namespaces, landlock, unsafe-subprocess"):
        open_sandbox("docker")


def test_auto_goes_down_and_then_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: forkserver.ForkServer) -> None:
        raise SandboxLost(f"{self.isolation} is forbidden here")

    monkeypatch.setattr(forkserver.ForkServer, "start", refuse)
    with pytest.raises(SandboxUnavailable) as raised:
        open_sandbox()
    assert raised.value.reasons == {level: f"{level} is forbidden here" for level in LEVELS}
    assert "namespaces is forbidden here" in str(raised.value) and "unsafe-subprocess" in str(raised.value)
    found = report()
    assert found.isolation is None and set(found.refused) == set(LEVELS)


def test_auto_takes_landlock_where_namespaces_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    start = forkserver.ForkServer.start

    def refuse(self: forkserver.ForkServer) -> None:
        if self.isolation == "namespaces":
            raise SandboxLost("forbidden")
        start(self)

    monkeypatch.setattr(forkserver.ForkServer, "start", refuse)
    try:
        sandbox = open_sandbox()
    except SandboxUnavailable:
        pytest.skip("no Landlock here")
    with sandbox:
        assert (sandbox.name, sandbox.isolation) == ("landlock", "landlock")
    assert report().refused == {"namespaces": "forbidden"}


def test_a_worker_that_cannot_start_gives_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coda_dspy.sandbox.worker_process._WORKER", Path("/nonexistent/worker.py"))
    with pytest.raises(SandboxUnavailable, match="nonexistent"):
        open_sandbox("landlock")


def test_the_report_names_the_level_that_opens() -> None:
    found = report()
    if found.isolation is None:
        pytest.skip("nothing starts here")
    with open_sandbox() as sandbox:
        assert sandbox.isolation == found.isolation
    assert found.contains and found.does_not_contain
