"""Servers: every fault ends in the right answer or a clear failure, with a ledger that adds up."""

import traceback

import dspy
import pytest
from dspy.lm15 import AuthError, Message, Request, Response, TextPart, Usage
from hypothesis import given, settings
from hypothesis import strategies as st

from coda_dspy import AdaptiveCoda, Budget, Coda, connect
from coda_dspy.engines import engine_name, redact
from coda_dspy.errors import EngineError, UserError
from coda_dspy.testing import FakeOpenAIServer, Reply, ServerCall

ONCE = Budget(num_attempts_baseline=1, num_attempts_coda=0)
KEY = "sk-sentinel-0123456789"


@pytest.mark.parametrize(
    "fault",
    [Reply.rate_limited(0.05), Reply.server_error(), Reply.empty(), Reply.cut("Answer: 666")],
    ids=["429", "500", "empty", "cut"],
)
def test_a_fault_in_the_middle_ends_in_the_right_answer_and_a_ledger_that_adds_up(
    fault: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dspy.clients.execution.time.sleep", lambda seconds: None)
    with FakeOpenAIServer(lambda call: fault if call.index in (1, 4) else "So.\nAnswer: 8") as server:
        lm = connect("openai/fake", server.url)
        prediction = Coda(Budget(best_of_n=3, n_plans=2, early_exit=False), lm=lm)(question="Q?")
        assert prediction.answer == "8"
        assert prediction.ledger.calls() == server.count
        assert prediction.ledger.tokens() == server.tokens_in + server.tokens_out


FAULTS = (Reply.rate_limited(0), Reply.server_error(), Reply.malformed(), Reply.empty(), Reply.cut("Answer: 1"))


@settings(max_examples=25)
@given(st.lists(st.one_of(st.none(), st.sampled_from(FAULTS)), max_size=12), st.booleans())
def test_whatever_fails_the_ledger_equals_what_the_server_counted(faults: list[Reply | None], adaptive: bool) -> None:
    def reply(call: ServerCall) -> str | Reply:
        return (faults[call.index] if call.index < len(faults) else None) or f"Answer: {call.index % 2}"

    with pytest.MonkeyPatch.context() as patch, FakeOpenAIServer(reply) as server:
        patch.setattr("dspy.clients.execution.time.sleep", lambda seconds: None)
        program = (AdaptiveCoda if adaptive else Coda)(Budget(best_of_n=2), lm=connect("openai/fake", server.url))
        ledger = program(question="Q?").ledger
        assert ledger.calls() == server.count
        assert ledger.known_tokens() == server.tokens_in + server.tokens_out
        assert (ledger.tokens() is None) == (Reply.malformed() in faults[: server.count])
        again = program(question="Q?").ledger
        assert again.calls(billed=True) == server.count - ledger.calls()
        billed = again.known_tokens(billed=True)
        assert billed == server.tokens_in + server.tokens_out - ledger.known_tokens()


def test_cached_calls_are_not_billed_but_known() -> None:
    with FakeOpenAIServer(lambda call: "Answer: 8") as server:
        lm = connect("openai/fake", server.url)
        first = AdaptiveCoda(lm=lm)(question="Q?")
        again = AdaptiveCoda(lm=lm)(question="Q?")
        assert again.ledger.tokens() == first.ledger.tokens() == server.tokens_in + server.tokens_out
        assert again.ledger.calls(billed=True) == 0


def test_two_endpoints_with_one_model_name_never_share_cache_entries() -> None:
    with FakeOpenAIServer(lambda c: "Answer: 1") as one, FakeOpenAIServer(lambda c: "Answer: 2") as two:
        answers = [AdaptiveCoda(lm=connect("openai/fake", s.url))(question="Q?").answer for s in (one, two)]
        texts = [connect("openai/fake", s.url)("hello")[0] for s in (one, two)]
    assert answers == ["1", "2"]
    assert texts == ["Answer: 1", "Answer: 2"]


def test_usage_that_the_server_does_not_report_is_unknown() -> None:
    with FakeOpenAIServer(lambda call: Reply("Answer: 8", usage=None)) as server:
        ledger = AdaptiveCoda(ONCE, lm=connect("openai/fake", server.url))(question="Q?").ledger
    assert ledger.tokens() is None
    assert ledger.calls() == 1


def test_a_bare_name_with_an_address_is_a_model_there() -> None:
    with FakeOpenAIServer(lambda call: "Answer: 8") as server:
        lm = connect("Qwen3-8B", server.url)
        assert AdaptiveCoda(ONCE, lm=lm)(question="Q?").answer == "8"
        assert server.calls[0].body["model"] == "Qwen3-8B"
    assert engine_name(lm) == "hosted_vllm/Qwen3-8B"


def test_extras_are_sent_as_they_are_and_keep_cache_entries_apart() -> None:
    with FakeOpenAIServer(lambda call: f"Answer: {call.index}") as server:
        plain = connect("hosted_vllm/fake", server.url)
        with_extras = connect("hosted_vllm/fake", server.url, top_k=20, chat_template_kwargs={"enable_thinking": False})
        answers = [AdaptiveCoda(ONCE, lm=lm)(question="Q?").answer for lm in (plain, with_extras)]
        assert server.calls[1].body["top_k"] == 20
        assert server.calls[1].body["chat_template_kwargs"] == {"enable_thinking": False}
    assert answers == ["0", "1"]


def test_stage_settings_reach_the_server() -> None:
    with FakeOpenAIServer(lambda call: "Answer: 8") as server:
        budget = ONCE.replace(temperature={"direct": 0.25}, max_tokens={"direct": 77})
        AdaptiveCoda(budget, lm=connect("hosted_vllm/fake", server.url))(question="Q?")
        assert server.calls[0].body["temperature"] == 0.25
        assert server.calls[0].body["max_tokens"] == 77


def test_calls_in_flight_stay_within_the_limit_of_the_endpoint() -> None:
    with FakeOpenAIServer(lambda call: Reply("Answer: 8", delay=0.02)) as server:
        lm = connect("openai/fake", server.url, max_concurrency=2, cache=False)
        Coda(Budget(best_of_n=4, n_plans=4, early_exit=False), lm=lm)(question="Q?")
        assert server.max_in_flight == 2


def test_an_unknown_engine_is_explained() -> None:
    with pytest.raises(EngineError, match=r"engine 'nonsense/model' is unknown\. Use local/<name>"):
        connect("nonsense/model")


def test_an_object_that_is_no_engine_is_refused() -> None:
    with pytest.raises(EngineError, match="engine is a int; give a name or an object"):
        connect(5)


def test_an_unreachable_server_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dspy.clients.execution.time.sleep", lambda seconds: None)
    with FakeOpenAIServer(lambda call: "x") as server:
        url = server.url
    with pytest.raises(EngineError, match=r"the engine gave no reply in 5 tries\. Last reason: .*"):
        AdaptiveCoda(ONCE, lm=connect("openai/fake", url))(question="Q?")


def test_a_wrong_key_stops_at_once_and_shows_up_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    def echo(call: ServerCall) -> Reply:
        return Reply(f"Incorrect API key provided: {KEY}", status=401)

    with FakeOpenAIServer(echo) as server:
        lm = connect("openai/fake", server.url, api_key=KEY)
        with pytest.raises(EngineError, match="refuses to work") as caught:
            AdaptiveCoda(ONCE, lm=lm)(question="Q?")
        assert server.count == 1
    error: BaseException | None = caught.value
    while error is not None:
        assert KEY not in str(error)
        error = error.__cause__ or error.__context__
    assert KEY not in caplog.text
    assert KEY not in str(lm.kwargs)
    with pytest.raises(TypeError, match="cannot be saved"):  # a program never carries its engine
        lm.dump_state()


@pytest.mark.parametrize("name", ["SOME_API_KEY", "OPENAI_API_KEY_2", "DB_PASSWORD", "HF_TOKEN"])
def test_keys_of_the_environment_are_redacted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "tea-for-two-0815")
    monkeypatch.setenv("MAX_TOKENS", "100000")
    assert redact("key tea-for-two-0815 refused at 100000") == "key *** refused at 100000"


