import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no price list is fetched during tests

import dspy
import httpx
import pytest

from coda_dspy.testing import FakeOpenAIServer, Reply, ServerCall


def in_turn(*replies: str | Reply) -> Callable[[ServerCall], str | Reply]:
    """One reply after the other; the last one stays."""
    return lambda call: replies[min(call.index, len(replies) - 1)]


def connect(server: FakeOpenAIServer, num_retries: int = 0, **settings: Any) -> dspy.LM:
    return dspy.LM("openai/fake", api_base=server.url, api_key="k", cache=False, num_retries=num_retries, **settings)


def post(server: FakeOpenAIServer, prompt: str = "hello there", key: str = "k", **body: Any) -> httpx.Response:
    return httpx.post(
        f"{server.url}/chat/completions",
        json={"model": "fake", "messages": [{"role": "user", "content": prompt}], **body},
        headers={"Authorization": f"Bearer {key}"},
        timeout=20,
        verify=False,  # reading the certificates would take longer than the whole request
        trust_env=False,
    )


def finish_reason(lm: dspy.LM) -> str:
    return lm.history[-1]["response"].finish_reason


# What a dspy.LM makes of each reply


def test_text_and_usage_reach_a_dspy_lm() -> None:
    with FakeOpenAIServer(lambda call: f"echo of {call.prompt}") as server:
        lm = connect(server)
        assert lm("two words") == ["echo of two words"]
        usage = lm.history[-1]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (2, 4)
    assert (server.tokens_in, server.tokens_out, server.count) == (2, 4, 1)


def test_reasoning_arrives_beside_the_text_and_counts_as_output() -> None:
    with FakeOpenAIServer(lambda call: Reply("42", reasoning="let me see")) as server:
        lm = connect(server)
        assert lm("question") == [{"text": "42", "reasoning_content": "let me see"}]
        assert lm.history[-1]["usage"]["completion_tokens_details"]["reasoning_tokens"] == 3
    assert server.tokens_out == 4


def test_rate_limit_is_retried_after_the_time_the_server_names() -> None:
    with FakeOpenAIServer(in_turn(*[Reply.rate_limited(0.05)] * 3, "ok")) as server:
        started = time.perf_counter()
        assert connect(server, num_retries=3)("hi") == ["ok"]
        waited = time.perf_counter() - started
    assert server.count == 4
    assert 0.15 <= waited < 5  # without the header dspy would wait 1 + 2 + 4 seconds
    assert (server.tokens_in, server.tokens_out) == (1, 1)


def test_server_error_is_retried() -> None:
    with FakeOpenAIServer(in_turn(Reply.server_error(), "ok")) as server:
        assert connect(server, num_retries=1)("hi") == ["ok"]
    assert server.count == 2


def test_dropped_connection_is_retried() -> None:
    with FakeOpenAIServer(in_turn(Reply(None, drop=True), "ok")) as server:
        assert connect(server, num_retries=1)("hi") == ["ok"]
    assert server.count == 2


FAULTS = [
    (Reply.rate_limited(), dspy.LMRateLimitError, True),
    (Reply.server_error(), dspy.LMServerError, True),
    (Reply(None, drop=True), dspy.LMTransportError, True),
    (Reply.malformed(), dspy.LMProviderError, False),
    (Reply.unauthorized(), dspy.LMAuthError, False),
    (Reply.context_overflow(), dspy.ContextWindowExceededError, False),
    (Reply("no such parameter", status=400), dspy.LMInvalidRequestError, False),
]


@pytest.mark.parametrize(("reply", "expected", "retryable"), FAULTS, ids=[row[1].__name__ for row in FAULTS])
def test_what_dspy_raises(reply: Reply, expected: type[Exception], retryable: bool) -> None:
    with FakeOpenAIServer(lambda call: reply) as server:
        # Retries are allowed just where none may happen: a retryable fault would only cost the test its back-off.
        lm = connect(server, num_retries=0 if retryable else 3)
        with pytest.raises(dspy.LMError) as caught:
            lm("hi")
    assert type(caught.value) is expected
    assert dspy.is_retryable_lm_error(caught.value) is retryable
    assert lm.history == []  # so whoever counts failed calls cannot do it from the history
    assert server.count == 1
    assert (server.tokens_in, server.tokens_out) == (0, 0)


