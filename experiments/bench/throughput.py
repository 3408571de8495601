"""How much of a server's capacity many questions at once use, where the server refuses calls beyond it.

    python -m coda_dspy.experiments.bench.throughput

Nobody tells the program what the server allows: it has to find out, lose no question to a refusal (429), and fill the
server as long as questions wait. A reply takes as long as makes the full server answer `--rate` calls a second, so that
the machine of this bench is not what limits.
"""

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import click
import dspy

from coda_dspy import Budget, Coda, connect
from coda_dspy.cli.display import quiet_libraries
from coda_dspy.data import Question
from coda_dspy.evaluation import evaluate
from coda_dspy.experiments.bench.measuring import Machine, Row, Spread, output_option, publish, rounds_option
from coda_dspy.experiments.bench.serving import serving

TENTHS = 10


class Run(NamedTuple):
    """One run at one capacity.

    Args:
        used: Share of the server's capacity used in each tenth of the time in which questions were waiting.
        calls: Calls that the server took.
        refused: Calls that it refused.
        failed: Questions without their answer, or with a step that failed.
    """

    used: list[float]
    calls: int
    refused: int
    failed: int


def shares(starts: Sequence[float], latency: float, capacity: int, until: float) -> list[float]:
    """How much of the capacity was used in each tenth of the time from the first call on.

    Args:
        starts: When each call began, in seconds.
        latency: Seconds that each takes.
        capacity: Calls that the server allows at a time.
        until: Where the time ends.
    """
    width = (until - min(starts)) / TENTHS
    edges = [min(starts) + width * tenth for tenth in range(TENTHS + 1)]
    busy = [sum(_overlap(start, start + latency, low, high) for start in starts) for low, high in pairwise(edges)]
    return [seconds / (capacity * width) for seconds in busy]


def _overlap(start: float, end: float, low: float, high: float) -> float:
    return max(0.0, min(end, high) - max(start, low))


class Starting(dspy.Module):
    """A program, and when it was last given a question."""

    def __init__(self, program: Coda) -> None:
        super().__init__()
        self.program = program
        self.last = 0.0

    def forward(self, **arguments: object) -> dspy.Prediction:
        self.last = time.monotonic()
        return self.program(**arguments)


def run(capacity: int, rate: float, questions: int, at_once: int) -> Run:
    """Have `questions` answered, so many at once, by a server that allows `capacity` calls at a time."""
    latency = capacity / rate
    asked = [Question(f"q{number}", f"What is {number} - {number} + 4?", "4") for number in range(questions)]
    with serving(latency, capacity) as server:
        lm = connect("openai/fixed", server.url, cache=False)
        program = Starting(Coda(Budget(best_of_n=3, n_plans=3, early_exit="off"), lm=lm))
        results = evaluate(program, asked, workers=at_once)
        starts, refused = server.served()
    failed = sum(not result.correct or bool(result.failures) for result in results)
    return Run(shares(starts, latency, capacity, program.last), len(starts), refused, failed)


@click.command()
@click.option("--capacity", "capacities", multiple=True, type=int, default=(8, 64, 256), help="Calls at a time.")
@click.option("--rate", type=float, default=40.0, show_default=True, help="Calls a second of the full server.")
@click.option("--questions", type=click.IntRange(1), default=128, show_default=True)
@click.option("--at-once", type=click.IntRange(1), default=64, show_default=True, help="Questions at a time.")
@rounds_option
@output_option
def main(
    capacities: Sequence[int], rate: float, questions: int, at_once: int, rounds: int, output: Path | None
) -> None:
    """Print the share of each capacity that was used, and what was refused and failed."""
    quiet_libraries()
    machine, rows = Machine(), []
    for capacity in capacities:
        runs = [run(capacity, rate, questions, at_once) for _ in range(rounds)]
        rows.append(row_of(capacity, capacity / rate, runs))
    notes = [
        f"{questions} questions, {at_once} at once; until the last of them is started; {rounds} rounds, median "
        f"(least–most); tenths of that time in the median round. {machine}."
    ]
    publish("throughput", rows, notes, output)


def row_of(capacity: int, latency: float, runs: Sequence[Run]) -> Row:
    """The figures of one capacity over all rounds."""
    used = [sum(one.used) / TENTHS for one in runs]
    middle = sorted(runs, key=lambda one: sum(one.used))[len(runs) // 2]
    return {
        "calls allowed": capacity,
        "s a call": latency,
        "share used": Spread.of(used),
        "calls in flight, by tenths": " ".join(f"{share * capacity:.0f}" for share in middle.used),
        "calls": Spread.of(one.calls for one in runs),
        "refused": Spread.of(one.refused for one in runs),
        "questions failed": sum(one.failed for one in runs),
    }


if __name__ == "__main__":
    main()
