"""Open a sandbox: the strongest that starts here, or the one that is asked for by name."""

import os
import sys
from collections.abc import Callable, Iterable
from functools import partial

from coda_dspy.errors import UserError
from coda_dspy.sandbox import places
from coda_dspy.sandbox.errors import SandboxLost, SandboxUnavailable
from coda_dspy.sandbox.forkserver import LEVELS, PRELOADED, ForkServer
from coda_dspy.sandbox.launching import Launcher
from coda_dspy.sandbox.plain import PlainLauncher
from coda_dspy.sandbox.sandbox import Sandbox

UNSAFE = "unsafe-subprocess"
KINDS = ("auto", *LEVELS, UNSAFE)


def open_sandbox(
    kind: str = "auto", packages: Iterable[str] = places.PACKAGES, preload: Iterable[str] = PRELOADED
) -> Sandbox:
    """Open a sandbox for untrusted programs.

    Args:
        kind: `auto` (the strongest level that really starts, never less than `landlock`), `namespaces`, `landlock`, or
            `unsafe-subprocess`, which limits programs but does not contain them and must be asked for by name.
        packages: What programs may import besides the standard library: packages that are installed here, by name,
            distributions whose version one of them looks up, and modules by their path.
        preload: Which of them to import once, before the first program that uses one.

    Returns:
        A context manager; close it to end its processes.

    Raises:
        SandboxUnavailable: Nothing of that kind starts here. The message has the reasons and the ways out.
        UserError: There is no such kind.

    Example:
        >>> with open_sandbox() as sandbox:
        ...     sandbox.run("print(6 * 7)").stdout
        '42\\n'
    """
    if kind not in KINDS:
        raise UserError(f"sandbox: no kind {kind!r}; the kinds are {', '.join(KINDS)}")
    if kind == UNSAFE:
        return _opened({UNSAFE: _plain})
    levels = LEVELS if kind == "auto" else (kind,)
    return _opened({level: partial(_fork_server, level, list(packages), list(preload)) for level in levels})


def _opened(kinds: dict[str, Callable[[], Launcher]]) -> Sandbox:
    """The first that starts: the kernel says no in too many ways to be asked, so each is tried."""
    reasons = {}
    for name, start in kinds.items():
        try:
            return Sandbox(name, start())
        except SandboxLost as error:
            reasons[name] = str(error)
    raise SandboxUnavailable(reasons)


def _fork_server(level: str, packages: Iterable[str], preload: Iterable[str]) -> Launcher:
    if sys.platform != "linux":
        raise SandboxLost(f"made of Linux kernel features, and this is {sys.platform}")
    server = ForkServer(level, packages, preload)
    try:
        server.start()
    except BaseException:  # also Ctrl-C: a server that is half started must not stay behind
        server.close()
        raise
    return server


def _plain() -> Launcher:
    if os.name != "posix":
        raise SandboxLost(f"needs a POSIX system, and this is {sys.platform}")
    return PlainLauncher()
