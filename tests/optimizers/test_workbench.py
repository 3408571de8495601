"""How a time limit becomes a number of questions."""

import time
from dataclasses import replace
from pathlib import Path

from scripts import engine

from coda_dspy.optimizers import TunePlan
from coda_dspy.optimizers.folder import TuneFolder
from coda_dspy.optimizers.log import TuneLog
from coda_dspy.optimizers.workbench import Silent, Workbench

PLAN = replace(TunePlan.quick(), minutes=10.0)


def bench_in(folder: Path) -> Workbench:
    _, lm = engine(lambda call: "Answer: 1")
    return Workbench(lm, PLAN, TuneFolder(folder), 1, TuneLog(None), Silent(), "plain", time.monotonic())


def test_the_speed_of_an_earlier_process_sizes_the_questions_of_the_next(tmp_path: Path) -> None:
    first = bench_in(tmp_path)
    first.generated = 1000
    with first.generating():
        first.busy = 100.0
    # Ten tokens a second for five minutes, and a question takes 300.
    assert bench_in(tmp_path).fitting("validation", 40, 300.0, 0.5) == 9


def test_where_no_speed_is_known_all_questions_are_asked_and_that_is_told(tmp_path: Path) -> None:
    bench = bench_in(tmp_path)
    assert bench.fitting("validation", 40, 300.0, 0.5) == 40
    assert any("no speed is known" in note and "validation" in note for note in bench.notes)


def test_a_number_of_questions_stays_as_it_was_decided(tmp_path: Path) -> None:
    bench_in(tmp_path).folder.keep_size("validation", 7)
    bench = bench_in(tmp_path)
    assert bench.fitting("validation", 40, 300.0, 0.5) == 7
    assert bench.notes == ["the time limit leaves 7 of 40 validation questions"]
