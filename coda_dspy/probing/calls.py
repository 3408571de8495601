"""One step of a role under watch: what it cost, what it thought, whether its answer can be read."""

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dspy

from coda_dspy.answers import strip_thinking
from coda_dspy.budget import Budget
from coda_dspy.errors import CallFailed, EngineError, EngineFailed, UserError
from coda_dspy.ledger import Entry
from coda_dspy.question import open_question
from coda_dspy.task import Task

from .watching import Allowance, metered

RETRY_SECONDS = 1.0  # before the second try of a call that failed in passing
_MARKER = re.compile(r"^\s*\[\[ ## (\w+) ## \]\]", re.MULTILINE)
# Settings that an engine may refuse, as the meter names them and as DSPy's client does where it drops them itself.
_OPTIONAL = {"reasoning": "config.reasoning", "seed": "config.seed"}


@dataclass(frozen=True)
class Call:
    """What one call came to: plain values, as they are saved.

    Args:
        stage: Whose budget it was.
        answer: What was read in the reply.
        correct: Whether that is right; `None` where nobody knows.
        cut: Whether the reply was cut off at its limit.
        markers: The section markers in it.
        thinking: Which share of the reply was thinking, 0 to 1; `None` where that cannot be told.
        thinks: Where: `tags`, `reasoning content`, `hidden`, or "" for nowhere.
        tokens_in: Tokens of the prompt; `None` where the engine did not say.
        tokens_out: Tokens of the reply, thinking included.
        seconds: Wall time.
        dropped: Settings that do not reach the engine: `reasoning`, `seed`.
        digest: Fingerprint of the reply and its reasoning content.
        text: The reply as it came, without reasoning content; empty for private questions.
        failure: Why there was no reply.
    """

    stage: str
    answer: str | None = None
    correct: bool | None = None
    cut: bool = False
    markers: Sequence[str] = ()
    thinking: float | None = None
    thinks: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    seconds: float = 0.0
    dropped: Sequence[str] = ()
    digest: str = ""
    text: str = ""
    failure: str | None = None


@dataclass(frozen=True)
class Asker:
    """Whoever asks.

    Args:
        lm: The engine, under watch.
        budget: The greedy budget of all questions.
        allowance: The tries that the plan leaves.
    """

    lm: dspy.LM
    budget: Budget
    allowance: Allowance

    def ask(
        self,
        stage: str,
        task: Task,
        step: Callable[[], Any],
        *,
        adapter: str = "plain",
        budget: Budget | None = None,
        settings: dict[str, Any] | None = None,
        private: bool = False,
        again: bool = True,
    ) -> tuple[Any, Call]:
        """One step that makes one call.

        Args:
            stage: Whose budget it is.
            task: The question.
            step: What a role does with it; it runs with the question open.
            adapter: `plain` or `sections`.
            budget: Another budget than the greedy one.
            settings: Settings of the engine for this call alone (`seed`, `reasoning_effort`, `stop`).
            private: Keep nothing of the text.
            again: Try again where it fails in passing.

        Returns:
            What the step gave (`None` where the reply was of no use), and the call.

        Raises:
            EngineError: The engine cannot be used at all, or has stopped answering.
        """
        lm = self.lm.copy(**settings) if settings else self.lm
        asked = (stage, task, step, adapter, budget or self.budget, lm)
        given, call, transient = self._once(*asked)
        if again and transient and not self.allowance.dead and self.allowance.retry():
            time.sleep(RETRY_SECONDS)
            given, call, _ = self._once(*asked)
        if self.allowance.dead:
            raise EngineError(f"the engine has stopped answering: {call.failure}; the same command goes on")
        return given, replace(call, text="") if private else call

    def _once(
        self, stage: str, task: Task, step: Callable[[], Any], adapter: str, budget: Budget, lm: dspy.LM
    ) -> tuple[Any, Call, bool]:
        """What the step gave, the call, and whether it failed in passing."""
        heard: list[Any] = []
        given, failure, transient = None, None, False
        with dspy.context(lm=lm, coda_heard=heard), open_question(task, budget, adapter) as question:
            try:
                given = step()
            except EngineFailed as error:
                failure, transient = error.reason, error.transient
            except CallFailed:
                pass  # cut, empty or without an answer: the reply says it
            except EngineError:
                raise
            except UserError as error:  # the sandbox has given up, say
                failure = str(error)
        if not heard:
            return None, Call(stage, failure=failure or "no reply"), transient
        return given, replace(_call(stage, question.ledger.entries[-1], heard[-1], lm), failure=failure), transient


def _call(stage: str, entry: Entry, response: Any, lm: dspy.LM) -> Call:
    text, parts = response.text or "", response.message.parts
    reasoning = "".join(part.text or "" for part in parts if part.type == "thinking")
    visible, tagged = strip_thinking(text)
    hidden = response.usage.reasoning_tokens or any(part.type == "thinking" for part in parts)
    return Call(
        stage,
        cut=entry.finish == "length",
        markers=_MARKER.findall(visible),
        thinking=_share_of_thinking(response.usage, visible, tagged + reasoning, bool(hidden)),
        thinks="reasoning content" if reasoning else "tags" if tagged else "hidden" if hidden else "",
        tokens_in=entry.tokens_in,
        tokens_out=entry.tokens_out,
        seconds=round(entry.seconds, 3),
        dropped=_dropped(response, lm),
        digest=hashlib.blake2b((reasoning + text).encode("utf-8", "replace"), digest_size=8).hexdigest(),
        text=text.encode("utf-8", "replace").decode("utf-8"),
    )


def _share_of_thinking(usage: Any, visible: str, thought: str, hidden: bool) -> float | None:
    """By the tokens that the engine reports as reasoning, or else by characters."""
    if usage.reasoning_tokens and usage.output_tokens:
        return min(usage.reasoning_tokens / usage.output_tokens, 1.0)
    if hidden and not thought:
        return None
    letters = len(visible) + len(thought)
    return len(thought) / letters if letters else None


def _dropped(response: Any, lm: dspy.LM) -> list[str]:
    adapted = {adaptation.field for adaptation in response.adaptations if adaptation.action == "dropped"}
    return [name for name, path in _OPTIONAL.items() if name in metered(lm).refused or path in adapted]
