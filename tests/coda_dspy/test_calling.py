"""One call of a role: cuts, efforts, caps, thinking, settings that an engine refuses."""

import threading

import dspy
import pytest
from dspy.lm15 import AuthError, InvalidRequestError, Message, Response, ServerError, TextPart, Usage
from scripts import answering, engine

from coda_dspy import AdaptiveCoda, Budget, Coda, connect
from coda_dspy.errors import EngineError, UserError
from coda_dspy.testing import Reply, ScriptedCall, ScriptedEngine

ONCE = Budget(num_attempts_baseline=1, num_attempts_coda=0)


def effort(call: ScriptedCall) -> str | None:
    reasoning = call.request.config.reasoning
    return reasoning.effort if reasoning else None


@pytest.mark.parametrize("failure", [Reply.cut("hm"), ServerError("overloaded")])
def test_the_reasoning_effort_steps_down_when_a_reply_fails(failure: object) -> None:
    made, lm = engine(lambda call: "Answer: 3" if effort(call) == "low" else failure)
    prediction = AdaptiveCoda(ONCE.replace(reasoning_effort="high"), lm=lm)(question="Q?")
    assert [effort(call) for call in made.calls] == ["high", "medium", "low"]
    assert prediction.answer == "3"
    assert prediction.ledger.calls() == 3


def test_without_an_effort_none_is_sent() -> None:
    made, lm = engine(answering(["3"]))
    AdaptiveCoda(ONCE, lm=lm)(question="Q?")
    assert effort(made.calls[0]) is None


def test_a_setting_that_the_engine_refuses_is_found_out_once_and_remembered() -> None:
    def script(call: ScriptedCall) -> object:
        return InvalidRequestError("unknown field: reasoning_effort") if effort(call) else "Answer: 3"

    made, lm = engine(script)
    program = AdaptiveCoda(ONCE.replace(reasoning_effort="high"), lm=lm)
    first, second = program(question="Q?"), program(question="R?")
    assert (first.answer, second.answer) == ("3", "3")
    assert [effort(call) for call in made.calls] == ["high", None, None]
    assert first.ledger.calls() == 2
    assert lm.engine.refused == {"reasoning"}


def test_extras_reach_the_engine_and_a_refused_one_is_dropped() -> None:
    def script(call: ScriptedCall) -> object:
        extensions = call.request.config.extensions or {}
        return InvalidRequestError("min_p is not supported") if "min_p" in extensions else "Answer: 3"

    made = ScriptedEngine(script)  # type: ignore[arg-type]
    lm = connect(made, num_retries=0, top_k=20, min_p=0.1)
    assert AdaptiveCoda(ONCE, lm=lm)(question="Q?").answer == "3"
    assert made.calls[-1].request.config.extensions == {"top_k": 20}


def test_no_call_is_launched_beyond_the_questions_token_limit() -> None:
    _, lm = engine(answering(["1", "2", "3", "4", "5"]))
    budget = Budget(num_attempts_baseline=3, best_of_n=4, n_plans=1, max_total_tokens=60)
    prediction = AdaptiveCoda(budget, lm=lm)(question="Q?")
    assert prediction.answer == "1"
    in_flight = 3  # the direct attempts start together; nothing after them does
    assert prediction.ledger.calls() <= in_flight + 4
    assert any("the question's budget is spent" in failure for failure in prediction.failures)


def test_thinking_is_kept_beside_the_text_and_out_of_votes_and_prompts() -> None:
    def script(call: ScriptedCall) -> Reply:
        return Reply("The answer is near. Answer: 7", reasoning="SECRET THOUGHT: maybe 8. Answer: 8")

    made, lm = engine(script)
    prediction = Coda(Budget(best_of_n=1, n_plans=1), lm=lm)(question="Q?")
    assert prediction.answer == "7"
    assert "SECRET THOUGHT" in prediction.candidates[0].thinking
    assert all("SECRET THOUGHT" not in call.prompt for call in made.calls)


@pytest.mark.parametrize("reply", ["<think>6? Answer: 6", "<think>Answer: 6</think>", Reply("", reasoning="6")])
def test_thinking_alone_is_no_answer(reply: object) -> None:
    _, lm = engine(lambda call: reply)
    assert AdaptiveCoda(ONCE, lm=lm)(question="Q?").answer is None


def test_refinement_sends_problem_attempt_and_feedback_until_an_answer_can_be_read() -> None:
    def script(call: ScriptedCall) -> str:
        return "Answer: 12" if call.sample.step == "refine-1" else "I am not sure."

    made, lm = engine(script)
    prediction = AdaptiveCoda(ONCE.replace(refine_rounds=3), lm=lm)(question="How many?")
    assert prediction.answer == "12"
    assert prediction.ledger.calls("refine") == 2
    for call in made.calls[1:]:
        assert "How many?" in call.prompt
        assert "I am not sure." in call.prompt
        assert "does not give a final answer" in call.prompt


