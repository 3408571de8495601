"""Models that never do what they are asked: every question ends, without an answer, and says why."""

from collections.abc import Mapping

import dspy
import pytest
from sums import bill, sums

from coda_dspy import AdaptiveCoda, Budget, Coda, connect
from coda_dspy.evaluation import evaluate, summarize
from coda_dspy.testing import FakeOpenAIServer, Reply
from coda_dspy.testing.protocol import completion, to_json

LOOP = "Wait, let me think about that again. " * 2000
REFUSED = completion(Reply(None), {"prompt_tokens": 5, "completion_tokens": 6}, "fake")
REFUSED["choices"][0]["message"]["refusal"] = "I cannot help with that."

MODELS: Mapping[str, tuple[Reply, str]] = {
    "always cuts off": (Reply.cut("Let us see. Answer: 6"), "truncated"),
    "always refuses": (Reply("I'm sorry, but I can't help with that."), "unparsed"),
    "refuses beside its text": (Reply(None, raw=to_json(REFUSED)), "unparsed"),
    "is filtered": (Reply("", finish_reason="content_filter"), "unparsed"),
    "answers in another format": (Reply('{"thoughts": ["?"], "result": null}'), "unparsed"),
    "loops the same sentence": (Reply(LOOP), "unparsed"),
    "loops until it is cut": (Reply.cut(LOOP), "truncated"),
    "never ends its thoughts": (Reply("<think>" + LOOP), "unparsed"),
}
BUDGET = Budget(
    best_of_n=2, n_plans=2, refine_rounds=1, num_attempts_coding=1, verifier="judge", reasoning_effort="high"
)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("algorithm", [Coda, AdaptiveCoda])
def test_a_model_that_is_no_use_ends_every_question_and_is_told(name: str, algorithm: type[Coda]) -> None:
    reply, rate = MODELS[name]
    with FakeOpenAIServer(lambda call: reply) as server, dspy.context(lm=connect("openai/fake", server.url)):
        results = evaluate(algorithm(BUDGET), sums(3), workers=3)
        assert [(r.answer, r.correct, r.error) for r in results] == [(None, False, None)] * 3
        assert all(r.failures for r in results)
        assert getattr(summarize(results), rate) == 1.0
        assert bill(results)[0] == server.count
        billed = 11 * server.count if reply.raw else server.tokens_in + server.tokens_out
        assert bill(results)[1] == billed


def test_a_model_that_loops_its_answer_is_read_all_the_same() -> None:
    with FakeOpenAIServer(lambda call: "So the answer is 1. " * 2000) as server:
        assert AdaptiveCoda(lm=connect("openai/fake", server.url))(question="What is 0 + 1?").answer == "1"
