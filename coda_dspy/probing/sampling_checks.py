"""Whether temperature and seeds are honoured, whether usage is reported, whether the context limit is told."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import dspy

from coda_dspy.calling import ask
from coda_dspy.sampling import Sample
from coda_dspy.task import Task

from .calls import Call
from .figures import mean_share, share
from .session import Session, Unit

GREEDY, WARM, SEED = "temperature-0", "temperature-1", "seed"
CONTEXT = "context"
_TEMPERATURES = {GREEDY: 0.0, WARM: 1.0, SEED: 1.0}
_A_SEED = 20_250
_SUBJECTS = ("a lighthouse", "a lost key", "two rivers", "an old bicycle", "a market at night", "the first snow")
_TOO_MANY = 1_000_000  # tokens of a reply: more than most contexts hold
_LIMIT = re.compile(r"context[\s_](?:length|window|size|limit)\D{0,40}?(\d[\d,]{2,})", re.IGNORECASE)
CALLS_OF_A_PAIR = 2
_CLEARLY = 0.2  # more of the text in common than sampling twice leaves by chance


def free_request(instructions: str) -> dspy.Predict:
    """A predictor for requests that are no question and have no answer."""
    return dspy.Predict(dspy.Signature("request -> reply", instructions))


def pair(session: Session, check: str, number: int) -> Unit:
    """Two samples of the same request: both greedy, both at temperature 1, or both at temperature 1 with one seed."""

    def work() -> list[Call]:
        return [_sample(session, check, number, n) for n in range(CALLS_OF_A_PAIR)]

    return Unit(f"{check}/{number}", CALLS_OF_A_PAIR, session.plan.pair_tokens, work)


def _sample(session: Session, check: str, number: int, n: int) -> Call:
    request = f"Tell me a very short story about {_SUBJECTS[number % len(_SUBJECTS)]}."
    temperature = {"direct": _TEMPERATURES[check]}
    budget = session.asker.budget.replace(max_tokens=session.plan.pair_tokens, temperature=temperature)
    # Engines that take a seed from the conductor get it by the place of the sample, others as a setting.
    place = Sample("probe", number, 0 if check == SEED else n, step=check)
    predict = free_request("Be inventive.")
    return session.asker.ask(
        "direct",
        Task(request, "text"),
        lambda: ask(predict, "direct", place, {"request": request}),
        budget=budget,
        settings={"seed": _A_SEED if check == SEED else None},
    )[1]


def context(session: Session) -> Unit:
    """Ask for a reply that is longer than the context: a server that knows its limit names it in its refusal."""
    return Unit(CONTEXT, 1, 1, lambda: [_too_long(session)])


def _too_long(session: Session) -> Call:
    """The call, with the limit as its answer; a refusal that names the limit is no failure."""
    request = "Say yes."
    budget = session.asker.budget.replace(max_tokens=_TOO_MANY)
    predict = free_request("One word is enough.")
    _, call = session.asker.ask(
        "direct",
        Task(request, "text"),
        lambda: ask(predict, "direct", Sample("probe", step=CONTEXT), {"request": request}),
        budget=budget,
        settings={"stop": [" ", "\n"]},  # an engine that does not refuse must not write a book
        again=False,
    )
    named = _LIMIT.search(call.failure or "")
    return replace(call, answer=named[1].replace(",", ""), failure=None) if named else call


def same_replies(session: Session, check: str) -> dict[str, Any] | None:
    """Share of pairs whose two samples are the same."""
    return share(one.digest == other.digest for one, other in _pairs(session, check))


def likeness(session: Session, check: str) -> dict[str, Any] | None:
    """How much of the two samples of a pair is the same from the beginning, 0 to 1; `None` where nobody can tell."""
    return mean_share(_common_beginning(one, other) for one, other in _pairs(session, check))


def temperature_is_honoured(session: Session) -> bool | None:
    """Samples at temperature 0 are clearly more alike than those at 1; `None` where either is unknown.

    Not that those at 0 are the same: servers that batch requests round differently each time, and at a near tie of two
    tokens a greedy reply takes another turn.
    """
    greedy, warm = likeness(session, GREEDY), likeness(session, WARM)
    if greedy is None or warm is None:
        return None
    if greedy["value"] == 1:
        return bool(warm["value"] < 1)
    return bool(greedy["value"] - warm["value"] >= _CLEARLY)


def seed_is_honoured(session: Session) -> bool | None:
    """One seed gives one text; `None` where the engine takes none, or gives one text anyway."""
    warm, seeded = same_replies(session, WARM), same_replies(session, SEED)
    dropped = any("seed" in call.dropped for call in session.calls_of(SEED))
    if warm is None or seeded is None or dropped or warm["value"] == 1:
        return None
    return bool(seeded["value"] == 1)


def _pairs(session: Session, check: str) -> list[Sequence[Call]]:
    """The pairs of a check that got both replies."""
    pairs = [found.calls for key, found in session.found.items() if key.partition("/")[0] == check]
    return [calls for calls in pairs if len(calls) == CALLS_OF_A_PAIR and all(c.failure is None for c in calls)]


def _common_beginning(one: Call, other: Call) -> float | None:
    """`None` where two replies differ in their reasoning content alone, which is not kept."""
    if one.digest == other.digest:
        return 1.0
    if one.text == other.text:
        return None
    common = sum(
        1 for _ in takewhile(lambda letters: letters[0] == letters[1], zip(one.text, other.text, strict=False))
    )
    return common / max(len(one.text), len(other.text))


def reports_usage(session: Session) -> dict[str, Any] | None:
    """Share of the replies whose tokens were reported."""
    units = (found for key, found in session.found.items() if key != CONTEXT)
    calls = [call for found in units for call in found.calls if call.failure is None]
    return share(call.tokens_out is not None for call in calls)


def context_limit(session: Session) -> int | None:
    """The context limit, if the engine or its refusal named one."""
    if session.context_limit is not None:
        return session.context_limit
    limits = [int(call.answer) for call in session.calls_of(CONTEXT) if call.answer is not None]
    return limits[0] if limits else None


def tells_context_limit(session: Session) -> bool | None:
    """`None` where the request failed for another reason, or was not made."""
    if context_limit(session) is not None:
        return True
    return False if session.calls_of(CONTEXT) else None
