"""How long the first answer takes: imports, and `coda solve` on an engine whose weights are on the disk.

    python -m coda_dspy.experiments.bench.cold_start --engine local/qwen2.5-coder-0.5b

Every figure is of a fresh process. The time to the first token is that of a reply of one token, on a prompt that the
engine has not seen.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from coda_dspy.cli.options import EngineChoice, engine_options
from coda_dspy.experiments.bench.measuring import Machine, Row, Spread, output_option, publish, rounds_option

QUESTION = "A farmer has 17 sheep, buys 3 pens of 8 sheep each and sells half of them all, rounded down. How many left?"
PROCESSES = {
    "python": ("-c", "pass"),
    "import coda_dspy": ("-c", "import coda_dspy"),
    "from coda_dspy import AdaptiveCoda, connect": ("-c", "from coda_dspy import AdaptiveCoda, connect"),
    "coda --help": ("-m", "coda_dspy", "--help"),
}


def seconds_of(arguments: Sequence[str]) -> float:
    """Wall seconds of a fresh interpreter, from its start to its end.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    with TemporaryDirectory() as cache:
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "DSPY_CACHEDIR": cache},
        )
        return time.perf_counter() - started


def parts(engine: EngineChoice) -> dict[str, float]:
    """Seconds of what `coda solve` does one after the other, in this process."""
    from coda_dspy import AdaptiveCoda

    started = time.perf_counter()
    lm = engine.connect().copy(cache=False)
    connected = time.perf_counter()
    lm(f"Think about this. {QUESTION}", max_tokens=1)
    first = time.perf_counter()
    AdaptiveCoda(lm=lm)(question=QUESTION)
    answered = time.perf_counter()
    return {"connect": connected - started, "first token": first - connected, "answer": answered - first}


def parts_in_its_own_process(engine: Sequence[str]) -> dict[str, float]:
    """The same in a fresh process."""
    command = [sys.executable, "-m", "coda_dspy.experiments.bench.cold_start", "--once", *engine]
    found: dict[str, float] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return found


def rows_of(rounds: Sequence[dict[str, float]]) -> list[Row]:
    """A row a figure; ratios are against a bare interpreter, round by round."""
    return [
        {
            "what": name,
            "s": Spread.of(one[name] for one in rounds),
            "against bare python": Spread.of(one[name] / one["python"] for one in rounds),
        }
        for name in rounds[0]
    ]


@click.command()
@engine_options
@click.option("--once", is_flag=True, hidden=True)
@rounds_option
@output_option
def main(once: bool, rounds: int, output: Path | None, **options: Any) -> None:
    """Print how long imports, the first token and the answer take; without an engine, the imports alone."""
    engine = EngineChoice(**options)
    if once:
        click.echo(json.dumps(parts(engine)))
        return
    machine = Machine()
    arguments = engine_arguments(engine)
    found = []
    for _ in range(rounds):
        one = {name: seconds_of(process) for name, process in PROCESSES.items()}
        if engine.engine is not None:
            one["coda solve, the whole command"] = seconds_of(("-m", "coda_dspy", "solve", *arguments, QUESTION))
            one |= parts_in_its_own_process(arguments)
        found.append(one)
    publish("cold_start", rows_of(found), [f"{rounds} rounds, median (least–most). {machine}."], output)


def engine_arguments(engine: EngineChoice) -> list[str]:
    """The engine options as they are typed."""
    given = {"--engine": engine.engine, "--api-base": engine.api_base, "--api-key-env": engine.api_key_env}
    typed = [word for name, value in given.items() if value is not None for word in (name, value)]
    return [*typed, *(word for pair in engine.decoding for word in ("--decoding", pair))]


if __name__ == "__main__":
    main()