def test_slow_reply_raises_a_transport_error_and_is_not_billed() -> None:
    with FakeOpenAIServer(lambda call: Reply("late", delay=0.4)) as server:
        with pytest.raises(dspy.LMTransportError, match="timed out"):
            connect(server, timeout=0.1)("hi")
        time.sleep(0.5)
        assert server.count == 1
        assert server.tokens_out == 0


def test_cut_reply_is_told_by_its_finish_reason_only() -> None:
    with FakeOpenAIServer(lambda call: Reply.cut("so the answer")) as server:
        lm = connect(server)
        assert lm("hi") == ["so the answer"]
    assert finish_reason(lm) == "length"
    assert server.tokens_out == 3


@pytest.mark.parametrize("reply", [Reply.empty(), Reply(None)], ids=["empty", "null"])
def test_empty_reply_is_an_empty_string_with_usage(reply: Reply) -> None:
    with FakeOpenAIServer(lambda call: reply) as server:
        lm = connect(server)
        assert lm("hi") == [""]
    assert lm.history[-1]["usage"]["completion_tokens"] == 0
    assert (server.tokens_in, server.tokens_out) == (1, 0)


def test_usage_can_be_left_out_or_given() -> None:
    given = {"prompt_tokens": 70, "completion_tokens": 30, "total_tokens": 100}
    with FakeOpenAIServer(in_turn(Reply("a", usage=None), Reply("b", usage=given))) as server:
        lm = connect(server)
        lm("hi")
        assert lm.history[-1]["usage"] == {}
        lm("hi")
        assert lm.history[-1]["usage"]["total_tokens"] == 100
    assert (server.tokens_in, server.tokens_out) == (70, 30)


def test_dspy_streams_through_it() -> None:
    async def pieces() -> list[Any]:
        listener = dspy.streaming.StreamListener(signature_field_name="answer")
        program = dspy.streamify(dspy.Predict("question -> answer"), stream_listeners=[listener])
        return [piece async for piece in program(question="hi")]

    text = "[[ ## answer ## ]]\n" + "forty two " * 8 + "\n\n[[ ## completed ## ]]"
    with FakeOpenAIServer(lambda call: text) as server, dspy.context(lm=connect(server)):
        received = asyncio.run(pieces())
    assert received[-1].answer == ("forty two " * 8).strip()
    assert len(received) > 2
    assert server.calls[0].body["stream"] is True


# The protocol itself


def test_a_call_is_recorded_with_its_last_user_message() -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": [{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]},
    ]
    with FakeOpenAIServer(lambda call: "ok") as server:
        reply = post(server, messages=messages, temperature=0.5).json()
        post(server)
        calls = server.calls
    assert [call.index for call in calls] == [0, 1]
    assert calls[0].prompt == "in parts"
    assert calls[0].messages == messages
    assert calls[0].body["temperature"] == 0.5
    assert reply["usage"] == {"prompt_tokens": 6, "completion_tokens": 1, "total_tokens": 7}
    assert reply["model"] == "fake"


def test_stream_gives_text_finish_reason_usage_and_end() -> None:
    text = "a reply that is longer than one event of the stream"
    with FakeOpenAIServer(lambda call: Reply(text, finish_reason="length", reasoning="why not")) as server:
        response = post(server, stream=True)
    assert response.headers["content-type"] == "text/event-stream"
    events = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    assert "".join(choice["delta"].get("content", "") for choice in choices) == text
    assert "".join(choice["delta"].get("reasoning_content", "") for choice in choices) == "why not"
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["length"]
    assert chunks[-1]["usage"]["completion_tokens"] == 13
    assert server.tokens_out == 13


def test_models_unknown_paths_and_bad_bodies() -> None:
    with FakeOpenAIServer(lambda call: "ok", model="tiny") as server:
        listed = httpx.get(f"{server.url}/models").json()["data"]
        assert [entry["id"] for entry in listed] == ["tiny"]
        assert httpx.get(f"{server.url}/nothing").status_code == 404
        assert httpx.post(f"{server.url}/embeddings", json={}).status_code == 404
        bad = httpx.post(f"{server.url}/chat/completions", content=b"{not json")
        assert (bad.status_code, bad.json()["error"]["type"]) == (400, "invalid_request_error")
        assert server.count == 0


@pytest.mark.parametrize(("key", "status"), [("secret", 200), ("wrong", 401)])
def test_key_is_asked_for_when_set(key: str, status: int) -> None:
    with FakeOpenAIServer(lambda call: "ok", api_key="secret") as server:
        assert post(server, key=key).status_code == status
        assert (server.count, server.rejected) == ((1, 0) if status == 200 else (0, 1))


