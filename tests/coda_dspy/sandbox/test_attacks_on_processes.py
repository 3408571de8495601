"""Programs that reach for other processes: their memory, their signals, their life."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SECRET = "hidden-" + "expectation"


@pytest.fixture
def victim(place) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the sandbox's user that does nothing but hold a secret."""
    other = {"user": place.uid, "group": place.uid} if place.uid != os.getuid() else {}
    process = subprocess.Popen(
        ["/bin/sleep", "120"],
        env={"VICTIM_KEY": SECRET},
        cwd="/",
        **other,  # type: ignore[call-overload]
    )
    yield process
    process.kill()
    process.wait()


PEEK = """
import ctypes, glob, os
libc = ctypes.CDLL(None, use_errno=True)
pids = {os.getppid(), 1, VICTIM, HOST, *(int(p[6:]) for p in glob.glob("/proc/[0-9]*"))} - {os.getpid(), 0}
class Span(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
print("looked at", len(pids))
for pid in pids:
    for name in ("environ", "cmdline", "maps", "mem", "status", "fd/0", "stack"):
        try:
            print("GOT", pid, name, open(f"/proc/{pid}/{name}", "rb").read(100))
        except OSError:
            pass
    for number in range(64):  # pipes and sockets are no paths, so nothing that governs paths governs them
        for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
            try:
                os.open(f"/proc/{pid}/fd/{number}", flags | os.O_NONBLOCK)
                print("GOT", pid, "fd", number)
            except OSError:
                pass
    buffer = ctypes.create_string_buffer(64)
    here, there = Span(ctypes.addressof(buffer), 64), Span(id(libc), 64)
    if libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) > 0:
        print("GOT memory of", pid)
    if libc.ptrace(16, pid, None, None) == 0:
        print("GOT hold of", pid)
    if libc.syscall(434, pid, 0) >= 0 and libc.syscall(438, libc.syscall(434, pid, 0), 0, 0) >= 0:
        print("GOT a descriptor of", pid)
    if libc.syscall(312, os.getpid(), pid, 0, 0, 0) >= 0:
        print("GOT compared with", pid)
"""


def test_no_other_process_can_be_looked_into(attack, victim) -> None:
    code = PEEK.replace("VICTIM", str(victim.pid)).replace("HOST", str(os.getpid()))
    result = attack(code)
    assert result.stdout.startswith("looked at")
    assert "GOT" not in result.stdout and SECRET not in result.stdout


KILL = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
targets = [os.getppid(), VICTIM, HOST, -1, 0, -os.getppid(), -VICTIM]
count = 0
for target in targets:
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1):
        for way in (
            lambda: os.kill(target, number),
            lambda: libc.killpg(abs(target), number) and 1 / 0,
            lambda: libc.syscall(200, target, number) and 1 / 0,
            lambda: libc.syscall(234, target, target, number) and 1 / 0,
            lambda: libc.syscall(424, libc.syscall(434, target, 0), number, None, 0) and 1 / 0,
            lambda: libc.sigqueue(target, number, None) and 1 / 0,
        ):
            count += 1
            try:
                if target != os.getpid():
                    way()
                    print("GOT", target, number)
            except (OSError, ZeroDivisionError, ProcessLookupError):
                pass
