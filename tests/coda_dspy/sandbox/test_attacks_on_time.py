"""Programs that will not end."""

import time

import pytest

from coda_dspy.sandbox import Limits

LIMIT = 0.3

ENDLESS = {
    "burns CPU": "while True: pass",
    "swallows every exception": """
while True:
    try:
        while True: len("")
    except BaseException:
        pass
""",
    "undoes the alarm": """
import signal
signal.setitimer(signal.ITIMER_REAL, 0)
while True: pass
""",
    "sleeps": "import time\nwhile True: time.sleep(1000)",
    "waits for input that never comes": "import os\nread, write = os.pipe()\nos.read(read, 1)",
    "ignores every signal": """
import signal
for number in signal.valid_signals():
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
while True: pass
""",
    "stays in one C call": "sum(range(10**15))",
    "does its work in a destructor": """
class Late:
    def __del__(self):
        while True: pass
late = Late()
del late
""",
    "does its work at exit": """
import atexit
@atexit.register
def later():
    while True: pass
""",
    "leaves a thread": """
import threading, time
threading.Thread(target=lambda: [time.sleep(0.01) for _ in iter(int, 1)]).start()
""",
    "computes a number that is too large": "9 ** 9 ** 9",
    "has no end in a regular expression": "import re\nre.match('(a+)+$', 'a' * 60 + 'b')",
}


@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS.keys())
def test_it_ends_within_a_second_of_its_limit(attack, place, code: str) -> None:
    took = []
    for _ in range(3):  # a machine that is busy may be late once
        begun = time.monotonic()
        result = place.sandbox.run(code, limits=Limits(seconds=LIMIT))
        took.append(time.monotonic() - begun)
        assert result.timed_out and result.exit_code is None and not result.error
        if took[-1] < LIMIT + 1:
            break
    assert min(took) < LIMIT + 1
    attack("print(1)")


def test_cpu_seconds_end_it_before_wall_seconds_do(attack) -> None:
    result = attack("while True: pass", seconds=30, cpu_seconds=0.3)
    assert result.timed_out
    assert result.seconds < 15
    assert "0.3 CPU seconds" in result.stderr


@pytest.mark.parametrize("place", ["namespaces-self", "landlock-self"], indirect=True)
def test_the_kernel_ends_it_when_it_will_not_be_asked(attack, place) -> None:
    code = "import signal\nsignal.setitimer(signal.ITIMER_PROF, 0)\nwhile True: pass"
    result = attack(code, seconds=30, cpu_seconds=0.2)
    assert result.timed_out
    assert result.cpu_seconds < 3
