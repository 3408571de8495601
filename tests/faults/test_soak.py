"""A thousand questions, of which nearly every third call fails in some way: nothing lost, nothing twice."""

import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from sums import adds, bill, sums

from coda_dspy import AdaptiveCoda, Budget, connect
from coda_dspy.evaluation import JsonLines, Pool, Result, evaluate_in
from coda_dspy.testing import FakeOpenAIServer, Reply, ServerCall

QUESTIONS, SHARE, SEED = 1000, 0.3, 6
FAULTS = (
    Reply.rate_limited(0),
    Reply.server_error(),
    Reply("bad gateway", status=502),
    Reply.malformed(),
    Reply.half(),
    Reply(None, drop=True),
    Reply(None, raw=b"[]"),
    Reply.context_overflow(),
    Reply.empty(),
    Reply.cut("Answer: 666"),
    Reply("I'm sorry, but I can't help with that."),
    Reply("<think>Wait. " * 200),
    Reply("late", delay=60),
)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("interruptions", [(), (300, 700)], ids=["in one go", "interrupted"])
def test_a_thousand_questions_survive_random_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruptions: tuple[int, ...]
) -> None:
    monkeypatch.setattr("dspy.clients.execution.time.sleep", lambda seconds: None)
    drawn = random.Random(SEED)

    def reply(call: ServerCall) -> str | Reply:
        # Most faults answer at once; few hang, for each of those takes the client's whole patience.
        weights = [10] * (len(FAULTS) - 1) + [1]
        return drawn.choices(FAULTS, weights)[0] if drawn.random() < SHARE else adds(call)

    def impatient(result: object) -> None:
        seen.append(result)
        if to_come and len(seen) >= to_come[0]:
            del to_come[0]
            signal.raise_signal(signal.SIGINT)

    to_come, seen = list(interruptions), list[object]()
    questions = sums(QUESTIONS)
    results: list[Result] = []
    with FakeOpenAIServer(reply) as server:
        lm = connect("openai/fake", server.url, timeout=20.0)
        while not results:
            seen.clear()
            with suppress(KeyboardInterrupt):
                results = evaluate_in(
                    tmp_path, AdaptiveCoda(Budget()), questions, lm, {}, workers=16, on_result=impatient
                )
        stored = JsonLines(tmp_path / "results.jsonl").read()
        records = list(Pool(tmp_path / "pool.jsonl.gz").read())
        billed, served = bill(results), (server.count, server.tokens_in + server.tokens_out)
    if interruptions:  # what was in flight then is on no bill
        assert all(ours <= theirs for ours, theirs in zip(billed, served, strict=True))
    else:
        assert billed == served
    ids = [question.id for question in questions]
    assert [result.id for result in results] == ids
    assert sorted(row["id"] for row in stored) == sorted(record.id for record in records) == sorted(ids)
    assert all(result.correct or result.failures or result.error for result in results)
    assert sum(bool(result.correct) for result in results) >= 0.99 * QUESTIONS
