"""Namespaces of the worker's own, and a root file system that holds what Python needs to read and nothing else."""

import os
from collections.abc import Iterable
from pathlib import Path

from . import syscalls

_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND, _MS_REC = 1, 2, 4, 8, 32, 4096, 16384
_MS_PRIVATE = 1 << 18
_ATTR_RDONLY_NOSUID_NODEV = 0x1 | 0x2 | 0x4
_AT_FDCWD, _AT_RECURSIVE, _MNT_DETACH = -100, 0x8000, 2

# The new root is made here, in a mount namespace of our own, where nobody else sees it: so no folder is needed on any
# disk, and none is left behind. Any folder does that always exists and holds nothing to be bound.
_ROOT = Path("/proc")
_DEVICES = ("null", "zero", "random", "urandom")
WORK = "/rw/run/work"
TEMPORARY = "/rw/run/tmp"
_RUN = "/rw/run"


def enter(read_only: Iterable[str]) -> None:
    """Leave the machine's namespaces and file system. The next fork is the first process of a new pid namespace.

    Args:
        read_only: Absolute paths to keep, read-only, under the same names. Those that do not exist are left out.

    Raises:
        OSError: The kernel refuses namespaces or mounts to this user.
    """
    uid, gid = os.getuid(), os.getgid()
    flags = _NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET
    syscalls.call("unshare", flags | (_NEWUSER if uid else 0))
    if uid:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    _mount("tmpfs", str(_ROOT), "tmpfs", _MS_NOSUID | _MS_NODEV, "size=1m,mode=755")
    for path in read_only:
        _keep(Path(path))
    for name in _DEVICES:
        _bind(Path("/dev", name), _ROOT / "dev" / name)
    _inside(_RUN).mkdir(parents=True)
    # Python itself may lie below /tmp; then programs do without, and TMPDIR leads them to it.
    if not _inside("/tmp").exists():
        _inside("/tmp").symlink_to(TEMPORARY)
    _change_root()


def _inside(path: str | Path) -> Path:
    """Where an absolute path lies in the new root, while it is being made."""
    return _ROOT / str(path).lstrip("/")


def _keep(path: Path) -> None:
    if path.is_symlink():
        link = _inside(path)
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(path.readlink())
    elif path.exists():
        target = _inside(path.resolve())
        _bind(path, target)
        attributes = _ATTR_RDONLY_NOSUID_NODEV.to_bytes(8, "little") + bytes(24)
        syscalls.call("mount_setattr", _AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, attributes, len(attributes))


def _bind(path: Path, target: Path) -> None:
    if path.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(str(path), str(target), None, _MS_BIND | _MS_REC)


def _change_root() -> None:
    old = _ROOT / ".old"
    old.mkdir()
    syscalls.call("pivot_root", os.fsencode(_ROOT), os.fsencode(old))
    os.chdir("/")
    syscalls.call("umount2", b"/.old", _MNT_DETACH)
    Path("/.old").rmdir()
    _mount(None, "/", None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)


def fork_into_new_pids() -> int:
    """Fork a child that is the first process of a pid namespace of its own. Needs `enter` before it.

    `unshare` works once for each pid namespace that children go to; `setns` to our own takes the last one back. That
    allows a real fork(), with libc's own bookkeeping, where the raw clone call would go behind its back.

    Raises:
        OSError: No more processes or namespaces can be made.
    """
    own = os.pidfd_open(os.getpid())
    try:
        syscalls.call("setns", own, _NEWPID)
    finally:
        os.close(own)
    syscalls.call("unshare", _NEWPID)
    return os.fork()


def private_folder(megabytes: int, files: int, uid: int, gid: int) -> None:
    """In the child of one run: a file system in memory of its own, limited in size, under `WORK` and `TEMPORARY`.

    Raises:
        OSError: The kernel refused.
    """
    syscalls.call("unshare", _NEWNS)
    options = f"size={megabytes}m,nr_inodes={files},mode=711"
    _mount("tmpfs", _RUN, "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, options)
    for path in (WORK, TEMPORARY):
        Path(path).mkdir(0o700)
        os.chown(path, uid, gid)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    try:
        syscalls.call("mount", *encoded[:3], flags, encoded[3])
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} (on {target})") from error


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
