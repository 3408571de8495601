"""What we add to the engine's own time: against the critical path, and against peers, in one run.

    python -m coda_dspy.experiments.bench.overhead --peer-python optillm=PYTHON --peer-python its_hub=PYTHON

A fake server answers every call after a fixed time, whatever it is asked. Algorithm 1 cannot be faster than the calls
that wait for one another: plan, execute, reflect, and judge where candidates disagree. The sides take turns. Each runs
in a process of its own, and a peer in an environment of its own.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click

from coda_dspy.errors import UserError
from coda_dspy.experiments.bench import sides
from coda_dspy.experiments.bench.measuring import Machine, Row, Spread, output_option, publish, rounds_option
from coda_dspy.experiments.bench.serving import ServerProcess, serving

OURS = ("coda_dspy", "coda_dspy judged")
PEERS = ("optillm", "its_hub")


class Spent(NamedTuple):
    """What one question took.

    Args:
        wall: Seconds.
        cpu: Seconds of the asking process, all its threads together.
        calls: Calls that reached the server.
    """

    wall: float
    cpu: float
    calls: int


class Side:
    """One program that answers questions, in a process of its own.

    Args:
        name: One of `sides.SIDES`.
        process: Where it runs.
        server: What it asks.
    """

    def __init__(self, name: str, process: "subprocess.Popen[str]", server: ServerProcess) -> None:
        self.name = name
        self.process = process
        self.server = server

    def begins(self) -> bool:
        """Whether it could answer a first question."""
        begun = self._said() is not None
        self.server.served()
        return begun

    def ask(self) -> Spent:
        """One more question.

        Raises:
            UserError: It ended without an answer.
        """
        assert self.process.stdin is not None
        print(file=self.process.stdin, flush=True)
        said = self._said()
        if said is None:
            raise UserError(f"{self.name} ended in the middle of the run; what it said stands above")
        wall, cpu = said
        return Spent(wall, cpu, len(self.server.served().starts))

    def _said(self) -> list[float] | None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        said: list[float] | None = json.loads(line) if line else None
        return said


@contextmanager
def beginning(name: str, python: str, server: ServerProcess) -> Iterator[Side]:
    """A side that is being started, by the interpreter of its environment, with a cache of its own."""
    command = [python, "-P", sides.__file__, name, server.url]
    with TemporaryDirectory() as cache:
        environment = {**os.environ, "DSPY_CACHEDIR": cache}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            try:
                yield Side(name, process, server)
            finally:
                process.terminate()


def measure(latency: float, pythons: Mapping[str, str], rounds: int) -> dict[str, list[Spent]]:
    """What each side took in each round, where all take turns; without those that could not begin."""
    spent: dict[str, list[Spent]] = {}
    with serving(latency) as server, ExitStack() as running:
        started = [running.enter_context(beginning(name, python, server)) for name, python in pythons.items()]
        able = [side for side in started if side.begins()]
        for _ in range(rounds):
            for side in able:
                spent.setdefault(side.name, []).append(side.ask())
    return spent


def rows_of(latency: float, spent: Mapping[str, Sequence[Spent]]) -> list[Row]:
    """A row a side; ratios of CPU are against our own first side, round by round."""
    rows: list[Row] = []
    for name, rounds in spent.items():
        path = sides.STEPS[name] * latency
        cpu = [one.cpu / one.calls for one in rounds]
        ours = [one.cpu / one.calls for one in spent[OURS[0]]]
        rows.append(
            {
                "side": name,
                "ms a call": round(1000 * latency),
                "calls": round(median(one.calls for one in rounds)),
                "critical path, s": path,
                "wall, s": Spread.of(one.wall for one in rounds),
                "wall / critical path": Spread.of(one.wall / path for one in rounds),
                "CPU ms a call": Spread.of(1000 * seconds for seconds in cpu),
                "CPU a call / ours": Spread.of(its / our for its, our in zip(cpu, ours, strict=True)),
            }
        )
    return rows


@click.command()
@click.option("--latency", "latencies", multiple=True, type=float, default=(20, 50, 200), help="Milliseconds a call.")
@click.option(
    "--peer-python", "peers", multiple=True, metavar="PEER=PYTHON", help="Interpreter with optillm, or its_hub."
)
@rounds_option
@output_option
def main(latencies: Sequence[float], peers: Sequence[str], rounds: int, output: Path | None) -> None:
    """Print what each side adds to the server's time, and its CPU time a call."""
    given = dict(pair.partition("=")[::2] for pair in peers)
    if unknown := given.keys() - set(PEERS):
        raise click.UsageError(f"--peer-python {min(unknown)}: the peers are {' and '.join(PEERS)}")
    machine, rows = Machine(), []
    pythons = {**dict.fromkeys(OURS, sys.executable), **given}
    for latency in latencies:
        rows += rows_of(latency / 1000, measure(latency / 1000, pythons, rounds))
    measured = {row["side"] for row in rows}
    notes = [f"{rounds} rounds, all sides in turn; median (least–most). {machine}."]
    notes += [f"{name} is left out: {_reason(name, given)}." for name in PEERS if name not in measured]
    publish("overhead", rows, notes, output)


def _reason(peer: str, given: Mapping[str, str]) -> str:
    if peer not in given:
        return f"no --peer-python {peer}=PYTHON was given"
    return f"{given[peer]} could not answer a first question with it; what it said stands above"


if __name__ == "__main__":
    main()
