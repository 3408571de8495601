"""The whole program on a real small model in this process."""

import dspy
import pytest

from coda_dspy import AdaptiveCoda, Budget, Coda, connect
from coda_dspy.engines import catalog, weights

pytestmark = [
    pytest.mark.local_engine,
    pytest.mark.skipif(
        not weights.is_fetched(catalog.find("smollm2-135m")),
        reason="the weights of smollm2-135m are not here; fetch them with: coda engines --fetch smollm2-135m",
    ),
]
SHORT = Budget.preset("quick").replace(max_tokens=24, early_exit="off")


@pytest.fixture(scope="module")
def lm() -> dspy.LM:
    return connect("local/smollm2-135m")


def test_calls_to_a_real_engine_are_billed(lm: dspy.LM) -> None:
    budget = SHORT.replace(best_of_n=1, n_plans=1, max_plan_tries=1)
    prediction = Coda(budget, lm=lm)(question="What is 2 + 2?")
    assert prediction.ledger.calls("plan") == 1
    assert prediction.ledger.tokens() > 0
    assert all(entry.error is None for entry in prediction.ledger.entries)


def test_the_engine_reports_what_its_prefix_cache_saved(lm: dspy.LM) -> None:
    budget = SHORT.replace(num_attempts_baseline=3, num_attempts_coda=0)
    ledger = AdaptiveCoda(budget, lm=lm)(question="A train has 12 cars with 40 seats each. How many seats?").ledger
    assert sum(entry.tokens_prefix or 0 for entry in ledger.entries) > 0


def test_samples_differ_and_the_same_question_again_costs_nothing(lm: dspy.LM) -> None:
    budget = SHORT.replace(num_attempts_baseline=4, num_attempts_coda=0)
    program = AdaptiveCoda(budget, lm=lm)
    first, again = program(question="Name a number."), program(question="Name a number.")
    assert len({step.text or step.failure for step in first.transcript}) > 1 or first.failures
    assert again.ledger.calls(billed=True) == 0
    assert again.ledger.tokens() == first.ledger.tokens()
