"""The steps that turn a fresh fork of the worker into a child that may run a stranger's program. Order matters."""

import base64
import contextlib
import json
import os
import resource
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import landlock, namespaces, seccomp, syscalls
from .protocol import Descriptors, Job, read_all

_MB = 1 << 20
_OPEN_FILES = 128
Rules = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Walls:
    """What the worker found out or made once, for all its children.

    Attributes:
        level: `namespaces` or `landlock`.
        user: The uid and gid to become; None where the child stays what the worker is.
        rules: What Landlock shall allow.
        ruleset: The same as a descriptor; None where this kernel has no Landlock (level `namespaces` only).
        mapped_bytes: Address space that the worker itself takes.
        other_tasks: Tasks of the same user that the kernel counts against the limit of threads.
    """

    level: str
    user: tuple[int, int] | None
    rules: Rules
    ruleset: int | None
    mapped_bytes: int
    other_tasks: int


def lock(walls: Walls, job: Job, given: Descriptors) -> str:
    """Shut this process in, for good, and return the program it is to run.

    Raises:
        OSError: A step was refused. The program must not run then.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for number, descriptor in enumerate((given.stdin, given.stdout, given.stderr)):
        os.dup2(descriptor, number)
    payload = json.loads(read_all(given.payload))
    _enter_folder(walls, job, payload["files"])
    if walls.user is not None:
        _become(*walls.user)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)  # after the change of user, which would undo it
    limit_resources(job, walls.mapped_bytes)
    threads = job.threads + walls.other_tasks
    resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    _restrict_paths(walls, job)
    syscalls.drop_capabilities()
    # The status descriptor stays until all is done, so that a failure is told where no program can tell one.
    syscalls.close_all_but({given.status, *given.extra})
    seccomp.install(os.getpid())
    os.close(given.status)
    return str(payload["code"])


def _enter_folder(walls: Walls, job: Job, files: Mapping[str, str]) -> None:
    """Go to the run's own folder. At level `landlock` the host has written the files already."""
    uid, gid = walls.user or (os.getuid(), os.getgid())
    if walls.level != "namespaces":
        os.chdir(job.folder or "/")
        if job.folder and walls.user is not None:  # the folder and its files are root's alone
            for name in (".", *files):
                os.chown(name, -1, gid)
                Path(name).chmod(0o750)
        return
    namespaces.private_folder(job.disk_mb, job.disk_files, uid, gid)
    os.chdir(namespaces.WORK)
    for name, content in files.items():
        # The host lets plain names through only; O_EXCL and O_NOFOLLOW are for the day when it does not.
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.b64decode(content))
        os.chown(name, uid, gid)


def _become(uid: int, gid: int) -> None:
    with contextlib.suppress(PermissionError):  # a user namespace that denies it: the groups are not ours to drop
        os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def limit_resources(job: Job, mapped_bytes: int) -> None:
    """Set the kernel's limits for this process; none can be raised again without privilege."""
    memory = job.memory_mb * _MB + mapped_bytes
    _limit(resource.RLIMIT_AS, memory)
    _limit(resource.RLIMIT_CPU, job.cpu_limit)
    _limit(resource.RLIMIT_FSIZE, job.disk_mb * _MB)
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_MEMLOCK, 0)
    _limit(resource.RLIMIT_STACK, job.stack_mb * _MB)  # of the main thread: room for deep recursion
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file that is too large is an OSError, not the end


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def mapped_bytes(process_table: int | None = None) -> int:
    """Address space that this process takes now; 0 where the system does not tell.

    Args:
        process_table: A descriptor of /proc, where no path leads to it any more.
    """
    place = "/proc/self/statm" if process_table is None else "self/statm"
    try:
        descriptor = os.open(place, os.O_RDONLY, dir_fd=process_table)
    except FileNotFoundError:  # no /proc: not Linux
        return 0
    try:
        return int(os.read(descriptor, 200).split()[0]) * resource.getpagesize()
    finally:
        os.close(descriptor)


def _restrict_paths(walls: Walls, job: Job) -> None:
    if job.folder:  # a rule set of its own: no run sees the files of another
        # As ".": no other name may lead to it where the programs' user cannot enter the folders above.
        landlock.restrict(landlock.ruleset((*walls.rules, (".", landlock.READ))))
    elif walls.ruleset is not None:
        landlock.restrict(walls.ruleset)