print("tried", count)
"""


def test_no_other_process_can_be_signalled(attack, victim) -> None:
    # Process 0 and -1 mean the program's own group and everybody: what is refused there is refused to itself as well.
    code = KILL.replace("VICTIM", str(victim.pid)).replace("HOST", str(os.getpid()))
    result = attack(code)
    assert result.stdout == "tried 168\n", result
    assert victim.poll() is None
    assert _state(victim.pid) not in ("T", "Z")


BY_PROXY = """
import ctypes, fcntl, os, resource, signal, struct, threading
libc = ctypes.CDLL(None, use_errno=True)
read, write = os.pipe()
for target in {os.getppid(), VICTIM, HOST} - {0}:  # 0, outside of our namespace, would mean itself
    ways = {
        "F_SETOWN": lambda: fcntl.fcntl(read, 8, target),
        "F_SETSIG": lambda: fcntl.fcntl(read, 10, signal.SIGKILL),
        "F_SETOWN_EX": lambda: fcntl.fcntl(read, 15, struct.pack("ii", 1, target)),
        "FIOSETOWN": lambda: fcntl.ioctl(read, 0x8901, struct.pack("i", target)),
        "F_NOTIFY": lambda: fcntl.fcntl(read, 1026, 1),
        "prlimit": lambda: resource.prlimit(target, resource.RLIMIT_CPU, (1, 1)),
        "setpriority": lambda: os.setpriority(os.PRIO_PROCESS, target, 19),
        "sched_setaffinity": lambda: os.sched_setaffinity(target, {0}),
        "sched_setscheduler": lambda: os.sched_setscheduler(target, os.SCHED_IDLE, os.sched_param(0)),
        "timer_create": lambda: libc.timer_create(0, None, ctypes.create_string_buffer(8)) and 1 / 0,
        "TIOCSTI": lambda: fcntl.ioctl(0, 0x5412, b"x"),
    }
    for name, way in ways.items():
        try:
            way()
            print("GOT", name, target)
        except (OSError, ZeroDivisionError, ValueError):
            pass
print("done")
"""


def test_no_signal_by_proxy(attack, victim) -> None:
    code = BY_PROXY.replace("VICTIM", str(victim.pid)).replace("HOST", str(os.getpid()))
    assert attack(code).stdout == "done\n"
    assert victim.poll() is None


SPAWN = """
import ctypes, multiprocessing, os, subprocess, sys
libc = ctypes.CDLL(None)
ways = {
    "system": lambda: os.system("echo GOT"),
    "popen": lambda: print(os.popen("echo GOT").read()),
    "subprocess": lambda: subprocess.run(["/bin/sh", "-c", "echo GOT"]),
    "python": lambda: subprocess.run([sys.executable, "-c", "print('GOT')"]),
    "spawn": lambda: os.posix_spawn("/bin/sh", ["sh", "-c", "echo GOT"], {}),
    "libc": lambda: libc.system(b"echo GOT"),
    "pty": lambda: __import__("pty").spawn(["/bin/sh", "-c", "echo GOT"]),
    "multiprocessing": lambda: multiprocessing.get_context("fork").Process(target=print, args=("GOT",)).start(),
    "exec": lambda: os.execv("/bin/sh", ["sh", "-c", "echo GOT"]),
    "fexec": lambda: libc.execveat(-100, b"/bin/sh", None, None, 0),
}
for name, way in ways.items():
    try:
        way()
    except BaseException:
        pass
print("tried", len(ways))
"""


def test_no_program_is_started(attack) -> None:
    result = attack(SPAWN)
    assert result.stdout.strip() == "tried 10"
    assert "GOT" not in result.stderr


DAEMON = """
import os, time
marker = "daemon-" + MARK
try:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            import ctypes
            ctypes.CDLL(None).prctl(15, marker[:15].encode(), 0, 0, 0)
            time.sleep(60)
        os._exit(0)
except OSError:
    print("no fork")
try:
    import threading
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
except RuntimeError:
    pass
"""


def test_no_daemon_outlives_the_run(attack, place) -> None:
    mark = str(time.monotonic_ns())[-7:]
    assert attack(DAEMON.replace("MARK", repr(mark))).stdout == "no fork\n"
    assert not [path for path in Path("/proc").glob("[0-9]*/comm") if _text(path).startswith(f"daemon-{mark}")]


def test_no_terminal(attack) -> None:
    code = """
import fcntl, os
for path in ("/dev/tty", "/dev/console", "/dev/pts/0", "/dev/ptmx"):
    try:
        os.open(path, os.O_RDWR)
        print("GOT", path)
    except OSError:
        pass
for number in (0, 1, 2):
    for request in (0x5412, 0x540E, 0x541C):
        try:
            fcntl.ioctl(number, request, b"x")
            print("GOT", number, request)
        except OSError:
            pass
print(os.isatty(0), os.isatty(1), os.isatty(2))
"""
    assert attack(code).stdout == "False False False\n"


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc")