def test_a_key_from_the_environment_is_sent() -> None:
    with FakeOpenAIServer(lambda call: "Answer: 8", api_key=KEY) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        assert AdaptiveCoda(ONCE, lm=connect("openai/fake", server.url))(question="Q?").answer == "8"


def test_the_metered_lm_answers_asynchronously_too() -> None:
    import asyncio

    with FakeOpenAIServer(lambda call: "hello") as server:
        lm = connect("openai/fake", server.url)
        assert asyncio.run(lm.acall("hi")) == ["hello"]


def test_programs_with_a_bound_engine_can_be_copied() -> None:
    with FakeOpenAIServer(lambda call: "Answer: 8") as server:
        program = AdaptiveCoda(lm=connect("openai/fake", server.url))
        copied = program.deepcopy()
        assert copied.lm.engine is program.lm.engine
        assert copied(question="Q?").answer == "8"
    assert isinstance(copied.lm, dspy.LM)


class KeyInTheCause:
    """An engine whose client library says the key in an exception behind its own."""

    label = "key/in-the-cause"

    def complete(self, request: Request) -> Response:
        try:
            raise ValueError(f"Authorization: Bearer {KEY}")
        except ValueError as error:
            raise AuthError("refused") from error


def test_a_key_in_the_exception_of_a_client_library_is_cut_off() -> None:
    with pytest.raises(EngineError) as caught:
        AdaptiveCoda(ONCE, lm=connect(KeyInTheCause()))(question="Q?")
    assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("name", ["apikey", "headers", "extra_headers", "Authorization", "n", "stream"])
