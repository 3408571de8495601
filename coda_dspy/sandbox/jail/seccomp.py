"""The system call filter: an allow-list. What is not named here fails with EPERM.

There is no fork, exec, connect, ptrace, mount, io_uring or bpf in it. Calls that can reach another process or another
kind of object are allowed for some values of an argument only. Arguments are compared in their low 32 bits: the kernel
reads no more of each argument that is checked here.
"""

import ctypes
import errno
import struct
from collections.abc import Iterable

from . import syscalls

# name: (x86_64, aarch64); None where the architecture lacks the call.
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    # files that are open already, and the run's own folder (which paths: Landlock and the mounts decide)
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62),
    "pread64": (17, 67), "pwrite64": (18, 68), "readv": (19, 65), "writev": (20, 66), "preadv": (295, 69),
    "pwritev": (296, 70), "preadv2": (327, 286), "pwritev2": (328, 287), "stat": (4, None), "lstat": (6, None),
    "newfstatat": (262, 79), "statx": (332, 291), "statfs": (137, 43), "fstatfs": (138, 44), "access": (21, None),
    "faccessat": (269, 48), "faccessat2": (439, 439), "getdents": (78, None), "getdents64": (217, 61),
    "getcwd": (79, 17), "chdir": (80, 49), "fchdir": (81, 50), "rename": (82, None), "renameat": (264, 38),
    "renameat2": (316, 276), "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None), "unlink": (87, None),
    "unlinkat": (263, 35), "readlink": (89, None), "readlinkat": (267, 78), "umask": (95, 166), "flock": (73, 32),
    "fsync": (74, 82), "fdatasync": (75, 83), "ftruncate": (77, 46), "fallocate": (285, 47), "fadvise64": (221, 223),
    "sendfile": (40, 71), "copy_file_range": (326, 285), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24),
    "close_range": (436, 436), "pipe": (22, None), "pipe2": (293, 59),
    # waiting
    "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72), "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22), "eventfd2": (290, 19),
    # memory
    "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "mremap": (25, 216),
    "msync": (26, 227), "madvise": (28, 233), "membarrier": (324, 283),
    # its own signals and timers
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137), "rt_sigsuspend": (130, 133), "sigaltstack": (131, 132), "pause": (34, None),
    "alarm": (37, None), "getitimer": (36, 102), "setitimer": (38, 103), "restart_syscall": (219, 128),
    # time
    "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153),
    # threads, and the end
    "futex": (202, 98), "futex_waitv": (449, 449), "set_robust_list": (273, 99), "set_tid_address": (218, 96),
    "rseq": (334, 293), "arch_prctl": (158, None), "sched_yield": (24, 124), "exit": (60, 93), "exit_group": (231, 94),
    "wait4": (61, 260), "waitid": (247, 95),
    # questions about itself and the machine
    "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173), "getpgrp": (111, None), "getpgid": (121, 155),
    "getsid": (124, 156), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
    "getgroups": (115, 158), "getresuid": (118, 148), "getresgid": (120, 150), "uname": (63, 160),
    "sysinfo": (99, 179), "getrusage": (98, 165), "getrlimit": (97, 163), "setrlimit": (160, 164),
    "getcpu": (309, 168), "getrandom": (318, 278), "sched_getaffinity": (204, 123), "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120), "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126),
    # one end of a `socketpair`, which asyncio needs; nothing else can be a socket here
    "getsockname": (51, 204), "getpeername": (52, 205),
}  # fmt: skip

_CLONE_THREAD = 0x00010000
_CLONE_NEW_ANYTHING = 0x7E020080
_AF_UNIX = _SOCK_STREAM = 1
_SOCKET_TYPE = 0xF
_MSG_OOB = 1
_O_TRUNC = 0o1000
_ACCESS_MODE = 3
_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA = 15, 16, 0x53564D41
# Is it a terminal, its size, bytes to read, non-blocking, close-on-exec. No TIOCSTI, no FIOSETOWN.
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# Duplicate, flags, locks, pipe size (read only). No F_SETOWN and F_SETSIG, which signal other processes by proxy.
_FCNTLS = (0, 1, 2, 3, 4, 5, 6, 7, 1030, 1032)

