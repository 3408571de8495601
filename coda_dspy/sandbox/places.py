"""Which files of this machine a program may read: Python's own, the shared libraries, and packages named one by one.

Not site-packages as a whole: it may hold the grader and its data sets, answers included.
"""

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

PACKAGES = ("numpy", "sympy", "mpmath")
"""What programs may import besides the standard library, where it is installed."""

_SITE_FOLDERS = ("site-packages", "dist-packages")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/usr/share/zoneinfo")
_SYSTEM_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")


def package_places(packages: Iterable[str], folders: Sequence[str] | None = None) -> dict[str, str]:
    """Where each package is: its folder or file in one of the folders (default: this Python's own site-packages).

    The name of a distribution, as its `.dist-info` spells it, gives that folder, for packages that look up versions.
    The path of a module stands for itself.
    """
    if folders is None:
        folders = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    found: dict[str, str] = {}
    for name in packages:
        module = Path(name)
        if module.is_absolute():
            found[module.stem] = str(module)
            continue
        for folder in map(Path, folders):
            for place in (folder / name, folder / f"{name}.py", *folder.glob(f"{name}-*.dist-info")):
                if place.exists():
                    found.setdefault(name, str(place.resolve()))
    return found


def listed_places() -> list[str]:
    """Folders that Python lists to find modules, though it may not read all that is in them."""
    return [str(_standard_library())]


def read_only_places(packages: Iterable[str]) -> list[str]:
    """What the interpreter needs to read, without the packages but with the shared libraries that came with them."""
    wanted = [
        *_system_libraries(),
        *map(Path, _SYSTEM_FILES),
        *_without_sites(_standard_library()),
        *_without_sites(Path(sysconfig.get_path("platstdlib", vars={"platbase": sys.base_exec_prefix}))),
        *_python_libraries(),
        *(place for package in packages if (place := Path(f"{package}.libs")).is_dir()),
    ]
    paths = [path for path in dict.fromkeys(wanted) if path.exists()]
    folders = {path for path in paths if not path.is_symlink()}
    return [str(path) for path in paths if folders.isdisjoint(path.parents)]  # what lies in another comes with it


def _standard_library() -> Path:
    return Path(os.__file__).parent


def _system_libraries() -> Iterator[Path]:
    """The folders of shared libraries; on Debian's layout only the machine's own, not all of /usr/lib."""
    multiarch = sysconfig.get_config_var("MULTIARCH")
    narrow = [
        Path(folder, multiarch) for folder in ("/lib", "/usr/lib") if multiarch and Path(folder, multiarch).is_dir()
    ]
    for folder in map(Path, _SYSTEM_LIBRARIES):
        if folder.is_symlink() or not narrow:
            yield folder
    yield from (folder for folder in narrow if not folder.parent.is_symlink())


def _without_sites(folder: Path) -> Iterator[Path]:
    """A folder of Python's, or all its entries but the packages of other people."""
    if not folder.is_dir():
        return
    if not any((folder / name).is_dir() for name in _SITE_FOLDERS):
        yield folder
    else:
        yield from (entry for entry in sorted(folder.iterdir()) if entry.name not in _SITE_FOLDERS)


def _python_libraries() -> Iterator[Path]:
    """Shared libraries beside a Python that is not the system's: libpython, and what its extensions load."""
    folder = Path(sys.executable).resolve().parents[1] / "lib"
    if str(folder) not in _SYSTEM_LIBRARIES:
        yield from (path for path in sorted(folder.glob("lib*.so*")) if path.is_file())
