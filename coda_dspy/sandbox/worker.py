"""The sandbox's process: `python -I -S worker.py FD`, where FD is the control socket from the host.

-I and -S keep the user's environment, site-packages and working folder out of it. Python then knows the standard
library only, so the folder of this file is added to find `jail` beside it, and taken out again before anything else
happens: last in the search, so that no file of ours can stand in for a module of the standard library.
"""

import os
import sys


def _start() -> None:
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would be imported into every run
    sys.path.append(folder)
    from jail import batch, main, session  # noqa: F401 - all of it, while its files can be read

    sys.path.remove(folder)
    main.main(int(sys.argv[1]))


if __name__ == "__main__":
    _start()
