"""Programs that want what is not theirs: files, secrets, and to leave something behind."""

import os
import stat
import sys
import sysconfig
from pathlib import Path

import pytest

READ_ANYHOW = """
import ctypes, glob, os, shutil, subprocess
path = PATH
def by_open(): return open(path).read()
def by_descriptor():
    descriptor = os.open(path, os.O_RDONLY)
    return os.read(descriptor, 1000).decode()
def by_root(): return "".join(open(f"{r}{path}").read() for r in glob.glob("/proc/[0-9]*/root"))
def by_cwd(): return "".join(open(f"{c}/{os.path.basename(path)}").read() for c in glob.glob("/proc/[0-9]*/cwd"))
def by_parents(): return open("../" * 20 + path.lstrip("/")).read()
def by_link(): os.symlink(path, "link"); return open("link").read()
def by_hard_link(): os.link(path, "link2"); return open("link2").read()
def by_move(): os.rename(path, "moved"); return open("moved").read()
def by_copy(): return shutil.copy(path, "copied") and open("copied").read()
def by_chdir(): os.chdir(os.path.dirname(path)); return open(os.path.basename(path)).read()
def by_program(): return subprocess.run(["cat", path], capture_output=True, text=True).stdout
def by_libc():
    libc, buffer = ctypes.CDLL(None), ctypes.create_string_buffer(1000)
    libc.read(libc.open(path.encode(), 0), buffer, 1000)
    return buffer.value.decode()
def by_mount():
    ctypes.CDLL(None).mount(b"/", b".", None, 4096, None)
    return open("." + path).read()
def by_import():
    import importlib.util
    return importlib.util.spec_from_file_location("m", path).loader.get_data(path).decode()
def by_sqlite():
    import sqlite3
    return str(sqlite3.connect(":memory:").execute(f"attach '{path}' as x").fetchall())
tried = 0
for name, way in list(globals().items()):
    if name.startswith("by_"):
        tried += 1
        try:
            print(name, way())
        except BaseException as error:
            print(name, type(error).__name__)
print("tried", tried)
"""


def test_a_file_of_the_user_cannot_be_read(attack, open_folder: Path) -> None:
    secret = open_folder / "expected_outputs.txt"
    secret.write_text("the canary sings\n")
    secret.chmod(0o666)
    result = attack(READ_ANYHOW.replace("PATH", repr(str(secret))))
    assert "canary" not in result.stdout + result.stderr
    assert result.stdout.endswith("tried 15\n")
    assert secret.read_text() == "the canary sings\n"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/etc/hostname", "/proc/self/environ", "/proc/1/environ", "/proc/cpuinfo"]
)
def test_the_machine_s_files_cannot_be_read(attack, path: str) -> None:
    result = attack(f"print('GOT', len(open({path!r}).read()))")
    assert "GOT" not in result.stdout
    assert "Error" in result.stderr


def test_no_key_of_a_home_folder(attack, open_folder: Path) -> None:
    key = open_folder / ".ssh" / "id_ed25519"
    key.parent.mkdir()
    key.write_text("PRIVATE " + "KEY")
    code = f"""
import os, pathlib
for home in [{str(open_folder)!r}, "/root", "/home", os.path.expanduser("~"), "~", os.environ.get("HOME", "/")]:
    for folder, _, names in os.walk(home):
        for name in names:
            try:
                print(pathlib.Path(folder, name).read_text())
            except OSError:
                pass
print("done")
"""
    result = attack(code)
    assert "PRIVATE KEY" not in result.stdout
    assert result.stdout.endswith("done\n")