_LOAD, _AND, _EQUALS, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_RET_ALLOW, _RET_KILL = 0x7FFF0000, 0x80000000
_RET_EPERM, _RET_ENOSYS = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_CALLS = 0x40000000

Code = list[bytes]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _require(argument: int, values: Iterable[int], mask: int | None = None) -> Code:
    """Go on where (argument & mask) is one of the values, else EPERM."""
    wanted = list(values)
    code = [_op(_LOAD, 16 + 8 * argument)]
    if mask is not None:
        code.append(_op(_AND, mask))
    code += [_op(_EQUALS, value, len(wanted) - place) for place, value in enumerate(wanted)]
    return [*code, _op(_RETURN, _RET_EPERM)]


def _on(pair: tuple[int | None, int | None], *conditions: Code, verdict: int = _RET_ALLOW) -> Code:
    """For one call: check all conditions, then give the verdict."""
    number = syscalls.number(pair)
    if number is None:
        return []
    body = [*(op for condition in conditions for op in condition), _op(_RETURN, verdict)]
    return [_op(_EQUALS, number, 0, len(body)), *body]


def _checked_calls(pid: int) -> Code:
    """The calls that are allowed for some arguments only."""
    # Read-only with O_TRUNC empties a file and slips past Landlock before ABI 3 (kernel 6.2).
    opening = [0, 1, 2, 3, _O_TRUNC | 1, _O_TRUNC | 2]
    only_itself = _require(0, [pid])
    return [
        # Threads, but no processes. clone3 keeps its flags in memory, where a filter cannot look: libc falls back.
        *_on((56, 220), _require(0, [_CLONE_THREAD], _CLONE_NEW_ANYTHING | _CLONE_THREAD)),
        *_on((435, 435), verdict=_RET_ENOSYS),
        *_on((62, 129), only_itself),  # kill
        *_on((234, 131), only_itself),  # tgkill
        *_on((302, 261), _require(0, [0, pid])),  # prlimit64
        *_on((157, 167), _require(0, [_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA])),  # prctl
        *_on((53, 199), _require(0, [_AF_UNIX]), _require(1, [_SOCK_STREAM], _SOCKET_TYPE)),  # socketpair
        # No urgent data (CVE-2025-38236), and no sendmsg at all: descriptors in flight have been a way into kernels.
        *_on((44, 206), _require(3, [0], _MSG_OOB)),  # sendto
        *_on((45, 207), _require(3, [0], _MSG_OOB)),  # recvfrom
        *_on((16, 29), _require(1, _IOCTLS)),  # ioctl
        *_on((72, 25), _require(1, _FCNTLS)),  # fcntl
        *_on((2, None), _require(1, opening, _O_TRUNC | _ACCESS_MODE)),  # open
        *_on((257, 56), _require(2, opening, _O_TRUNC | _ACCESS_MODE)),  # openat
    ]


def program(pid: int) -> bytes:
    """The filter for a process that knows itself as `pid`, as BPF instructions of 8 bytes."""
    syscalls.supported()
    code = [_op(_LOAD, 4), _op(_EQUALS, _ARCHITECTURES[syscalls.MACHINE], 1), _op(_RETURN, _RET_KILL), _op(_LOAD, 0)]
    if syscalls.MACHINE == "x86_64":
        code += [_op(_AT_LEAST, _X32_CALLS, 0, 1), _op(_RETURN, _RET_EPERM)]
    code += _checked_calls(pid)
    for pair in ALLOWED.values():
        code += _on(pair)
    return b"".join([*code, _op(_RETURN, _RET_EPERM)])


def install(pid: int) -> None:
    """Put the filter on this process, for good.

    Raises:
        OSError: The kernel has no seccomp filters, or refused this one.
    """
    code = program(pid)
    buffer = ctypes.create_string_buffer(code, len(code))
    set_mode_filter, all_threads = 1, 1
    syscalls.call("seccomp", set_mode_filter, all_threads, _Program(len(code) // 8, ctypes.addressof(buffer)))