def test_a_refused_key_stops_at_once() -> None:
    made, lm = engine(lambda call: AuthError("incorrect key"))
    with pytest.raises(EngineError, match="the engine refuses to work"):
        AdaptiveCoda(ONCE, lm=lm)(question="Q?")
    assert len(made.calls) == 1


def test_without_an_engine_the_error_says_how_to_set_one() -> None:
    with pytest.raises(UserError, match=r"use coda_dspy\.connect"):
        AdaptiveCoda()(question="Q?")


def test_an_lm_that_is_not_ours_is_metered_as_well() -> None:
    made = ScriptedEngine(answering(["4"]))
    lm = dspy.LM("foreign/model", engine=made)
    with dspy.context(lm=lm):
        first = AdaptiveCoda(ONCE)(question="Q?")
        second = AdaptiveCoda(ONCE)(question="Q?")
    assert first.ledger.tokens() == second.ledger.tokens() > 0
    assert (first.ledger.calls(billed=True), second.ledger.calls(billed=True)) == (1, 0)


def test_the_trace_holds_the_calls_of_the_winning_branch_only() -> None:
    _, lm = engine(answering(coda=["1", "2", "2"]))
    with dspy.context(trace=[]):
        prediction = Coda(Budget(best_of_n=3, n_plans=2, early_exit="off"), lm=lm)(question="Q?")
        trace = dspy.settings.trace
    assert prediction.answer == "2"
    texts = [next(iter(output.values())) for _, _, output in trace]
    assert len(trace) == 5  # two plans, two executions, one synthesis
    assert not any("Answer: 1" in text for text in texts)


def test_a_setting_that_is_refused_in_the_middle_of_a_fan_out_costs_no_attempt() -> None:
    barrier = threading.Barrier(2, timeout=10)

    def script(call: ScriptedCall) -> object:
        if effort(call):
            barrier.wait()  # both calls carry the effort
            return InvalidRequestError("reasoning_effort is not supported")
        return "Answer: 3"

    _, lm = engine(script)
    budget = Budget(num_attempts_baseline=2, num_attempts_coda=0, reasoning_effort="high", early_exit="off")
    prediction = AdaptiveCoda(budget, lm=lm)(question="Q?")
    assert prediction.votes == {"3": 2}
    assert prediction.failures == []


def test_an_engine_without_efforts_is_not_asked_the_same_again() -> None:
    def script(call: ScriptedCall) -> object:
        return InvalidRequestError("unknown field: reasoning_effort") if effort(call) else Reply.cut("hm")

    made, lm = engine(script)
    AdaptiveCoda(ONCE.replace(reasoning_effort="high"), lm=lm)(question="Q?")
    assert [effort(call) for call in made.calls] == ["high", None]  # refused, and cut


def test_a_bad_value_of_a_setting_is_not_taken_for_a_refusal() -> None:
    made = ScriptedEngine(lambda call: InvalidRequestError("top_k must be at most 100"))
    lm = connect(made, num_retries=0, top_k=500)
    prediction = AdaptiveCoda(ONCE, lm=lm)(question="Q?")
    assert prediction.answer is None
    assert "top_k must be at most 100" in prediction.failures[0]
    assert lm.engine.refused == set()


def test_a_limit_that_cannot_be_kept_is_refused() -> None:
    def script(call: ScriptedCall) -> Response:
        return Response(None, "m", Message.assistant([TextPart("no number")]), finish_reason="stop", usage=Usage())

    _, lm = engine(script)
    with pytest.raises(UserError, match="max_total_tokens cannot be kept"):
        AdaptiveCoda(Budget(max_total_tokens=1), lm=lm)(question="Q?")


def test_tokens_of_a_candidate_hold_its_failed_plan_tries() -> None:
    def script(call: ScriptedCall) -> str | Reply:
        if call.stage == "plan" and call.sample.retry == 0:
            return Reply.cut("1. And so on and so on")
        return answering()(call)

    _, lm = engine(script)
    prediction = Coda(Budget(best_of_n=1, n_plans=2), lm=lm)(question="Q?")
    assert prediction.candidates[0].tokens == prediction.ledger.tokens()


def test_a_bound_engine_follows_the_rollout_that_an_optimizer_sets() -> None:
    replies = iter(range(100))
    _, lm = engine(lambda call: f"Answer: {next(replies)}")
    program = AdaptiveCoda(ONCE, lm=lm)
    answers = []
    for rollout in (1, 2, 1):
        with dspy.context(lm=lm.copy(rollout_id=rollout)):
            answers.append(program(question="Q?").answer)
    assert answers == ["0", "1", "0"]


def test_programs_answer_asynchronously_too() -> None:
    import asyncio

    _, lm = engine(answering(["4"]))
    prediction = asyncio.run(AdaptiveCoda(lm=lm).acall(question="Q?"))
    assert prediction.answer == "4"
    assert prediction.ledger.calls() == 2
