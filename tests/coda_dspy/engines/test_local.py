"""The local engine, on a fake llama.cpp."""

import asyncio
import copy
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import dspy
import pytest
from dspy import lm15
from dspy.lm15 import Message, Request
from scripts import request

from coda_dspy.engines import catalog, local, weights
from coda_dspy.errors import UserError

# ---- a fake llama.cpp ----------------------------------------------------------------------------------------------


class FakeServer:
    """Says its script piece by piece, as llama.cpp streams; counts what runs at once."""

    script: list[dict[str, Any]] = []
    raises: Exception | None = None
    pause = 0.0
    made: list["FakeServer"] = []

    def __init__(self, params: Any) -> None:
        if not Path(params.model.path).read_bytes().startswith(b"GGUF1"):
            raise RuntimeError("Failed to init server, please check the input params.")
        self.params, self.running, self.most, self.cut = params, 0, 0, 0
        self.bodies: list[dict[str, Any]] = []
        self.listened = Path(params.hostnames[0]).parent
        assert self.listened.stat().st_mode & 0o077 == 0
        self.lock = threading.Lock()
        FakeServer.made.append(self)

    def handle_chat_completions(self, body: dict[str, Any], take: Callable[[dict[str, Any]], bool]) -> None:
        with self.lock:
            self.bodies.append(body)
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            if self.raises:
                raise self.raises
            for chunk in self.script:
                time.sleep(self.pause)
                if take(chunk):
                    self.cut += 1
                    return
        finally:
            with self.lock:
                self.running -= 1


def piece(text: str = "", finish: str | None = None, thinking: str = "") -> dict[str, Any]:
    delta = {"content": text or None, "reasoning_content": thinking or None}
    return {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


USAGE = {
    "choices": [],
    "usage": {
        "prompt_tokens": 12,
        "completion_tokens": 3,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 8},
    },
    "timings": {"predicted_per_second": 40.0},
}
HELLO = [piece(), piece("Hel"), piece("lo"), piece(finish="stop"), USAGE]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeServer]]:
    library = ModuleType("xllamacpp")
    spare = lambda: SimpleNamespace(n_threads=0, path="")  # noqa: E731
    library.CommonParams = lambda: SimpleNamespace(  # type: ignore[attr-defined]
        model=spare(), cpuparams=spare(), cpuparams_batch=spare()
    )
    library.Server = FakeServer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "xllamacpp", library)
    monkeypatch.setattr(local.server, "_servers", {})  # a real model of this process stays out of it
    for name, value in {"script": HELLO, "raises": None, "pause": 0.0, "made": []}.items():
        monkeypatch.setattr(FakeServer, name, value)
    yield FakeServer
    local.close_all()


@pytest.fixture
def gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CODA_MODELS", str(tmp_path / "models"))
    path = tmp_path / "mine.gguf"
    path.write_bytes(b"GGUF1")
    return str(path)


# ---- what is sent --------------------------------------------------------------------------------------------------


def test_settings_reach_llama_cpp_under_its_names() -> None:
    body = local.request_body(
        request(
            system="be brief",
            max_tokens=9,
            temperature=0.0,
            top_p=0.9,
            top_k=5,
            seed=7,
            stop=("END",),
            extensions={"min_p": 0.1, "repetition_penalty": 1.2},
        )
    )
    wanted = {"max_tokens": 9, "temperature": 0.0, "top_p": 0.9, "top_k": 5, "seed": 7, "stop": ["END"], "min_p": 0.1}
    assert wanted.items() <= body.items()
    assert body["repeat_penalty"] == 1.2 and body["cache_prompt"] is True and body["stream"] is True
    assert [message["role"] for message in body["messages"]] == ["system", "user"]


def test_a_seed_may_come_as_an_extension_and_what_is_not_given_is_not_sent() -> None:
    body = local.request_body(request(extensions={"seed": 3}))
    assert body["seed"] == 3 and not {"temperature", "max_tokens", "stop", "top_k"} & body.keys()


def test_a_json_schema_goes_in_openai_shape() -> None:
    schema = {"type": "object"}
    body = local.request_body(request(response_format={"type": "json_schema", "schema": schema, "name": "A"}))
    assert body["response_format"] == {"type": "json_schema", "json_schema": {"name": "A", "schema": schema}}


def test_developer_speaks_as_system_and_earlier_thinking_is_left_out() -> None:
    spoken = Message.assistant([lm15.ThinkingPart("hm"), lm15.TextPart("two")])
    body = local.request_body(request(Message.developer("rules"), Message.user("1+1"), spoken, Message.user("sure?")))
    assert [tuple(message.values()) for message in body["messages"]] == [
        ("system", "rules"),
        ("user", "1+1"),
        ("assistant", "two"),
        ("user", "sure?"),
    ]


