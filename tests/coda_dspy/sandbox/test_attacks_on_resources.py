"""Programs that take more than their share: processes, memory, output, disk, and crashes."""

import pytest

FORKS = """
import os, time
made = 0
for _ in range(300):
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        time.sleep(20)
        os._exit(0)
    made += 1
print("made", made)
"""

MEMORY = """
held = []
try:
    for _ in range(192):
        held.append(bytearray(b"x") * (16 << 20))
except MemoryError:
    pass
print(len(held) * 16)
"""

MEMORY_OF_MANY = """
import os, time
made = 0
for _ in range(6):
    try:
        pid = os.fork()
    except OSError:
        continue
    made += 1
    if pid == 0:
        held = bytearray(b"x") * (400 << 20)
        time.sleep(5)
        os._exit(0)
import mmap
shared = []
try:
    for _ in range(64):
        part = mmap.mmap(-1, 32 << 20)
        part.write(b"x" * (32 << 20))
        shared.append(part)
except (OSError, MemoryError):
    pass
print(made, len(shared) * 32)
"""

# Not threading.Thread: its start() waits for the new thread, for ever where that one dies for lack of memory.
THREADS = """
import _thread, os
_thread.stack_size(32 << 10)
reserve, gate, made = bytearray(1 << 20), _thread.allocate_lock(), 0
gate.acquire()
try:
    for _ in range(6000):
        _thread.start_new_thread(gate.acquire, ())
        made += 1
except (RuntimeError, MemoryError):
    pass
del reserve
os.write(1, b"%d" % made)
"""

DESCRIPTORS = """
import os
held = []
try:
    while len(held) < 100_000:
        held += os.pipe()
except OSError:
    pass
print(len(held))
"""

INFLATE = """
import zlib
stream = zlib.compressobj(9, wbits=-15)
part = stream.compress(bytes(1 << 20)) + stream.flush(zlib.Z_FULL_FLUSH)
packed = part * 4096  # four gigabytes of zeros
print("packed", len(packed))
try:
    zlib.decompress(packed, wbits=-15)
    print("GOT 4 GB")
except MemoryError:
    print("memory")
try:
    total = 0
    unpacker = zlib.decompressobj(wbits=-15)
    with open("zeros", "wb") as file:
        rest = packed
        while rest:
            total += file.write(unpacker.decompress(rest, 1 << 22))
            rest = unpacker.unconsumed_tail
    print("GOT", total)
except OSError:
    print("disk")
"""

DISK = """
import os
total = 0
folders = [".", "/tmp", "/var/tmp", "/dev/shm", "/run", "/", "/rw", "/rw/run", os.path.expanduser("~"), OTHER]
for place, folder in enumerate(folders):
    for number in range(400):
        try:
            with open(f"{folder}/fill-{place}-{number}", "wb", buffering=0) as file:
                for _ in range(16):
                    total += file.write(bytes(1 << 18))
        except OSError:
            break
print(total >> 20)
"""


def test_no_process_can_be_made(attack) -> None:
    assert attack(FORKS).stdout == "made 0\n"


def test_memory_ends_at_the_limit(attack) -> None:
    result = attack(MEMORY, memory_mb=256)
    assert int(result.stdout) <= 256
    assert result.max_rss_mb < 256 + 128


def test_memory_of_processes_and_of_mappings_is_one_sum(attack) -> None:
    made, shared = map(int, attack(MEMORY_OF_MANY, memory_mb=256).stdout.split())
    assert made == 0
    assert shared <= 256


def test_threads_end_somewhere(attack, place) -> None:
    result = attack(THREADS, memory_mb=128, threads=40)
    assert result.stdout, result
    made = int(result.stdout)
    bound = 40 + 32 if (place.level, place.who) != ("landlock", "ordinary") else 40 + 32 + 256 + 400
    if place.level == "landlock" and place.who == "self" and place.uid == 0:
        bound = 128 * 1024 // 32  # the kernel does not count root's: only their stacks' memory is limited
    assert made <= bound


def test_descriptors_end_soon(attack) -> None:
    assert int(attack(DESCRIPTORS).stdout) < 200


@pytest.mark.parametrize("stream", [1, 2])
@pytest.mark.parametrize("how", ["os.write({0}, part)", "print(part, file=[0, sys.stdout, sys.stderr][{0}])"])
def test_output_is_cut_and_ends_the_run(attack, stream: int, how: str) -> None:
    code = f"import os, sys\npart = b'x' * (1 << 20)\nfor _ in range(1024):\n    {how.format(stream)}"
    result = attack(code, output_bytes=100_000, seconds=20)
    assert result.truncated and not result.ok and result.exit_code is None
    assert len(result.stdout) <= 100_000 and len(result.stderr) <= 100_000
    assert result.seconds < 5


def test_output_is_cut_where_the_program_ignores_that(attack) -> None:
    code = """
import os
while True:
    try:
        os.write(1, b"x" * 65536)
    except OSError:
        pass
"""
    result = attack(code, output_bytes=1000, seconds=20)
    assert result.truncated and result.seconds < 5


def test_a_small_stream_that_inflates(attack) -> None:
    result = attack(INFLATE, memory_mb=192, disk_mb=16)
    assert "GOT" not in result.stdout
    assert result.stdout.split()[2:] == ["memory", "disk"]


def test_the_disk_is_not_filled(attack, open_folder) -> None:
    result = attack(DISK.replace("OTHER", repr(str(open_folder))), disk_mb=16)
    assert int(result.stdout) <= 16
    assert list(open_folder.iterdir()) == []


def test_the_input_does_not_grow_beside_the_memory_limit(attack) -> None:
    code = """
import os
total = 0
for path in ("/proc/self/fd/0", "/dev/stdin", "/dev/fd/0"):
    for flags in (os.O_WRONLY, os.O_RDWR):
        try:
            descriptor = os.open(path, flags)
            while True:
                total += os.write(descriptor, bytes(1 << 20))
        except OSError:
            pass
print(total)
"""
    assert attack(code, "input").stdout == "0\n"


CRASHES = {
    "the stack of C": """
import sys
sys.setrecursionlimit(10**9)
class Deep:
    def __getattr__(self, name): return getattr(self, name + "x")
def down(x): return sorted([x], key=down)
down(1)
""",
    "address 0": "import ctypes\nctypes.string_at(0)",
    "abort": "import os\nos.abort()",
    "kills itself": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\nraise SystemExit(3)",
    "a broken code object": """
def f(): pass
f.__code__ = f.__code__.replace(co_code=b"\\x64\\xff" * 4, co_stacksize=0)
f()
""",
    "frees what it did not get": "import ctypes\nctypes.CDLL(None).free(ctypes.c_void_p(0x1234567))",
    "a nest that the compiler falls over": "exec('(' * 100000 + ')' * 100000)\nraise SystemExit(4)",
}


@pytest.mark.parametrize("code", CRASHES.values(), ids=CRASHES.keys())
def test_a_crash_is_a_failed_run_and_no_more(attack, code: str) -> None:
    result = attack(code)
    assert not result.ok
    assert result.exit_code not in (0, None)
