"""Loading a model into llama.cpp: its settings, the listener it insists on, and why it would not load.

What listens: `xllamacpp.Server` always opens an HTTP listener; no setting of 2026.10 turns it off. Where the system has
Unix sockets the listener is bound to one in a folder that only this user can enter, and the folder is removed as soon
as the model is loaded, so nothing can connect any more. On Windows it is 127.0.0.1 with a random port. Both ask for a
random key that is written down nowhere. Our own calls do not go through it.
"""

import os
import secrets
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from coda_dspy.engines.local.settings import Settings
from coda_dspy.errors import UserError

# Prompt tokens between two looks at whether the call is still wanted, and between two tokens of the other slots.
# On two CPU cores 128, 256 and llama.cpp's 512 cost the same within noise; a small batch ends four times sooner.
_BATCH = 128
_CACHE_MIB = 256  # llama.cpp's default of 8 GiB outgrows a laptop


def start(settings: Settings) -> Any:
    """Load the model into a new `xllamacpp.Server`."""
    library = _library()
    params = _params(library, settings)
    with tempfile.TemporaryDirectory(prefix="coda-", ignore_cleanup_errors=True) as folder:
        params.hostnames = [_listener(folder)]
        try:
            return library.Server(params)
        except (RuntimeError, ValueError) as error:
            raise UserError(f"llama.cpp cannot load {settings.path}: {_why_not(settings)}") from error


def _library() -> ModuleType:
    # Read when llama.cpp's OpenMP starts: its threads would spin at each barrier, and one other busy process on the
    # machine then makes them about ten times slower. Spinning for some microseconds before they sleep does no harm,
    # and was 18 % faster than none (0.5B, two cores, 8 calls: 23.4 against 19.9 tokens a second; 4 calls: 18.6, 15.2).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    try:
        import xllamacpp
    except ModuleNotFoundError as error:
        raise UserError("the local engine needs llama.cpp: pip install 'coda-dspy[local]'") from error
    except ImportError as error:
        raise UserError(f"xllamacpp does not start: {error}. It needs libgomp.so.1 and AVX2") from error
    return xllamacpp


def _params(library: ModuleType, settings: Settings) -> Any:
    params = library.CommonParams()
    params.model.path = str(settings.path)
    params.n_parallel = settings.slots
    params.n_ctx = settings.slots * settings.context  # shared out evenly among the slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    params.n_batch = params.n_ubatch = _BATCH
    params.cache_ram_mib = _CACHE_MIB
    params.fit_params = False  # fitting to a GPU's memory costs 40 % of the loading time, and small models fit
    params.verbosity = 0  # nothing of its own on the terminal
    params.ui = params.endpoint_slots = False
    params.n_threads_http = 1
    params.api_keys = [secrets.token_hex(32)]
    return params


def _listener(folder: str) -> str:
    """Where the listener that cannot be switched off is bound: in a private folder that is removed at once."""
    path = str(Path(folder) / "s.sock")
    usable = hasattr(socket, "AF_UNIX") and len(os.fsencode(path)) < 100  # the system's limit is 104 or 108
    return path if usable else "127.0.0.1"


_PROBE = """
import secrets, sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
params.api_keys, params.verbosity, params.warmup = [secrets.token_hex(32)], 1, False
xllamacpp.Server(params)
"""


def _why_not(settings: Settings) -> str:
    """llama.cpp's own reason. It says it on the terminal only, hence once more in a process whose terminal we are."""
    slots, context = str(settings.slots), str(settings.slots * settings.context)
    command = [sys.executable, "-c", _PROBE, str(settings.path), context, slots]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "it does not say why"
    marks = ("error loading model: ", " E ")
    found = [line.split(mark, 1)[1] for mark in marks for line in done.stderr.splitlines() if mark in line]
    return found[0].strip() if found else "it does not say why; fewer slots or less context need less memory"
