"""Algorithm 1."""

import time
from itertools import product

import pytest
from dspy.lm15 import ServerError
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts import answering, engine

from coda_dspy import Budget, Coda
from coda_dspy.errors import EngineError, UserError
from coda_dspy.program import Conductor
from coda_dspy.testing import Reply, ScriptedCall


@pytest.mark.parametrize(("best_of_n", "n_plans"), [*product((1, 2, 3), (1, 2, 4))])
def test_calls_per_stage_are_those_of_algorithm_1(best_of_n: int, n_plans: int) -> None:
    made, lm = engine(answering())
    prediction = Coda(Budget(best_of_n=best_of_n, n_plans=n_plans, early_exit=False), lm=lm)(question="Q?")
    for stage, calls in (("plan", best_of_n * n_plans), ("execute", best_of_n * n_plans), ("reflect", best_of_n)):
        assert prediction.ledger.calls(stage) == calls == made.count(stage)
    assert prediction.ledger.calls() == len(made.calls)
    assert prediction.answer == "1"
    assert prediction.path == "coda"


def test_the_base_of_both_algorithms_can_be_made_and_says_that_it_answers_nothing() -> None:
    _, lm = engine(answering())
    with pytest.raises(UserError, match="Conductor is no algorithm; use coda_dspy"):
        Conductor(lm=lm)(question="Q?")


@pytest.mark.parametrize("n_plans", [1, 3])
def test_without_the_planner_no_plan_is_asked_for(n_plans: int) -> None:
    _, lm = engine(answering())
    budget = Budget(best_of_n=2, n_plans=n_plans, use_planner=False, early_exit=False)
    ledger = Coda(budget, lm=lm)(question="Q?").ledger
    assert (ledger.calls("plan"), ledger.calls("execute"), ledger.calls("reflect")) == (0, 2 * n_plans, 2)


def test_without_reflection_every_execution_is_a_candidate() -> None:
    _, lm = engine(answering(coda=["1", "2"]))
    prediction = Coda(Budget(best_of_n=2, n_plans=3, use_reflection=False, early_exit=False), lm=lm)(question="Q?")
    assert prediction.ledger.calls("reflect") == 0
    assert len(prediction.candidates) == 6
    assert prediction.votes == {"1": 3, "2": 3}
    assert prediction.answer == "1"  # a tie: the earlier first vote


def test_the_majority_of_the_attempts_wins() -> None:
    _, lm = engine(answering(coda=["12", "13", "13"]))
    assert Coda(Budget(best_of_n=3), lm=lm)(question="Q?").answer == "13"


def test_early_exit_skips_attempts_that_cannot_change_the_answer() -> None:
    _, lm = engine(answering(coda=["7"]))
    prediction = Coda(Budget(best_of_n=5, n_plans=1), lm=lm)(question="Q?")
    assert prediction.ledger.calls("reflect") == 3


def test_plan_diversity_gives_each_attempt_an_approach_of_its_own() -> None:
    def script(call: ScriptedCall) -> str:
        return f"method {call.sample.attempt}" if call.stage == "approach" else answering()(call)  # type: ignore[return-value]

    made, lm = engine(script)
    Coda(Budget(best_of_n=3, n_plans=2, plan_diversity=True, early_exit=False), lm=lm)(question="Q?")
    assert made.count("approach") == 3
    for call in made.calls:
        if call.stage == "plan":
            assert f"method {call.sample.attempt}" in call.prompt
    last = next(c for c in made.calls if c.stage == "approach" and c.sample.attempt == 2)
    assert "- method 0\n- method 1" in last.prompt


def test_a_cut_plan_is_tried_again_and_never_executed() -> None:
    def script(call: ScriptedCall) -> str | Reply:
        if call.stage == "plan":
            return Reply.cut("1. CUT PLAN") if call.sample.retry == 0 else "1. Whole plan."
        return answering()(call)

    made, lm = engine(script)
    prediction = Coda(Budget(best_of_n=1, n_plans=2, max_plan_tries=2), lm=lm)(question="Q?")
    assert prediction.ledger.calls("plan") == 4
    assert prediction.ledger.by_stage()["plan"]["cut"] == 2
    assert all("CUT PLAN" not in call.prompt for call in made.calls)
    assert prediction.answer == "1"


def test_a_plan_that_is_always_cut_loses_its_branch_only() -> None:
    def script(call: ScriptedCall) -> str | Reply:
        if call.stage == "plan" and call.sample.plan == 0:
            return Reply.cut("1. And")
        return answering()(call)

    _, lm = engine(script)
    prediction = Coda(Budget(best_of_n=1, n_plans=2, max_plan_tries=3), lm=lm)(question="Q?")
    assert prediction.ledger.calls("plan") == 4
    assert prediction.ledger.calls("execute") == 1
    assert prediction.answer == "1"
    assert prediction.failures == ["plan: cut off after 2 tokens (limit 4096)"]


def test_a_cut_synthesis_is_no_vote() -> None:
    def script(call: ScriptedCall) -> str | Reply:
        if call.stage == "reflect" and call.sample.attempt < 2:
            return Reply.cut("Answer: 666")
        return answering(coda=["1", "2", "3"])(call)

    _, lm = engine(script)
    prediction = Coda(Budget(best_of_n=3, early_exit=False), lm=lm)(question="Q?")
    assert prediction.answer == "3"
    assert prediction.votes == {"3": 1}


