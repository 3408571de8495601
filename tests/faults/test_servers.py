"""Servers that fail: the right answer, or a clear failure of that question alone, and a ledger that adds up."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dspy
import pytest
from sums import ONCE, adds, bill, sums

from coda_dspy import AdaptiveCoda, Budget, Coda, connect
from coda_dspy.errors import EngineError
from coda_dspy.evaluation import JsonLines, evaluate
from coda_dspy.testing import FakeOpenAIServer, Reply, ServerCall
from coda_dspy.testing.protocol import completion, to_json


def bare(usage: Any, text: str = "Answer: 8") -> Reply:
    """A reply with this usage, whatever it is."""
    return Reply(None, raw=to_json(completion(Reply(text), usage, "fake")))


PASSING: Mapping[str, Reply] = {
    "closes the connection": Reply(None, drop=True),
    "answers half": Reply.half(),
    "hangs": Reply("Answer: 8", delay=60),
    "no JSON": Reply.malformed(),
    "JSON of another kind": Reply(None, raw=b"[]"),
    "choices that are none": Reply(None, raw=b'{"choices": "x"}'),
    "an error that says 200": Reply(None, raw=b'{"error": {"message": "oops"}}'),
    "a page of a proxy": Reply(None, status=502, raw=b"<html>bad gateway</html>"),
    "usage in words": bare({"prompt_tokens": "few", "completion_tokens": 1}),
    "usage below nothing": bare({"prompt_tokens": -5, "completion_tokens": 1}),
    "usage of another kind": bare("many"),
}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What would have been slept between tries."""
    slept: list[float] = []
    monkeypatch.setattr("dspy.clients.execution.time.sleep", slept.append)
    return slept


@pytest.mark.parametrize("name", PASSING)
def test_a_fault_that_passes_costs_a_try_and_no_attempt(name: str) -> None:
    with FakeOpenAIServer(lambda call: PASSING[name] if call.index in (1, 4) else "So.\nAnswer: 8") as server:
        lm = connect("openai/fake", server.url, timeout=10.0)
        prediction = Coda(Budget(best_of_n=2, n_plans=2, early_exit="off"), lm=lm)(question="Q?")
        ledger = prediction.ledger
        assert (prediction.answer, prediction.votes, prediction.failures) == ("8", {"8": 2}, [])
        assert ledger.calls() == server.count == 12
        assert ledger.known_tokens() == server.tokens_in + server.tokens_out


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 10**30, "completion_tokens": 5}, {"prompt_tokens": 7}])
def test_usage_that_is_missing_or_absurd_is_unknown_and_costs_no_answer(usage: Any) -> None:
    with FakeOpenAIServer(lambda call: bare(usage)) as server:
        program = AdaptiveCoda(ONCE, lm=connect("openai/fake", server.url))
        ledgers = [program(question="Q?").ledger for _ in range(2)]  # the second one from the cache
    assert [(ledger.calls(), ledger.tokens(), ledger.known_tokens()) for ledger in ledgers] == [(1, None, 0)] * 2


def test_a_server_that_asks_for_years_of_patience_is_tried_again_within_minutes(no_pauses: list[float]) -> None:
    late = Reply("busy", status=429, headers={"Retry-After": "1e9"})
    with FakeOpenAIServer(lambda call: late if call.index == 0 else "Answer: 8") as server:
        assert AdaptiveCoda(ONCE, lm=connect("openai/fake", server.url))(question="Q?").answer == "8"
    assert no_pauses == [600.0]


def test_a_context_that_is_too_long_fails_that_question_alone() -> None:
    def reply(call: ServerCall) -> str | Reply:
        return Reply.context_overflow() if "What is 3 +" in call.prompt else adds(call)

    with FakeOpenAIServer(reply) as server:
        with dspy.context(lm=connect("openai/fake", server.url)):
            results = evaluate(AdaptiveCoda(ONCE), sums(6))
        assert [r.correct for r in results] == [True, True, True, False, True, True]
        assert "maximum context length" in results[3].failures[0]
        assert bill(results) == (server.count, server.tokens_in + server.tokens_out)


