"""The process of one `unsafe-subprocess` run: `python -I plain_child.py JOB PAYLOAD [EXTRA ...]`.

It sets its limits by itself, before the program is read: the host has threads, and must not run code of its own between
fork and exec.
"""

import json
import sys
from pathlib import Path


def _start() -> None:
    folder = str(Path(__file__).parent)
    sys.path.append(folder)
    from jail import lockdown, modes
    from jail.protocol import Job, read_all

    sys.path.remove(folder)
    job = Job(**json.loads(sys.argv[1]))
    payload, *extra = map(int, sys.argv[2:])
    code = json.loads(read_all(payload))["code"]
    lockdown.limit_resources(job, lockdown.mapped_bytes())
    modes.run(job, code, tuple(extra))


if __name__ == "__main__":
    _start()
