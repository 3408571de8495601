"""The real llama.cpp, with the smallest model; skipped where its weights are missing."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import dspy
import pytest
from dspy import lm15
from dspy.lm15 import Message
from scripts import request

from coda_dspy.engines import catalog, local, weights

SMALL = catalog.CATALOG["smollm2-135m"]


@pytest.fixture(scope="module")
def real() -> Iterator[local.LocalEngine]:
    pytest.importorskip("xllamacpp")
    if not weights.is_fetched(SMALL):
        pytest.skip(f"{SMALL.name} is not in {weights.models_folder()}")
    engine = local.open_local(SMALL.name, slots=2, context=512)
    yield engine
    engine.close()


@pytest.mark.local_engine
def test_reply_through_dspy(real: local.LocalEngine) -> None:
    lm = dspy.LM("local/smollm2", engine=real, cache=False, temperature=0.0, max_tokens=8)
    assert lm("Say hi")[0]
    usage = lm.history[-1]["usage"]
    assert usage["completion_tokens"] <= 8 and usage["prompt_tokens"] > 8


@pytest.mark.local_engine
def test_prefill_is_continued_and_not_repeated(real: local.LocalEngine) -> None:
    begun = (Message.user("Count to ten"), Message.assistant("1, 2, 3,"))
    reply = real.complete(request(*begun, temperature=0.0, max_tokens=8))
    assert reply.text and reply.text.strip().startswith("4") and reply.finish_reason == "length"


@pytest.mark.local_engine
def test_prefix_is_cached_and_overflow_is_named(real: local.LocalEngine) -> None:
    prompt = Message.user("These are the rules of the game. " * 20)
    for _ in range(2):
        usage = real.complete(request(prompt, max_tokens=1)).usage
    assert usage.cache_read_tokens and usage.input_tokens and usage.cache_read_tokens > usage.input_tokens // 2
    with pytest.raises(lm15.ContextLengthError):
        real.complete(request(Message.user("word " * 900)))


@pytest.mark.local_engine
def test_schema_is_obeyed(real: local.LocalEngine) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    reply = real.complete(request(max_tokens=60, response_format={"type": "json_schema", "schema": schema}))
    assert isinstance(reply.parse_json()["n"], int)


def own_ports() -> set[str]:
    """The inodes of this process's TCP sockets that listen (Linux)."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    own = {str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}
    return {f"socket:[{fields[9]}]" for fields in lines if fields[3] == "0A"} & own


@pytest.mark.local_engine
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's list of sockets")
def test_model_opens_no_port(real: local.LocalEngine) -> None:
    before = own_ports()
    engine = local.open_local(SMALL.name, slots=1, context=256)
    engine.load()
    address = engine._open_server()._native.listening_address
    assert own_ports() == before
    assert address.startswith("unix://") and not Path(address.removeprefix("unix://")).parent.exists()
    engine.close()


@pytest.mark.local_engine
def test_listener_on_a_port_asks_for_the_key(real: local.LocalEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local.loading, "_listener", lambda folder: "127.0.0.1")
    engine = local.open_local(SMALL.name, slots=1, context=256)
    engine.load()
    address = engine._open_server()._native.listening_address
    assert address.startswith("http://127.0.0.1:")
    no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for path, data in (("/v1/models", None), ("/v1/chat/completions", b"{}"), ("/completion", b"{}")):
        with pytest.raises(urllib.error.HTTPError) as caught:
            no_proxy.open(urllib.request.Request(address + path, data), timeout=10)
        assert caught.value.code == 401
    engine.close()


CTRL_C = """
    import threading, time
    from concurrent.futures import ThreadPoolExecutor
    from dspy.lm15 import Config, Message, Request
    from coda_dspy.engines import local
    engine = local.open_local("smollm2-135m", slots=2, context=2048)
    engine.load()
    long = Request("x", (Message.user("Write a very long story"),), config=Config(max_tokens=1900, temperature=1.5))
    print("ready", flush=True)
    {run}
"""
IN_MAIN = "while True: engine.complete(long)"
IN_POOL = """
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(engine.complete, long) for _ in range(40)]
        try:
            [call.result() for call in calls]
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            local.cancel_all()
            raise
"""


@pytest.mark.local_engine
@pytest.mark.skipif(os.name == "nt", reason="sends a Unix signal")
@pytest.mark.parametrize("run", [IN_MAIN, IN_POOL], ids=["main", "pool"])
def test_ctrl_c_ends_the_process_soon_and_quietly(real: local.LocalEngine, run: str) -> None:
    script = textwrap.dedent(CTRL_C).replace("{run}", textwrap.dedent(run))
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, said = process.communicate(timeout=60)
    assert time.monotonic() - began < 20  # a whole reply takes minutes; one batch or token is waited for
    assert process.returncode in (130, -signal.SIGINT, 1) and said.rstrip().endswith("KeyboardInterrupt")
