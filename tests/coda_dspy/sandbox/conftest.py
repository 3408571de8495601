"""Every sandbox that starts on this machine, for this user and, where the tests run as root, for an ordinary one."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from coda_dspy.sandbox import ExecutionResult, Limits, Sandbox, SandboxUnavailable, open_sandbox

LEVELS = ("namespaces", "landlock")
ORDINARY_UID = 61_873  # free on every machine that anybody has seen
AS_USER = Path(__file__).with_name("as_user.py")

Attack = Callable[..., ExecutionResult]


class OtherUsersSandbox:
    """The methods of `Sandbox`, done by a process of another user."""

    def __init__(self, kind: str, uid: int, *temporary: str) -> None:
        self.uid = uid
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, str(AS_USER), kind, str(uid), *temporary],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env={"PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent"},
        )
        greeting = self._next()
        self.unavailable: str = greeting.get("unavailable", "")
        self.pids: list[int] = greeting.get("pids", [])

    def _next(self):
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else {"unavailable": "no process of another user can be started"}

    def _ask(self, request: dict[str, object]):
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            return self._next()

    def run(
        self, code: str, stdin: str = "", files: Mapping[str, str] | None = None, limits: Limits | None = None
    ) -> ExecutionResult:
        request = {"code": code, "stdin": stdin, "files": files or {}, "limits": asdict(limits or Limits())}
        return ExecutionResult(**self._ask(request))

    def run_many(self, code: str, stdins: Sequence[str], limits: Limits | None = None) -> list[ExecutionResult]:
        reply = self._ask({"code": code, "stdins": list(stdins), "limits": asdict(limits or Limits())})
        return [ExecutionResult(**fields) for fields in reply]

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


@dataclass
class Place:
    """A sandbox under test, and whose it is."""

    level: str
    who: str
    sandbox: Sandbox | OtherUsersSandbox

    @property
    def uid(self) -> int:
        return ORDINARY_UID if self.who == "ordinary" else os.getuid()


@pytest.fixture(scope="session", params=[f"{level}-{who}" for level in LEVELS for who in ("self", "ordinary")])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    level, who = request.param.split("-")
    if who == "self":
        try:
            sandbox: Sandbox | OtherUsersSandbox = open_sandbox(level)
        except SandboxUnavailable as error:
            pytest.skip(str(error))
    else:
        if os.getuid() != 0:
            pytest.skip("the tests run as an ordinary user already")
        sandbox = OtherUsersSandbox(level, ORDINARY_UID)
        if sandbox.unavailable:
            sandbox.close()
            pytest.skip(sandbox.unavailable)
    yield Place(level, who, sandbox)
    sandbox.close()


@pytest.fixture
def attack(place: Place) -> Attack:
    """Run a hostile program; afterwards the same sandbox must serve an innocent one."""

    def run(code: str, stdin: str = "", **limits: float) -> ExecutionResult:
        result = place.sandbox.run(code, stdin, limits=Limits(**{"seconds": 10, **limits}))  # type: ignore[arg-type]
        after = place.sandbox.run("print(6 * 7)")
        assert (after.stdout, after.error) == ("42\n", "")
        assert not result.error
        return result

    return run


def _open(isolation: str) -> Iterator[Sandbox]:
    try:
        sandbox = open_sandbox(isolation)
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    with sandbox:
        yield sandbox


@pytest.fixture(scope="session", params=[*LEVELS, "unsafe-subprocess"])
def any_sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Every kind for this user, for what must hold in all of them."""
    yield from _open(request.param)


@pytest.fixture(scope="session", params=LEVELS)
def contained(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Every kind that contains something, for this user."""
    yield from _open(request.param)


@pytest.fixture(params=[*LEVELS, "unsafe-subprocess"])
def fresh(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Every kind, opened for one test alone."""
    yield from _open(request.param)


@pytest.fixture(params=LEVELS)
def fork_server(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Every kind that contains something, opened for one test alone."""
    yield from _open(request.param)


@pytest.fixture(params=["everybody", "root"])
def roots_sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OtherUsersSandbox]:
    """Root's sandbox whose programs are another user; temporary files lie where everybody or only root can enter."""
    if os.getuid() != 0:
        pytest.skip("only root's programs become another user")
    temporary = [str(tmp_path / "closed")] if request.param == "root" else []
    sandbox = OtherUsersSandbox("landlock", 0, *temporary)
    if sandbox.unavailable:
        sandbox.close()
        pytest.skip(sandbox.unavailable)
    yield sandbox
    sandbox.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder in which every user of this machine may do everything: only the sandbox stands before it."""
    folder = Path(tempfile.mkdtemp(prefix="victim-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
