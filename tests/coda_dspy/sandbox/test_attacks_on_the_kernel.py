"""The system calls that local root exploits have come through, by number; and the filter itself, run on paper."""

import struct

import pytest

from coda_dspy.sandbox.jail import seccomp, syscalls

pytestmark = pytest.mark.skipif(syscalls.MACHINE != "x86_64", reason="the numbers here are those of x86_64")

DOORS = {
    "socket": 41, "connect": 42, "bind": 49, "sendmsg": 46, "recvmsg": 47, "execve": 59, "shmget": 29, "msgget": 68,
    "semget": 64, "truncate": 76, "link": 86, "symlink": 88, "chmod": 90, "fchmod": 91, "chown": 92, "ptrace": 101,
    "setuid": 105, "setreuid": 113, "setsid": 112, "capset": 126, "mknod": 133, "personality": 135, "setpriority": 141,
    "mlock": 149, "modify_ldt": 154, "pivot_root": 155, "chroot": 161, "mount": 165, "umount2": 166, "swapon": 167,
    "sethostname": 170, "ioperm": 173, "init_module": 175, "quotactl": 179, "setxattr": 188, "tkill": 200,
    "sched_setaffinity": 203, "io_setup": 206, "lookup_dcookie": 212, "timer_create": 222, "clock_settime": 227,
    "mbind": 237, "mq_open": 240, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250,
    "inotify_init": 253, "migrate_pages": 256, "mknodat": 259, "fchownat": 260, "linkat": 265, "symlinkat": 266,
    "fchmodat": 268, "unshare": 272, "splice": 275, "tee": 276, "vmsplice": 278, "utimensat": 280, "signalfd": 282,
    "timerfd_create": 283, "perf_event_open": 298, "fanotify_init": 300, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "finit_module": 313, "seccomp": 317, "memfd_create": 319, "bpf": 321, "execveat": 322, "userfaultfd": 323,
    "pkey_alloc": 330, "pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsmount": 432, "pidfd_open": 434, "clone3": 435, "openat2": 437, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "memfd_secret": 447, "cachestat": 451, "fchmodat2": 452,
    "x32 socket": 0x40000000 + 41,
}  # fmt: skip


def test_every_door_is_shut(attack) -> None:
    code = f"""
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for name, number in {DOORS!r}.items():
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6)
    if result >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
        print("GOT", name, result, errno.errorcode.get(ctypes.get_errno()))
print("tried", {len(DOORS)})
"""
    assert attack(code).stdout == f"tried {len(DOORS)}\n"


def test_no_capability_and_no_way_to_get_one(attack) -> None:
    code = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
print(libc.capget(header, data) >= 0 and list(data))
print(libc.prctl(38, 0, 0, 0, 0) >= 0, libc.prctl(4, 1, 0, 0, 0) >= 0, libc.prctl(23, 0, 0, 0, 0) >= 0)
"""
    assert attack(code).stdout == "False\nFalse False False\n"


ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026


def verdict(number: int, *arguments: int, pid: int = 7, architecture: int = 0xC000003E) -> int:
    """What the filter says of one call: a BPF machine with the six instructions that it uses."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *(value & 0xFFFFFFFFFFFFFFFF for value in padded))
    code = list(struct.iter_unpack("=HBBI", seccomp.program(pid)))
    register, place = 0, 0
    while True:
        operation, if_true, if_false, value = code[place]
        place += 1
        if operation == 0x20:
            register = struct.unpack_from("=I", data, value)[0]
        elif operation == 0x54:
            register &= value
        elif operation == 0x06:
            return value
        elif operation == 0x15:
            place += if_true if register == value else if_false
        else:
            assert operation == 0x35
            place += if_true if register >= value else if_false


def test_the_filter_allows_its_list_and_nothing_else() -> None:
    listed = {pair[0] for pair in seccomp.ALLOWED.values()}
    checked = {2, 16, 44, 45, 53, 56, 62, 72, 157, 234, 257, 302, 435}
    assert not listed & checked
    for number in set(range(600)) - checked:
        assert verdict(number, 1, 1, 1, 1, 1, 1) == (ALLOW if number in listed else EPERM), number


@pytest.mark.parametrize(
    ("number", "arguments", "expected"),
    [
        (56, (0x3D0F00,), ALLOW),  # clone: a thread
        (56, (17,), EPERM),  # clone: a process
        (56, (0x3D0F00 | 0x10000000,), EPERM),  # clone: a thread with a user namespace
        (56, (0x3D0F00 | 0x80,), EPERM),  # clone: a time namespace
        (435, (0,), ENOSYS),  # clone3
        (62, (7, 9), ALLOW),  # kill itself
        (62, (8, 9), EPERM),
        (62, (0, 9), EPERM),
        (62, (-1, 9), EPERM),
        (62, (-7, 9), EPERM),
        (234, (7, 8, 6), ALLOW),  # tgkill: a thread of its own
        (234, (8, 8, 6), EPERM),
        (302, (0, 7), ALLOW),  # prlimit64
        (302, (7, 7), ALLOW),
        (302, (1, 7), EPERM),
        (157, (15,), ALLOW),  # prctl: a name for a thread
        (157, (4, 1), EPERM),  # prctl: dumpable
        (53, (1, 1), ALLOW),  # socketpair
        (53, (1, 1 | 0o2000000), ALLOW),
        (53, (1, 2), EPERM),
        (53, (2, 1), EPERM),
        (16, (0, 0x5401), ALLOW),  # ioctl: isatty
        (16, (0, 0x5412), EPERM),  # ioctl: TIOCSTI
        (16, (0, 0x8901), EPERM),  # ioctl: FIOSETOWN
        (72, (0, 1030), ALLOW),  # fcntl: duplicate
        (72, (0, 8), EPERM),  # fcntl: F_SETOWN
        (72, (0, 1031), EPERM),  # fcntl: a larger pipe
        (2, (0, 0), ALLOW),  # open: read
        (2, (0, 0o1101), ALLOW),  # open: write, create, truncate
        (2, (0, 0o1000), EPERM),  # open: read and truncate
        (257, (0, 0, 0o1003), EPERM),  # openat: no access mode, and truncate
        (257, (0, 0, 0o1002), ALLOW),
        (44, (0, 0, 0, 0x4000), ALLOW),  # sendto
        (44, (0, 0, 0, 0x4001), EPERM),  # sendto: urgent
        (45, (0, 0, 0, 1), EPERM),  # recvfrom: urgent
        (0x40000000, (), EPERM),  # read, as x32 calls it
    ],
)
def test_the_filter_looks_at_arguments(number: int, arguments: tuple[int, ...], expected: int) -> None:
    assert verdict(number, *arguments) == expected


def test_the_filter_kills_what_comes_from_another_architecture() -> None:
    assert verdict(0, architecture=0x40000003) == KILL
