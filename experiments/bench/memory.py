"""Whether memory stays bounded: the most that a run of few and of many questions takes.

    python -m coda_dspy.experiments.bench.memory

Each run is a process of its own, on an engine that answers at once, and saves its results and its pool as
`coda evaluate` does.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from dspy.lm15 import Message, Request, Response, TextPart, Usage

from coda_dspy.cli.display import quiet_libraries
from coda_dspy.experiments.bench.measuring import Machine, Row, Spread, output_option, publish, rounds_option
from coda_dspy.experiments.bench.serving import TEXT


class Constant:
    """An engine that always says the same, and keeps nothing."""

    label = "constant"

    def complete(self, request: Request) -> Response:
        """The reply."""
        message = Message.assistant([TextPart(TEXT.format(4))])
        return Response(None, request.model, message, finish_reason="stop", usage=Usage(300, 200, 500))


def run(questions: int) -> float:
    """Answer so many questions in this process; gives the most memory that it ever held, in MiB."""
    import resource

    from coda_dspy import AdaptiveCoda, connect
    from coda_dspy.data import Question
    from coda_dspy.evaluation import evaluate_in

    asked = [Question(f"q{number}", f"What is {number} - {number} + 4?", "4") for number in range(questions)]
    with TemporaryDirectory() as folder:
        evaluate_in(Path(folder), AdaptiveCoda(), asked, connect(Constant()), {"bench": "memory"})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def in_its_own_process(questions: int) -> float:
    """The same in a fresh process."""
    command = [sys.executable, "-m", "coda_dspy.experiments.bench.memory", "--once", str(questions)]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def rows_of(peaks: Mapping[int, Sequence[float]]) -> list[Row]:
    """A row a number of questions, in ascending order; growth is against the first."""
    (first, least), *_ = peaks.items()
    rows: list[Row] = []
    for number, most in peaks.items():
        growth = [1024 * (high - low) / max(1, number - first) for low, high in zip(least, most, strict=True)]
        rows.append(
            {"questions": number, "most MiB": Spread.of(most), "KiB for each further question": Spread.of(growth)}
        )
    return rows


@click.command()
@click.option("--questions", "numbers", multiple=True, type=int, default=(1_000, 10_000), help="In a run; repeatable.")
@click.option("--once", type=int, hidden=True)
@rounds_option
@output_option
def main(numbers: Sequence[int], once: int | None, rounds: int, output: Path | None) -> None:
    """Print the most memory that runs of so many questions take."""
    quiet_libraries()
    if once is not None:
        click.echo(run(once))
        return
    machine = Machine()
    peaks = {number: [in_its_own_process(number) for _ in range(rounds)] for number in sorted(numbers)}
    publish("memory", rows_of(peaks), [f"{rounds} rounds, median (least–most). {machine}."], output)


if __name__ == "__main__":
    main()
