"""Landlock: which paths a program may read, list and write. It needs no privilege and cannot be undone.

What it does not govern (chmod, chown, utime, setxattr, and truncation on old kernels) the seccomp list leaves out.
`stat` of a path whose name is known stays possible.
"""

import os
import struct
from collections.abc import Iterable
from pathlib import Path

from . import syscalls

_READ_FILE, _READ_FOLDER, _WRITE = 1 << 2, 1 << 3, 1 << 1
_REMOVE_FOLDER, _REMOVE_FILE, _MAKE_FOLDER, _MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
# Refer: to move a file from one folder to another, where both allow it.
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_FIRST_ABI = (1 << 13) - 1
# What makes sense for a file that is no folder: execute, write, read, truncate, ioctl.
_FOR_FILES = 1 | _WRITE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_TCP_BIND_AND_CONNECT = _ABSTRACT_SOCKETS_AND_SIGNALS = 3

READ = _READ_FILE | _READ_FOLDER
LIST = _READ_FOLDER
READ_AND_WRITE = READ | _WRITE | _REMOVE_FOLDER | _REMOVE_FILE | _MAKE_FOLDER | _MAKE_FILE | _REFER | _TRUNCATE


def abi() -> int:
    """The version of Landlock in this kernel; 0 where there is none, or where it is switched off."""
    try:
        return syscalls.call("landlock_create_ruleset", None, 0, 1)
    except OSError:
        return 0


def _handled(version: int) -> int:
    later = {2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEVICE}
    return _FIRST_ABI | sum(right for since, right in later.items() if version >= since)


def ruleset(rules: Iterable[tuple[str, int]]) -> int:
    """A rule set that allows the given rights on the given paths and whatever lies below them, and nothing else.

    Paths that do not exist are left out: they allow nothing.

    Returns:
        A descriptor for `restrict`.

    Raises:
        OSError: There is no Landlock here, or the kernel refused a rule.
    """
    version = abi()
    if version < 1:
        raise OSError("no Landlock in this kernel")
    handled = _handled(version)
    attributes = struct.pack("=QQQ", handled, _TCP_BIND_AND_CONNECT, _ABSTRACT_SOCKETS_AND_SIGNALS)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    descriptor = syscalls.call("landlock_create_ruleset", attributes[:size], size, 0)
    for path, rights in rules:
        _allow(descriptor, path, rights & handled)
    return descriptor


def _allow(descriptor: int, path: str, rights: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not Path(path).is_dir():
            rights &= _FOR_FILES
        path_beneath = 1
        syscalls.call("landlock_add_rule", descriptor, path_beneath, struct.pack("=Qi", rights, target), 0)
    finally:
        os.close(target)


def restrict(descriptor: int) -> None:
    """Put this process under a rule set, for good.

    Raises:
        OSError: The kernel refused.
    """
    syscalls.call("landlock_restrict_self", descriptor, 0)