def test_without_any_synthesis_the_executions_are_voted_on() -> None:
    def script(call: ScriptedCall) -> str | Reply:
        return Reply.cut("hm") if call.stage == "reflect" else answering(coda=["4"])(call)

    _, lm = engine(script)
    prediction = Coda(Budget(best_of_n=2, n_plans=2), lm=lm)(question="Q?")
    assert prediction.answer == "4"
    assert prediction.votes == {"4": 4}


def test_when_every_branch_fails_one_direct_attempt_is_the_last_resort() -> None:
    def script(call: ScriptedCall) -> str | Reply:
        return "Answer: 9" if call.stage == "direct" else Reply.cut("hm")

    _, lm = engine(script)
    prediction = Coda(Budget(best_of_n=2), lm=lm)(question="Q?")
    assert (prediction.answer, prediction.path) == ("9", "direct")
    assert prediction.ledger.calls("direct") == 1


def test_without_any_answer_the_prediction_says_so_and_why() -> None:
    _, lm = engine(lambda call: Reply.cut("hm"))
    prediction = Coda(Budget(best_of_n=1, n_plans=1, max_plan_tries=1), lm=lm)(question="Q?")
    assert prediction.answer is None
    assert prediction.candidates == []
    assert [f.partition(":")[0] for f in prediction.failures] == ["plan", "direct"]


def test_an_engine_that_never_replies_stops_the_run() -> None:
    _, lm = engine(lambda call: ServerError("out of order"))
    with pytest.raises(EngineError, match=r"no reply in .* tries\. Last reason: .*out of order"):
        Coda(lm=lm)(question="Q?")


sizes = st.tuples(st.integers(1, 4), st.integers(1, 4))


@settings(max_examples=30)
@given(sizes, sizes, st.booleans())
def test_a_smaller_budgets_calls_are_a_subset_of_a_larger_ones(
    one: tuple[int, int], other: tuple[int, int], diverse: bool
) -> None:
    def calls(best_of_n: int, n_plans: int) -> set[tuple[str, object, str]]:
        made, lm = engine(lambda call: f"Answer: {call.sample.attempt}", cache=False)
        budget = Budget(best_of_n=best_of_n, n_plans=n_plans, plan_diversity=diverse, early_exit=False)
        Coda(budget, lm=lm)(question="Q?")
        # A reflection reads the executions, so it is the same call only where there are as many of them.
        return {(c.stage, c.sample, c.prompt) for c in made.calls if c.stage != "reflect"}

    smaller = (min(one[0], other[0]), min(one[1], other[1]))
    assert calls(*smaller) <= calls(*one)
    assert calls(*smaller) <= calls(*other)


def test_a_larger_budget_pays_only_for_what_a_smaller_one_did_not_draw() -> None:
    made, lm = engine(answering(coda=["1", "2", "3"]))
    budget = Budget(best_of_n=3, n_plans=2, early_exit=False)
    Coda(budget, lm=lm)(question="Q?")
    before = len(made.calls)
    prediction = Coda(budget.replace(best_of_n=2), lm=lm)(question="Q?")
    assert len(made.calls) == before
    assert prediction.ledger.calls(billed=True) == 0
    assert prediction.ledger.tokens() > 0


def test_samples_differ_from_each_other_with_a_warm_cache_too() -> None:
    replies = iter(range(1000))
    _, lm = engine(lambda call: f"Answer: {next(replies)}")
    budget = Budget(best_of_n=3, n_plans=2, use_planner=False, use_reflection=False, early_exit=False)
    first = Coda(budget, lm=lm)(question="Q?")
    again = Coda(budget, lm=lm)(question="Q?")
    assert len(first.votes) == 6
    assert first.votes == again.votes


@pytest.mark.parametrize("verifier", ["judge", "pairwise"])
def test_judges_are_not_asked_where_everyone_agrees(verifier: str) -> None:
    _, lm = engine(answering())
    assert Coda(Budget(best_of_n=3, verifier=verifier), lm=lm)(question="Q?").ledger.calls("judge") == 0


def test_tokens_of_a_candidate_are_those_of_its_calls() -> None:
    _, lm = engine(answering())
    prediction = Coda(Budget(best_of_n=1, n_plans=2), lm=lm)(question="Q?")
    assert prediction.candidates[0].tokens == prediction.ledger.tokens()
    assert len(prediction.candidates[0].plans) == len(prediction.candidates[0].executions) == 2


def test_votes_do_not_depend_on_which_attempt_ends_first() -> None:
    def script(call: ScriptedCall) -> str | Reply:
        if call.stage == "reflect":
            time.sleep(0.05 if call.sample.attempt == 0 else 0)
            return Reply.cut("hm")
        return answering(coda=["4", "5"])(call)

    _, lm = engine(script)
    prediction = Coda(Budget(best_of_n=2, n_plans=1, early_exit="off"), lm=lm)(question="Q?")
    assert prediction.answer == "4"  # a tie of executions: the earlier attempt


def test_a_failed_approach_costs_that_attempt_its_approach_only() -> None:
    def script(call: ScriptedCall) -> str | Reply:
        if call.stage == "approach":
            return Reply.cut("m") if call.sample.attempt == 1 else f"method {call.sample.attempt}"
        return answering()(call)

    made, lm = engine(script)
    Coda(Budget(best_of_n=3, n_plans=1, plan_diversity=True, early_exit="off"), lm=lm)(question="Q?")
    prompts = {call.sample.attempt: call.prompt for call in made.calls if call.stage == "plan"}
    assert "method 0" in prompts[0]
    assert "Method to use" not in prompts[1]
    assert "method 2" in prompts[2]
