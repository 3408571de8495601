"""System calls that Python 3.11 does not offer, by number through libc's `syscall`."""

import ctypes
import errno
import os

MACHINE = os.uname().machine if hasattr(os, "uname") else "unknown"
SUPPORTED = ("x86_64", "aarch64")

# name: (x86_64, aarch64)
_NUMBERS = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "unshare": (272, 97),
    "setns": (308, 268),
    "capset": (126, 91),
    "seccomp": (317, 277),
    "mount_setattr": (442, 442),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
    "close_range": (436, 436),
}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38

Argument = int | bytes | ctypes.Array | ctypes.Structure | None


def supported() -> None:
    """Refuse a processor whose system call numbers are not known here.

    Raises:
        OSError: The machine is neither x86_64 nor aarch64.
    """
    if MACHINE not in SUPPORTED:
        raise OSError(errno.ENOSYS, f"no table of system calls for {MACHINE}, only for {' and '.join(SUPPORTED)}")


def number(pair: tuple[int | None, int | None]) -> int | None:
    """The number for this machine in an (x86_64, aarch64) pair; None where it lacks the call."""
    return pair[SUPPORTED.index(MACHINE)] if MACHINE in SUPPORTED else None


def call(name: str, *arguments: Argument) -> int:
    """Make one system call.

    Raises:
        OSError: The kernel refused, with the call's name in the message.
    """
    supported()
    ctypes.set_errno(0)
    result = int(_libc.syscall(ctypes.c_long(number(_NUMBERS[name]) or 0), *map(_converted, arguments)))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def _converted(argument: Argument) -> object:
    # Without c_long, ctypes passes 32 bits and leaves the upper half of the register to chance.
    if isinstance(argument, int):
        return ctypes.c_long(argument)
    return ctypes.byref(argument) if isinstance(argument, ctypes.Structure) else argument


def prctl(option: int, value: int) -> None:
    """Set one property of this process.

    Raises:
        OSError: The kernel refused.
    """
    ctypes.set_errno(0)
    if _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")


def close_all_but(keep: set[int]) -> None:
    """Close every descriptor from 3 up that is not in `keep`, also those that nobody here knows of."""
    low = 3
    for descriptor in sorted(fd for fd in keep if fd >= 3):
        if descriptor > low:
            call("close_range", low, descriptor - 1, 0)
        low = descriptor + 1
    call("close_range", low, 0xFFFFFFFF, 0)


def drop_capabilities() -> None:
    """Give up every capability, also those that uid 0 or a user namespace brings."""
    version_3 = 0x20080522
    header = version_3.to_bytes(4, "little") + bytes(4)
    call("capset", header, bytes(24))