def test_no_environment(attack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-key")
    code = """
import ctypes, os
environ = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
values, place = [], 0
while environ[place]:
    values.append(environ[place].decode())
    place += 1
print(sorted(os.environ), values)
"""
    result = attack(code)
    assert result.ok
    assert "KEY" not in result.stdout and "canary" not in result.stdout


def test_nothing_is_written_outside(attack, open_folder: Path) -> None:
    site = sysconfig.get_path("purelib")
    project = str(Path(__file__).parent)
    targets = [
        str(open_folder),
        site,
        project,
        "/tmp",
        "/var/tmp",
        "/usr/lib",
        "/etc",
        "/root",
        "/dev/shm",
        str(Path(os.__file__).parent),
    ]
    code = f"""
import os
for folder in {targets!r}:
    try:
        with open(folder + "/zz-escaped.pth", "w") as file:
            file.write("import os")
        print("wrote", folder)
    except OSError:
        pass
    try:
        os.mkdir(folder + "/zz-escaped")
    except OSError:
        pass
print("done")
"""
    result = attack(code)
    assert result.stdout.endswith("done\n")
    left = [Path(folder, name) for folder in targets for name in ("zz-escaped.pth", "zz-escaped")]
    assert not any(path.exists() for path in left)


MEDDLE = """
import ctypes, os
folder = FOLDER
one, two = folder + "/one.txt", folder + "/two.txt"
libc = ctypes.CDLL(None, use_errno=True)
ways = [
    lambda: os.remove(one), lambda: os.rename(one, folder + "/else"), lambda: os.truncate(one, 0),
    lambda: os.close(os.open(one, os.O_RDONLY | os.O_TRUNC)), lambda: os.close(os.open(one, os.O_WRONLY | os.O_TRUNC)),
    lambda: os.close(os.open(one, 3 | os.O_TRUNC)),
    lambda: open(one, "a").write("x"), lambda: open(one, "r+").write("x"),
    lambda: os.chmod(one, 0o777), lambda: os.chmod(folder, 0), lambda: os.chown(one, 12345, 12345),
    lambda: os.utime(one, (1, 1)), lambda: os.setxattr(one, "user.x", b"1"), lambda: os.removexattr(one, "user.a"),
    lambda: os.link(one, folder + "/three"), lambda: os.symlink(one, folder + "/four"),
    lambda: os.rmdir(folder + "/sub"),
    lambda: os.mkfifo(folder + "/five"), lambda: os.replace(two, one), lambda: os.mkdir(folder + "/six"),
    lambda: libc.truncate(one.encode(), ctypes.c_long(0)), lambda: libc.chmod(one.encode(), 0o777),
    lambda: libc.syscall(452, -100, one.encode(), 0o777, 0), lambda: libc.syscall(437, -100, one.encode(), None, 0),
    lambda: libc.rename(one.encode(), (folder + "/seven").encode()),
]
for way in ways:
    try:
        way()
    except (OSError, ValueError):
        pass
print("tried", len(ways))
"""


def test_files_of_the_user_stay_as_they_are(attack, place, open_folder: Path) -> None:
    for name in ("one.txt", "two.txt"):
        (open_folder / name).write_text(f"content of {name}")
        (open_folder / name).chmod(0o666)
        os.chown(open_folder / name, place.uid, -1)
    (open_folder / "sub").mkdir()
    os.chown(open_folder, place.uid, -1)
    before = _snapshot(open_folder)
    result = attack(MEDDLE.replace("FOLDER", repr(str(open_folder))))
    assert result.stdout == "tried 25\n", result
    assert _snapshot(open_folder) == before


def _snapshot(folder: Path) -> list[tuple[object, ...]]:
    found = []
    for path in (folder, *sorted(folder.rglob("*"))):
        info = path.stat()
        content = path.read_text() if stat.S_ISREG(info.st_mode) else sorted(p.name for p in path.iterdir())
        found.append((str(path), info.st_mode, info.st_uid, info.st_mtime_ns, info.st_ctime_ns, content, info.st_nlink))
    return found


LEAVE = """
import builtins, os, sys, tempfile
print("ran")
sys.path.insert(0, ".")
os.environ["LEFT"] = "1"
builtins.left = 1
import json, math
json.dumps = lambda *a, **k: "patched"
math.left = 1
for folder in [".", "/tmp", "/rw", "/rw/run", "/dev/shm", "/var/tmp", tempfile.gettempdir()]:
    try:
        open(folder + "/left.py", "w").write("print('left')")
    except OSError:
        pass
try:
    os.chdir("/usr")
except OSError:
    pass
"""
FIND = """
import builtins, glob, json, math, os, sys
print(json.dumps([1]), hasattr(math, "left"), hasattr(builtins, "left"), "LEFT" in os.environ, os.getcwd() == "/usr")
print([f for d in (".", "/tmp", "/rw", "/rw/run", "/dev/shm", "/var/tmp") for f in glob.glob(d + "/left*")])
try:
    import left
except ImportError:
    print("nothing")
"""


def test_the_next_run_finds_nothing(attack) -> None:
    assert attack(LEAVE).stdout == "ran\n"
    assert attack(FIND).stdout == "[1] False False False False\n[]\nnothing\n"


def test_only_named_packages_can_be_imported(attack) -> None:
    code = """
for name in ("numpy", "sympy", "mpmath", "pytest", "dspy", "hypothesis", "coda_dspy"):
    try:
        __import__(name)
        print(name)
    except ImportError:
        pass
"""
    result = attack(code, seconds=30)
    assert set(result.stdout.split()) <= {"numpy", "sympy", "mpmath"}
    assert result.ok


def test_site_packages_cannot_be_read(attack) -> None:
    file = Path(pytest.__file__)
    result = attack(f"print(open({str(file)!r}).read())")
    assert result.exit_code == 1 and result.stdout == ""
    assert sys.prefix in str(file)