def test_a_server_that_comes_back_between_two_tries_costs_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    server = FakeOpenAIServer(adds)
    with server:
        lm = connect("openai/fake", server.url)
    monkeypatch.setattr("dspy.clients.execution.time.sleep", lambda seconds: server.__enter__())
    prediction = AdaptiveCoda(ONCE, lm=lm)(question="What is 3 + 1?")
    server.__exit__(None, None, None)
    assert (prediction.answer, prediction.failures) == ("4", [])
    assert (prediction.ledger.calls(), server.count) == (2, 1)  # one met nobody


@pytest.mark.parametrize("workers", [1, 8])
def test_a_server_that_dies_and_comes_back_leaves_no_answer_of_a_dead_one_behind(tmp_path: Path, workers: int) -> None:
    """It dies in the middle of questions: what it half answered must not count either."""
    store = JsonLines(tmp_path / "results.jsonl")
    program = AdaptiveCoda(Budget(num_attempts_baseline=3, early_exit="off"))
    alive = 20  # calls

    def reply(call: ServerCall) -> str | Reply:
        return adds(call) if call.index < alive else Reply(None, drop=True)

    with FakeOpenAIServer(reply) as server, dspy.context(lm=connect("openai/fake", server.url, num_retries=0)):
        with pytest.raises(EngineError, match=r"the engine gave no reply .* Is the server running"):
            evaluate(program, sums(30), store=store, workers=workers)
        kept = store.read()
        alive = 10**6
        results = evaluate(program, sums(30), store=store, workers=workers)
    assert all(row["correct"] and not row["failures"] for row in kept)
    assert len(kept) < 30 and store.read()[: len(kept)] == kept
    assert [(r.correct, r.failures) for r in results] == [(True, [])] * 30
    assert len({row["id"] for row in store.read()}) == len(store.read()) == 30


def test_a_question_that_got_no_reply_is_on_the_bill_all_the_same() -> None:
    def reply(call: ServerCall) -> str | Reply:
        return Reply.server_error() if "What is 3 +" in call.prompt else adds(call)

    with FakeOpenAIServer(reply) as server:
        with dspy.context(lm=connect("openai/fake", server.url, num_retries=2)):
            results = evaluate(AdaptiveCoda(ONCE), sums(6), workers=1)
        assert results[3].error is not None and "gave no reply in 3 tries" in results[3].error
        assert bill(results) == (server.count, server.tokens_in + server.tokens_out)


def test_an_engine_whose_every_question_ends_in_silence_is_not_held_back_for_ever(tmp_path: Path) -> None:
    def reply(call: ServerCall) -> str | Reply:
        return "1. Add. (high)" if "Write a plan" in call.prompt else Reply.server_error()

    store = JsonLines(tmp_path / "results.jsonl")
    program = Coda(Budget(best_of_n=1, n_plans=1))
    with FakeOpenAIServer(reply) as server, dspy.context(lm=connect("openai/fake", server.url, num_retries=0)):
        saved: list[int] = []
        results = evaluate(program, sums(9), store=store, workers=2, on_result=lambda r: saved.append(1))
    assert len(results) == len(store.read()) == len(saved) == 9
    assert not any(r.correct for r in results)


def test_a_key_that_is_refused_in_the_middle_stops_at_once_and_the_run_can_go_on(tmp_path: Path) -> None:
    store = JsonLines(tmp_path / "results.jsonl")
    with FakeOpenAIServer(adds, api_key="first") as server:
        expired = connect("openai/fake", server.url, api_key="first", cache=False)

        def expires(result: Any) -> None:
            if len(store.read()) == 10:
                server.api_key = "second"

        with dspy.context(lm=expired), pytest.raises(EngineError, match="refuses to work"):
            evaluate(AdaptiveCoda(ONCE), sums(40), store=store, workers=4, on_result=expires)
        assert server.rejected <= 4  # what was in flight, and no retry
        kept = store.read()
        assert 10 <= len(kept) < 20
        assert sum(row["calls"] for row in kept) == server.count
        with dspy.context(lm=connect("openai/fake", server.url, api_key="second", cache=False)):
            results = evaluate(AdaptiveCoda(ONCE), sums(40), store=store, workers=4)
        assert all(result.correct for result in results) and store.read()[: len(kept)] == kept
        assert bill(results) == (server.count, server.tokens_in + server.tokens_out)
