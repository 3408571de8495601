"""Serve a sandbox to a test from a process of another user: `python as_user.py KIND UID`, JSON lines in and out.

A third argument is a folder for temporary files, made for this user alone, as are the files.

Started by root. Where Python itself lies in a folder that only root can enter, a mount namespace of this process's own
shows it at its usual place all the same.
"""

import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from coda_dspy.sandbox import Limits, SandboxUnavailable, open_sandbox
from coda_dspy.sandbox.jail import syscalls

_NEW_MOUNTS, _BIND, _RECURSIVE, _PRIVATE = 0x20000, 4096, 16384, 1 << 18
_PROJECT = Path(__file__).resolve().parents[3]


def main() -> None:
    kind, uid = sys.argv[1], int(sys.argv[2])
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    reveal([Path(sys.base_prefix), Path(sys.prefix), _PROJECT])
    for closed in sys.argv[3:]:
        os.umask(0o077)
        Path(closed).mkdir(parents=True, exist_ok=True)
        tempfile.tempdir = closed
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    try:
        sandbox = open_sandbox(kind)
    except SandboxUnavailable as error:
        tell(replies, {"unavailable": str(error)})
        return
    with sandbox:
        tell(replies, {"pids": sandbox._launcher.pids()})
        for line in sys.stdin:
            request = json.loads(line)
            limits = Limits(**request["limits"])
            if "stdins" in request:
                results = sandbox.run_many(request["code"], request["stdins"], limits)
                tell(replies, [asdict(result) for result in results])
            else:
                tell(replies, asdict(sandbox.run(request["code"], request["stdin"], request["files"], limits)))


def tell(replies, message) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()


def reveal(needed: list[Path]) -> None:
    hidden = [(path, closed) for path in needed if (closed := closed_folder(path))]
    if not hidden:
        return
    syscalls.call("unshare", _NEW_MOUNTS)
    syscalls.call("mount", None, b"/", None, _RECURSIVE | _PRIVATE, None)
    stash = Path(tempfile.mkdtemp())
    syscalls.call("mount", b"tmpfs", os.fsencode(stash), b"tmpfs", 0, None)
    for number, (path, _) in enumerate(hidden):
        (stash / str(number)).mkdir()
        bind(path, stash / str(number))
    for closed in {closed for _, closed in hidden}:
        syscalls.call("mount", b"tmpfs", os.fsencode(closed), b"tmpfs", 0, b"mode=755")
    for number, (path, _) in enumerate(hidden):
        path.mkdir(parents=True, exist_ok=True)
        bind(stash / str(number), path)
    syscalls.call("umount2", os.fsencode(stash), 2)
    stash.rmdir()


def bind(source: Path, target: Path) -> None:
    syscalls.call("mount", os.fsencode(source), os.fsencode(target), None, _BIND | _RECURSIVE, None)


def closed_folder(path: Path) -> Path | None:
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 1), None)


if __name__ == "__main__":
    main()