def test_rate_limit_carries_its_header_and_code() -> None:
    with FakeOpenAIServer(lambda call: Reply.rate_limited(retry_after=7)) as server:
        response = post(server)
    assert (response.status_code, response.headers["retry-after"]) == (429, "7")
    assert response.json()["error"]["code"] == "rate_limit_exceeded"


def test_beyond_max_concurrent_requests_get_a_429() -> None:
    release = threading.Event()

    def hold(call: ServerCall) -> str:
        release.wait(10)
        return "ok"

    with FakeOpenAIServer(hold, max_concurrent=2) as server, ThreadPoolExecutor(2) as pool:
        held = [pool.submit(post, server) for _ in range(2)]
        while server.count < 2:
            time.sleep(0.005)
        refused = post(server)
        release.set()
        assert [future.result().status_code for future in held] == [200, 200]
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert post(server).status_code == 200  # there is room again
    assert (server.count, server.rejected, server.max_in_flight) == (3, 1, 2)


def test_a_hundred_connections_are_answered_at_once() -> None:
    everyone = threading.Barrier(100)

    def meet(call: ServerCall) -> str:
        everyone.wait(30)  # passes only when all hundred are inside
        return call.prompt

    def ask(number: int) -> str:
        return post(server, f"number {number}").json()["choices"][0]["message"]["content"]

    with FakeOpenAIServer(meet) as server, ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(ask, range(100)))
    assert answers == [f"number {number}" for number in range(100)]
    assert (server.count, server.max_in_flight) == (100, 100)
    assert (server.tokens_in, server.tokens_out) == (200, 200)


def test_requests_one_after_the_other_share_a_connection_and_never_overlap() -> None:
    body = {"model": "fake", "messages": [{"role": "user", "content": "hi"}]}
    with FakeOpenAIServer(lambda call: "ok") as server, httpx.Client() as client:
        for stream in [False, True] * 20:
            assert client.post(f"{server.url}/chat/completions", json={**body, "stream": stream}).status_code == 200
        assert server.max_in_flight == 1
        assert server.count == 40


def test_reset_forgets_everything() -> None:
    with FakeOpenAIServer(lambda call: f"number {call.index}") as server:
        post(server)
        server.reset()
        assert (server.calls, server.count, server.tokens_in, server.tokens_out, server.max_in_flight) == (
            [],
            0,
            0,
            0,
            0,
        )
        assert post(server).json()["choices"][0]["message"]["content"] == "number 0"


def test_a_client_that_leaves_disturbs_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    with FakeOpenAIServer(lambda call: Reply("late", delay=0.1)) as server:
        body = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", httpx.URL(server.url).port or 0)) as connection:
            connection.sendall(head + body)
            while server.count == 0:
                time.sleep(0.005)
        assert post(server).status_code == 200
        assert server.tokens_out == 1  # the reply to the one that left was never delivered
    assert capfd.readouterr() == ("", "")


def test_start_and_stop_are_quick_even_with_a_reply_under_way() -> None:
    with ThreadPoolExecutor(1) as pool:
        started = time.perf_counter()
        with FakeOpenAIServer(lambda call: Reply("late", delay=30)) as server:
            waiting = pool.submit(post, server)
            while server.count == 0:
                time.sleep(0.005)
            leaving = time.perf_counter()
        stopped = time.perf_counter()
        assert isinstance(waiting.exception(), httpx.TransportError)
    assert stopped - leaving < 0.5
    assert leaving - started < 5


def test_after_the_context_nobody_answers_at_the_url() -> None:
    with FakeOpenAIServer(lambda call: "ok") as server, httpx.Client() as client:
        assert client.get(f"{server.url}/models").status_code == 200
        server.__exit__(None, None, None)
        with pytest.raises(httpx.TransportError):  # neither on the kept connection nor on a new one
            client.get(f"{server.url}/models")
        with pytest.raises(dspy.LMTransportError):
            connect(server)("hi")


def test_url_needs_a_started_server() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        _ = FakeOpenAIServer(lambda call: "ok").url


def test_an_error_in_reply_is_told_to_the_client_and_raised_on_leaving() -> None:
    def broken(call: ServerCall) -> str:
        raise ValueError("no script for this prompt")

    with pytest.raises(ValueError, match="no script"), FakeOpenAIServer(broken) as server:
        response = post(server)
        assert response.status_code == 400
        assert "ValueError: no script for this prompt" in response.json()["error"]["message"]
