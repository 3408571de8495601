"""Sandboxed runs a second, warm, against plain `subprocess.run([python, …])` without any isolation, in one run.

python -m coda_dspy.experiments.bench.sandbox_speed
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

import click

from coda_dspy.cli.display import console, table
from coda_dspy.sandbox import Sandbox, open_sandbox

PROGRAMS = {
    "small": "a, b = map(int, input().split())\nprint(a + b)",
    "sympy": "import sympy\nn = int(input().split()[0])\nprint(sympy.sqrt(8 * n * n))",
}
INPUT = "12 30\n"
MANY = 20


def per_second(run: Callable[[], int], seconds: float) -> float:
    """How many runs a second `run` does; it returns how many it did."""
    done, started = 0, time.monotonic()
    while time.monotonic() - started < seconds:
        done += run()
    return done / (time.monotonic() - started)


def plain(code: str) -> int:
    subprocess.run([sys.executable, "-c", code], input=INPUT, capture_output=True, text=True, check=True)
    return 1


def one(sandbox: Sandbox, code: str) -> int:
    result = sandbox.run(code, INPUT)
    assert result.ok, result
    return 1


def many(sandbox: Sandbox, code: str) -> int:
    assert all(result.ok for result in sandbox.run_many(code, [INPUT] * MANY))
    return MANY


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--seconds", type=float, default=1.0, show_default=True, help="Of each measurement.")
def main(rounds: int, seconds: float) -> None:
    """Print medians over the rounds; the three ways of a round are measured one after the other."""
    rows = []
    with open_sandbox() as sandbox:
        for name, code in PROGRAMS.items():
            one(sandbox, code)  # the worker starts, and imports what the program imports
            ways = (lambda c=code: plain(c), lambda c=code: one(sandbox, c), lambda c=code: many(sandbox, c))
            found = [[per_second(way, seconds) for way in ways] for _ in range(rounds)]
            base, run, batch = (median(column) for column in zip(*found, strict=True))
            ratios = [median(row[i] / row[0] for row in found) for i in (1, 2)]
            rows.append([name, f"{base:.1f}", f"{run:.1f} ({ratios[0]:.1f}×)", f"{batch:.0f} ({ratios[1]:.0f}×)"])
        isolation = sandbox.isolation
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    columns = ["program", "plain runs/s", f"{isolation}, run: runs/s", f"{isolation}, run_many: inputs/s"]
    console.print(table(f"{rounds} rounds of {seconds:g} s, load {load}", columns, rows))


if __name__ == "__main__":
    main()