@pytest.mark.parametrize(
    ("request_", "feature"),
    [
        (request(extensions={"best_of": 3}), "config.extensions.best_of"),
        (request(logprobs=2), "config.logprobs"),
        (Request("x", (Message.user("hi"),), tools=(lm15.FunctionTool(name="f"),)), "tools"),
        (request(Message.user([lm15.ImagePart(url="http://x/y.png", media_type="image/png")])), "messages[0]"),
    ],
)
def test_what_it_cannot_do_is_refused_by_name(request_: Request, feature: str) -> None:
    with pytest.raises(lm15.UnsupportedFeatureError) as caught:
        local.request_body(request_)
    assert feature in str(caught.value)


# ---- what comes back -----------------------------------------------------------------------------------------------


def test_a_reply_has_text_usage_and_finish(fake: type[FakeServer], gguf: str) -> None:
    response = local.open_local(gguf).complete(request())
    assert (response.text, response.finish_reason, response.id) == ("Hello", "stop", "chatcmpl-1")
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.cache_read_tokens) == (12, 3, 15, 8)
    assert response.provider_data == {"timings": USAGE["timings"]}


def test_thinking_is_a_part_of_its_own_and_a_cut_reply_says_so(fake: Any, gguf: str) -> None:
    fake.script = [piece(thinking="h"), piece(thinking="m"), piece("4", "length")]
    response = local.open_local(gguf).complete(request())
    assert [part.text for part in response.message.parts] == ["hm", "4"] and response.finish_reason == "length"
    assert response.usage.input_tokens is None  # not reported is not zero


def test_a_reasoning_effort_is_dropped_on_record(fake: Any, gguf: str) -> None:
    response = local.open_local(gguf).complete(request(reasoning=lm15.Reasoning(effort="low")))
    assert [(note.field, note.action) for note in response.adaptations] == [("config.reasoning", "dropped")]


@pytest.mark.parametrize(
    ("error", "expected", "public"),
    [
        ((400, "exceed_context_size_error"), lm15.ContextLengthError, dspy.ContextWindowExceededError),
        ((400, "invalid_request_error"), lm15.InvalidRequestError, None),
        ((500, "server_error"), lm15.ServerError, None),
        ((501, "not_supported_error"), lm15.InvalidRequestError, None),
    ],
)
def test_errors_keep_dspys_retry_rules(fake: Any, gguf: str, error: Any, expected: Any, public: Any) -> None:
    fake.script = [{"error": {"code": error[0], "type": error[1], "message": "no"}}]
    engine = local.open_local(gguf)
    with pytest.raises(expected):
        engine.complete(request())
    if public:
        with pytest.raises(public):
            dspy.LM("local/x", engine=engine, cache=False)("hi")


@pytest.mark.parametrize(
    ("raised", "expected"),
    [(ValueError("bad body"), lm15.InvalidRequestError), (RuntimeError("oops"), lm15.ServerError)],
)
def test_exceptions_of_the_library_become_dspys(fake: Any, gguf: str, raised: Any, expected: Any) -> None:
    fake.raises = raised
    with pytest.raises(expected, match=str(raised)):
        local.open_local(gguf).complete(request())


def test_a_reply_without_an_end_is_tried_again(fake: Any, gguf: str) -> None:
    fake.script = [piece("Hel")]
    with pytest.raises(lm15.ServerError):
        local.open_local(gguf).complete(request())


# ---- names and files -----------------------------------------------------------------------------------------------


