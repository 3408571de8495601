"""The worker's way from a plain Python process to a fork server behind walls."""

import gc
import importlib
import importlib.metadata
import importlib.util
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from . import landlock, namespaces, syscalls, warming
from .lockdown import Rules, Walls, mapped_bytes
from .protocol import Setup, receive, send
from .server import Server

# Imported before the first fork: what many programs import, and what ending a program needs.
_COMMON = (
    *("array", "bisect", "collections", "contextlib", "copy", "dataclasses", "datetime", "decimal", "fractions"),
    *("functools", "heapq", "io", "itertools", "json", "linecache", "math", "operator", "queue", "random", "re"),
    *("statistics", "string", "threading", "traceback", "typing", "_sitebuiltins"),
)
_NPROC_BY_NAMESPACE = (5, 14)
# What else of the programs' user the kernel may count: the worker, other runs; and the user's own, started later.
_TASKS_BESIDE = 32
_SLACK_TASKS = 256


class _NamedPackages:
    """Finds the packages that were named, each at its one place, without a look at the folder around it."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        place = self._places.get(name)
        if place is None or place.endswith(".dist-info"):
            return None
        if place.endswith(".py"):
            return importlib.util.spec_from_file_location(name, place)
        return importlib.util.spec_from_file_location(name, f"{place}/__init__.py", submodule_search_locations=[place])

    def find_distributions(self, context: DistributionFinder.Context) -> Iterator[Distribution]:
        """For packages that look up versions."""
        for name, place in self._places.items():
            if place.endswith(".dist-info") and context.name in (None, name, name.replace("_", "-")):
                yield Distribution.at(place)


def main(descriptor: int) -> NoReturn:
    """Read the setup from the control socket, lock in, tell that it is done (or why not), and serve."""
    control = socket.socket(fileno=descriptor)
    try:
        message, _ = receive(control)
        walls = _prepared(Setup(**message["setup"]), control)
        send(control, {"ready": True})
    except BaseException as error:  # noqa: BLE001 - the host shows it and ends this process
        send(control, {"error": f"{type(error).__name__}: {error}"})
        os._exit(1)
    Server(control, walls).serve()


def _prepared(setup: Setup, control: socket.socket) -> Walls:
    syscalls.supported()
    user = _spare_user(setup)
    tasks = _TASKS_BESIDE + (_other_tasks(setup.level) if user is None else 0)
    process_table = os.open("/proc", os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
    if setup.level == "namespaces":
        namespaces.enter((*setup.read_only, *setup.packages.values()))
        _become_first_process(control)
    rules = _rules(setup)
    ruleset = landlock.ruleset(rules) if setup.level == "landlock" or landlock.abi() else None
    _load(setup)
    mapped = mapped_bytes(process_table)
    os.close(process_table)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    return Walls(setup.level, user, rules, ruleset, mapped, tasks)


def _become_first_process(control: socket.socket) -> None:
    """The child of this fork is number 1 of the new pid namespace: when it ends, the kernel ends all below it."""
    if pid := os.fork():
        control.close()
        os.waitpid(pid, 0)
        os._exit(0)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)


def _rules(setup: Setup) -> Rules:
    readable = [(path, landlock.READ) for path in (*setup.read_only, *setup.packages.values())]
    listed = [(path, landlock.LIST) for path in setup.listed]
    devices = [(f"/dev/{name}", landlock.READ) for name in ("zero", "random", "urandom")]
    writable = [("/dev/null", landlock.READ_AND_WRITE)]
    if setup.level == "namespaces":  # each run mounts its own folder below it
        writable.append(("/rw", landlock.READ_AND_WRITE))
    return (*readable, *listed, *devices, *writable)


def _load(setup: Setup) -> None:
    """Import what shall be there in every child. Garbage collection would copy pages that children share."""
    sys.dont_write_bytecode = True
    sys.meta_path.append(_NamedPackages(setup.packages))
    for name in (*_COMMON, *setup.preload):
        warm_up = warming.STEPS.get(name) or getattr(importlib.import_module(name), "warm_up", None)
        if warm_up is not None:
            warm_up()
    _give_back_exit()
    gc.collect()
    gc.disable()
    gc.freeze()


def _give_back_exit() -> None:
    """`python -S` leaves out exit() and quit(), which programs use."""
    import _sitebuiltins
    import builtins

    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D"))


def _spare_user(setup: Setup) -> tuple[int, int] | None:
    """Started by root: ids for the programs that nobody else has. None: they stay who the worker is.

    At level `landlock` another user may be unable to read Python itself (below /root, say): programs then stay uid 0,
    without capabilities.
    """
    if os.getuid() != 0:
        return None
    if setup.level == "landlock" and not all(map(_open_to_all, (*setup.read_only, *setup.packages.values()))):
        return None
    uid, gid = _spare_id("uid"), _spare_id("gid")
    return (uid, gid) if uid and gid else None


def _spare_id(kind: str) -> int:
    wanted, highest = 0x70000000 + os.getpid(), 0
    for line in Path(f"/proc/self/{kind}_map").read_text(encoding="ascii").splitlines():
        first, _, count = map(int, line.split())
        if first <= wanted < first + count:
            return wanted
        highest = max(highest, first + count - 1)
    return highest


def _open_to_all(path: str) -> bool:
    return all(folder.stat().st_mode & 1 for folder in Path(path).resolve().parents)


def _other_tasks(level: str) -> int:
    """Tasks that the kernel counts against a limit on threads though they are not the program's.

    The limit is for all processes of a user, from Linux 5.14 on in one user namespace. The slack is for those that the
    user starts later.
    """
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    if os.getuid() == 0 or (level == "namespaces" and release >= _NPROC_BY_NAMESPACE):
        return 0
    return _SLACK_TASKS + sum(_own_tasks(process) for process in Path("/proc").glob("[0-9]*"))


def _own_tasks(process: Path) -> int:
    try:
        return len(list((process / "task").iterdir())) if process.stat().st_uid == os.getuid() else 0
    except OSError:  # it has ended
        return 0