def test_what_is_no_decoding_setting_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"{name} is no decoding setting"):
        connect("openai/fake", **{name: "x"})


def test_a_password_in_an_address_is_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dspy.clients.execution.time.sleep", lambda seconds: None)
    with pytest.raises(EngineError) as caught:
        AdaptiveCoda(ONCE, lm=connect("openai/fake", "http://user:hunter2hunter2@127.0.0.1:9/v1"))(question="Q?")
    assert "hunter2hunter2" not in str(caught.value)


def test_engines_without_a_name_do_not_share_the_cache() -> None:
    class Nameless:
        def __init__(self, text: str) -> None:
            self.text = text

        def complete(self, request: Request) -> Response:
            return Response(
                None, "m", Message.assistant([TextPart(self.text)]), finish_reason="stop", usage=Usage(1, 1)
            )

    answers = [AdaptiveCoda(ONCE, lm=connect(Nameless(f"Answer: {i}")))(question="Q?").answer for i in (1, 2)]
    assert answers == ["1", "2"]


@pytest.mark.parametrize(
    ("arguments", "message"), [({"max_concurrency": 0}, "max_concurrency is 0"), ({"engine": "openai/"}, "is no name")]
)
def test_bad_arguments_are_explained(arguments: dict, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        connect(**{"engine": "openai/fake", **arguments})


PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def test_the_environment_is_not_searched_for_a_proxy_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    looked: list[bool] = []
    monkeypatch.setattr("dspy._vendor.lm15.transports._proxy.getproxies", lambda: looked.append(True) or {})
    with FakeOpenAIServer(lambda call: "hello") as server:
        assert connect("openai/fake", server.url)("hi") == ["hello"]
    assert looked == []


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeOpenAIServer(lambda call: "hello") as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
        with pytest.raises(EngineError, match=r"no such path: http://engine\.invalid/v1/chat/completions"):
            AdaptiveCoda(ONCE, lm=connect("openai/fake", "http://engine.invalid/v1"))(question="Q?")