def test_a_catalog_name_is_fetched(fake: Any, gguf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def fetch(*arguments: Any) -> Path:
        asked.extend(arguments)
        return Path(gguf)

    monkeypatch.setattr(weights, "fetch", fetch)
    engine = local.open_local("smollm2-135m", progress=print)
    assert asked == [catalog.CATALOG["smollm2-135m"], print] and engine.label == "smollm2-135m"


def test_a_path_is_a_model_of_its_own(fake: Any, gguf: str) -> None:
    engine = local.open_local(gguf)
    assert engine.label == "mine" and engine.fingerprint == weights.sha256_of(Path(gguf))[:12]


def test_files_that_are_no_model_are_refused(tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_text("<html>")
    with pytest.raises(UserError, match="no GGUF"):
        local.open_local(str(tmp_path / "page.gguf"))
    with pytest.raises(UserError, match="No such file"):
        local.open_local(str(tmp_path / "none.gguf"))
    with pytest.raises(UserError, match="Known:"):
        local.open_local("none")


def test_without_the_library_it_says_what_to_install(gguf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(UserError, match=r"pip install 'coda-dspy\[local\]'"):
        local.open_local(gguf).load()


def test_a_load_that_fails_gives_llama_cpps_reason(fake: Any, gguf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(gguf).write_bytes(b"GGUF?")
    said = "0.1 I x: loading\n0.2 E llama_model_load: error loading model: unknown architecture: 'foo'\n"
    monkeypatch.setattr(local.loading.subprocess, "run", lambda *_, **__: SimpleNamespace(stderr=said))
    with pytest.raises(UserError, match="unknown architecture: 'foo'"):
        local.open_local(gguf).load()


def test_llama_cpp_is_set_up_quiet_private_and_passive(fake: Any, gguf: str, monkeypatch: Any) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    local.open_local(gguf, slots=3, context=100, threads=2).load()
    server, params = fake.made[0], fake.made[0].params
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    assert (params.n_parallel, params.n_ctx, params.verbosity, params.cache_ram_mib) == (3, 300, 0, 256)
    assert params.cpuparams.n_threads == params.cpuparams_batch.n_threads == 2
    assert len(params.api_keys[0]) == 64 and not server.listened.exists()


def test_the_users_own_wait_policy_is_kept(fake: Any, gguf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    local.open_local(gguf).load()
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"


# ---- life cycle ----------------------------------------------------------------------------------------------------


def test_equal_settings_share_one_model_until_the_last_holder_closes(fake: Any, gguf: str) -> None:
    first, second, other = local.open_local(gguf), local.open_local(gguf), local.open_local(gguf, slots=2)
    assert not fake.made  # nothing is loaded before it is needed
    for engine in (first, second, other):
        engine.complete(request())
    assert len(fake.made) == 2
    first.close()
    first.close()
    assert second.complete(request()).text == "Hello"
    with pytest.raises(lm15.ConfigurationError, match="closed"):
        first.complete(request())
    second.close()
    local.open_local(gguf).complete(request())
    assert len(fake.made) == 3


def test_copies_are_the_engine_itself_and_its_state_opens_it_again(fake: Any, gguf: str) -> None:
    engine = local.open_local(gguf, slots=2, context=64)
    assert copy.deepcopy(engine) is engine
    again = local.LocalEngine.load_state(engine.dump_state())
    assert again.settings == engine.settings
    wrapped = local.AsyncLocalEngine(engine)
    assert copy.deepcopy(wrapped) is wrapped
    assert local.AsyncLocalEngine.load_state(wrapped.dump_state()).engine.settings == engine.settings


def test_more_calls_than_slots_wait(fake: Any, gguf: str) -> None:
    fake.pause = 0.005
    engine = local.open_local(gguf, slots=2)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(engine.complete, [request()] * 12))
    assert all(reply.text == "Hello" for reply in replies) and fake.made[0].most == 2


def test_cancel_all_ends_running_and_waiting_calls(fake: Any, gguf: str) -> None:
    fake.script, fake.pause = [piece("x")] * 2000, 0.01
    engine = local.open_local(gguf, slots=1)
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(engine.complete, request()) for _ in range(3)]
        time.sleep(0.2)
        began = time.monotonic()
        local.cancel_all()
        errors = [call.exception() for call in calls]
    assert time.monotonic() - began < 2 and fake.made[0].cut == 1
    assert all(isinstance(error, lm15.ProviderError) for error in errors)
    assert not any(isinstance(error, lm15.RETRYABLE_ERRORS) for error in errors)


def test_closing_waits_for_the_call_in_flight(fake: Any, gguf: str) -> None:
    fake.script, fake.pause = [piece("x")] * 2000, 0.01
    engine = local.open_local(gguf)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(engine.complete, request())
        time.sleep(0.1)
        engine.close()
        assert fake.made[0].running == 0
        assert isinstance(call.exception(), lm15.ProviderError)


def test_a_cancelled_task_ends_its_call(fake: Any, gguf: str) -> None:
    async def main() -> str | None:
        engine = local.AsyncLocalEngine(local.open_local(gguf))
        reply = await engine.complete(request())
        fake.script, fake.pause = [piece("x")] * 2000, 0.01
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(engine.complete(request()), 0.1)
        await engine.aclose()
        return reply.text

    assert asyncio.run(main()) == "Hello"
    deadline = time.monotonic() + 2
    while fake.made[0].running and time.monotonic() < deadline:
        time.sleep(0.01)
    assert fake.made[0].cut == 1


def test_a_quota_of_the_container_limits_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "200000 100000\n")
    assert local.usable_cores() == 2
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "max 100000\n")
    assert local.usable_cores() == 64


@pytest.mark.parametrize(
    "name",
    [
        *("https://example.org/x.gguf", "hf://owner/model.gguf", "--help.gguf", "/dev/zero", "/", "/proc/self/mem"),
        *("a\x00b.gguf", "/\ud800.gguf", "x" * 5_000 + ".gguf", "~nobody-of-that-name/x.gguf", "two\nlines.gguf"),
        *("../../../../../../etc/passwd", "con.gguf", "C:\\x.gguf"),
    ],
)
def test_a_hostile_path_is_refused_and_nothing_is_fetched(
    name: str, fake: type[FakeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "fetch", lambda *_: pytest.fail("something was fetched"))
    with pytest.raises(UserError, match=r"cannot read the model|no GGUF"):
        local.open_local(name)
    assert not fake.made


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_in_the_place_of_a_model_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(UserError, match="no regular file"):
        local.open_local(str(tmp_path / "pipe.gguf"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.gguf", b"GGUF"),
        ("garbage.gguf", b"GGUF" + bytes(range(256)) * 4),
        ("--two\nlines;$(x).gguf", b"GGUF\x03\0\0\0" + b"\xff" * 400),
    ],
)
def test_a_damaged_model_is_refused_by_the_real_library(name: str, content: bytes, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=r"llama\.cpp cannot load"):
        local.open_local(str(tmp_path / name)).load()
