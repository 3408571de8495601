"""The limit of an endpoint: it finds what the server takes, and everything in the process shares it."""

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest
from dspy.lm15 import RateLimitError
from hypothesis import given, settings
from hypothesis import strategies as st

from coda_dspy import Budget, Coda, connect
from coda_dspy.data import Question
from coda_dspy.engines.limits import EndpointLimit
from coda_dspy.evaluation import evaluate
from coda_dspy.testing import FakeOpenAIServer, Reply, ServerCall

WHOLE = Budget(best_of_n=2, n_plans=2, early_exit="off")


class Crowd:
    """As many calls as a limit lets through, at a server that takes so many at once; refused ones come again."""

    def __init__(self, limit: EndpointLimit, capacity: int) -> None:
        self.limit, self.capacity = limit, capacity
        self.flying: deque[ExitStack] = deque()
        self.refused = 0

    def serve(self, calls: int) -> None:
        """Until so many more were served, the oldest first."""
        while calls:
            while self.limit.in_flight < self.limit.allowed:
                self._launch()
            self.flying.popleft().close()
            calls -= 1

    def _launch(self) -> None:
        if len(self.flying) < self.capacity:
            stack = ExitStack()
            stack.enter_context(self.limit.slot())
            self.flying.append(stack)
            return
        self.refused += 1
        with suppress(RateLimitError), self.limit.slot():
            raise RateLimitError("too many")


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 64))
def test_the_limit_stays_at_what_the_server_takes_and_seldom_asks_for_more(capacity: int, most: int) -> None:
    crowd = Crowd(EndpointLimit(most), capacity)
    crowd.serve(2000)
    before = crowd.refused
    crowd.serve(2000)
    assert min(capacity, most) <= crowd.limit.allowed <= max(1, min(capacity * 9 // 8 + 1, most))
    assert crowd.refused - before <= 2000 * 0.04


def test_a_burst_of_refusals_leaves_as_many_slots_as_calls_were_taken() -> None:
    limit = EndpointLimit(64)
    with ExitStack() as taken:
        for _ in range(8):
            taken.enter_context(limit.slot())
        refused = [ExitStack() for _ in range(56)]
        for stack in refused:
            stack.enter_context(limit.slot())
        for stack in refused:
            with suppress(RateLimitError), stack:
                raise RateLimitError("too many")
        assert (limit.in_flight, limit.allowed) == (8, 8)


def test_the_limit_grows_back_once_the_server_takes_more() -> None:
    crowd = Crowd(EndpointLimit(64), capacity=4)
    crowd.serve(100)
    assert crowd.limit.allowed < 8
    crowd.capacity = 1000
    crowd.serve(5000)
    assert crowd.limit.allowed == 64


def test_a_refusal_of_the_only_call_leaves_one_slot() -> None:
    limit = EndpointLimit(5)
    with suppress(RateLimitError), limit.slot():
        raise RateLimitError("too many")
    assert limit.allowed == 1


def test_calls_that_leave_slots_unused_do_not_raise_the_limit() -> None:
    limit = EndpointLimit(8)
    with limit.slot(), limit.slot(), suppress(RateLimitError), limit.slot():
        raise RateLimitError("too many")
    for _ in range(1000):
        with limit.slot():
            pass
    assert limit.allowed == 2


def test_other_errors_do_not_lower_the_limit() -> None:
    limit = EndpointLimit(5)
    with suppress(ValueError), limit.slot():
        raise ValueError
    assert (limit.in_flight, limit.allowed) == (0, 5)


def test_many_questions_at_a_server_that_takes_few_calls_lose_none_to_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dspy.clients.execution.time.sleep", lambda seconds: None)  # refused calls come at once
    reply = Reply("1. Add. (high)\nAnswer: 8", delay=0.005)
    with FakeOpenAIServer(lambda call: reply, max_concurrent=3) as server:
        lm = connect("openai/fake", server.url, cache=False)
        questions = [Question(f"q{i}", f"Q{i}?", "8") for i in range(32)]
        results = evaluate(Coda(WHOLE, lm=lm), questions, workers=32)
        calls = sum(result.calls for result in results)
        assert [(result.correct, result.failures) for result in results] == [(True, [])] * 32
        assert 0 < server.rejected == calls - server.count
        assert server.max_in_flight == 3


def test_two_connections_to_one_endpoint_share_its_limit() -> None:
    with FakeOpenAIServer(lambda call: Reply("Answer: 8", delay=0.02)) as server:
        addresses = {"openai/student": server.url, "hosted_vllm/teacher": f"{server.url}/"}
        engines = [connect(name, url, max_concurrency=2, cache=False) for name, url in addresses.items()]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda lm: Coda(WHOLE, lm=lm)(question="Q?"), engines))
        assert server.max_in_flight == 2


def test_endpoints_have_limits_of_their_own_and_the_last_connection_decides() -> None:
    one, other = (connect("openai/fake", f"http://127.0.0.1:{port}/v1", max_concurrency=9) for port in (1, 2))
    again = connect("openai/fake", "http://127.0.0.1:1/v1", max_concurrency=3)
    assert again.engine.limit is one.engine.limit
    assert (one.engine.limit.allowed, other.engine.limit.allowed) == (3, 9)


def test_waiting_calls_start_when_a_connection_raises_the_limit() -> None:
    limit, entered = EndpointLimit(1), threading.Event()

    def enter() -> None:
        with limit.slot():
            entered.set()

    with ThreadPoolExecutor(1) as pool, limit.slot():
        waiting = pool.submit(enter)
        limit.raise_or_lower(2)
        waiting.result(timeout=20)
    assert entered.is_set()


def test_connections_are_as_many_as_the_limit_allows() -> None:
    everybody = threading.Barrier(130, timeout=60)

    def reply(call: ServerCall) -> str:
        everybody.wait()
        return "hello"

    with FakeOpenAIServer(reply) as server:
        lm = connect("openai/fake", server.url, max_concurrency=130, cache=False)
        with ThreadPoolExecutor(130) as pool:
            assert list(pool.map(lm, ["hi"] * 130)) == [["hello"]] * 130
        assert server.max_in_flight == 130
