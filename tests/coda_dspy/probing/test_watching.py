"""Every real try is counted, and none is made beyond what was granted."""

import dspy
import pytest
from dspy.lm15 import ServerError, TransportError
from scripts import engine

from coda_dspy.probing.watching import MOST_LOST, Allowance, watched


def test_no_try_reaches_the_engine_beyond_what_was_granted() -> None:
    made, lm = engine(lambda call: "yes")
    allowance = Allowance()
    allowance.grant(planned=1, retries=1, refusals=0)
    seen = watched(lm, allowance)
    assert [seen("Q?"), seen("Q?")] == [["yes"], ["yes"]]  # the same question, and no cache
    with pytest.raises(dspy.LMError, match="the plan's 2 calls are spent"):
        seen("Q?")
    assert (len(made.calls), allowance.made, allowance.retry(), allowance.retry()) == (2, 2, True, False)


def test_replies_are_kept_word_for_word_in_the_context_that_asks_for_it() -> None:
    _, lm = engine(lambda call: "<think>hm</think>yes")
    allowance = Allowance()
    allowance.grant(2, 0, 0)
    with dspy.context(coda_heard=(heard := [])):
        watched(lm, allowance)("Q?")
    assert [response.text for response in heard] == ["<think>hm</think>yes"]


def test_a_server_is_dead_after_so_many_tries_without_any_answer() -> None:
    fault: list[Exception] = [TransportError("gone")]
    _, lm = engine(lambda call: fault[0])
    allowance = Allowance()
    allowance.grant(100, 0, 0)
    seen = watched(lm, allowance)
    for _ in range(MOST_LOST):
        assert not allowance.dead
        with pytest.raises(dspy.LMError):
            seen("Q?")
    assert allowance.dead
    fault[0] = ServerError("busy")  # that is an answer
    with pytest.raises(dspy.LMError):
        seen("Q?")
    assert not allowance.dead
