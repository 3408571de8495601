import pytest

from coda_dspy import AdaptiveCoda, connect
from coda_dspy.experiments.bench.memory import Constant, in_its_own_process, rows_of


def test_growth_is_counted_for_each_further_question() -> None:
    few, many = rows_of({10: [100.0, 110.0, 120.0], 110: [200.0, 210.0, 320.0]})
    assert (few["most MiB"], many["most MiB"]) == ((110.0, 100.0, 120.0), (210.0, 200.0, 320.0))
    assert many["KiB for each further question"] == (1024.0, 1024.0, 2048.0)


def test_the_engine_of_the_run_answers_its_questions() -> None:
    assert AdaptiveCoda(lm=connect(Constant()))(question="2 + 2?").answer == "4"


@pytest.mark.timeout(300)  # processes of its own, which import DSPy
def test_a_run_tells_the_most_memory_of_its_process_in_mebibytes() -> None:
    assert 30 < in_its_own_process(2) < 3000
