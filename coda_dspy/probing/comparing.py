"""Adapters and paths compared on the same questions, one greedy answer each."""

from collections.abc import Sequence
from typing import Any

from coda_dspy import answers
from coda_dspy.adapter import ADAPTERS
from coda_dspy.evaluation import Gradable, Result
from coda_dspy.evaluation.statistics import accuracy, paired_difference

from .calls import Call
from .figures import Figure, mean, share
from .session import Session

LEAST = 4  # fewer questions decide nothing
MARKERS_KEPT = 0.9  # share of replies with their section marker from which on the format counts as obeyed

Answered = list[tuple[Gradable, Call]]


def adapters(session: Session) -> dict[str, Any]:
    """How each adapter fares on the questions that were answered through both."""
    plain, sections = _both(session, "plain", "sections", session.mixed)
    figures: dict[str, Any] = {}
    for name, pairs in zip(ADAPTERS, (plain, sections), strict=True):
        calls = [call for _, call in pairs]
        figures[name] = {
            "readable": share(call.answer is not None for call in calls),
            "accuracy": _accuracy(pairs),
            "cut": share(call.cut for call in calls),
            "tokens_out": mean(call.tokens_out for call in calls),
        }
    output = {"code": "program"}
    kept = (output.get(question.task.kind, "solution") in call.markers for question, call in sections)
    figures["sections"]["markers"] = share(kept)
    figures["difference"] = _difference(plain, sections)
    return figures


def are_enough(session: Session) -> bool:
    """Whether there were enough questions to tell the adapters apart."""
    return len(session.paired("plain", "sections", session.mixed)) >= LEAST


def better_adapter(figures: dict[str, Any]) -> str:
    """`sections` only where the engine keeps to them and loses nothing by them, in these few questions at least.

    So few questions cannot show that a loss is noise, so any loss counts; and too few show nothing at all.
    """
    plain, sections, difference = figures["plain"], figures["sections"], figures["difference"]
    if sections["markers"] is None or sections["markers"]["n"] < LEAST:
        return "plain"
    obeyed = sections["markers"]["value"] >= MARKERS_KEPT
    readable = sections["readable"]["value"] >= plain["readable"]["value"]
    right = difference is None or difference["value"] >= 0
    return "sections" if obeyed and readable and right else "plain"


def paths(session: Session) -> dict[str, Any]:
    """A direct answer against one by program, on the same questions, for each kind on which both were tried."""
    figures = {}
    for kind, questions in session.questions.items():
        direct, code = _both(session, "plain", "code", questions)
        if direct:
            figures[kind] = {"direct": _path(direct), "code": _path(code), "difference": _difference(direct, code)}
            figures[kind]["agree"], figures[kind]["right_where_they_agree"] = _agreement(direct, code)
    return figures


def _path(pairs: Answered) -> dict[str, Any]:
    calls = [call for _, call in pairs]
    tokens = [None if None in (c.tokens_in, c.tokens_out) else (c.tokens_in or 0) + (c.tokens_out or 0) for c in calls]
    return {
        "accuracy": _accuracy(pairs),
        "readable": share(c.answer is not None for c in calls),
        "tokens": mean(tokens),
    }


def _agreement(direct: Answered, code: Answered) -> tuple[Figure | None, Figure | None]:
    """How often both paths give the same answer, and how often that one is right."""
    same = [answers.same(q.task, one.answer, other.answer) for (q, one), (_, other) in zip(direct, code, strict=True)]
    agreeing = [call.correct for (_, call), agree in zip(direct, same, strict=True) if agree]
    return share(same), share(agreeing)


def better_paths(figures: dict[str, Any]) -> dict[str, str]:
    """The path that is right more often, or as often for fewer tokens; `direct` in a draw. By kind, if measured."""
    found = {}
    for kind, row in figures.items():
        if row["direct"]["accuracy"] is None or row["direct"]["accuracy"]["n"] < LEAST:
            continue
        right = [row[path]["accuracy"]["value"] for path in ("direct", "code")]
        found[kind] = "code" if right[1] > right[0] or (right[1] == right[0] and _cheaper(row)) else "direct"
    return found


def _cheaper(row: dict[str, Any]) -> bool:
    """Whether programs take fewer tokens, as far as that is known."""
    direct, code = row["direct"]["tokens"], row["code"]["tokens"]
    return direct is not None and code is not None and bool(code["value"] < direct["value"])


def _results(pairs: Answered) -> list[Result]:
    return [Result(id=question.id, answer=call.answer, correct=call.correct) for question, call in pairs]


def _accuracy(pairs: Answered) -> Figure | None:
    results = [result for result in _results(pairs) if result.correct is not None]
    return accuracy(results)._asdict() if results else None


def _difference(one: Answered, other: Answered) -> Figure | None:
    first, second = _results(one), _results(other)
    graded = any(result.correct is not None for result in first)
    return paired_difference(first, second)._asdict() if graded else None


def _both(session: Session, first: str, second: str, questions: Sequence[Gradable]) -> tuple[Answered, Answered]:
    pairs = session.paired(first, second, questions)
    return [(question, one) for question, one, _ in pairs], [(question, other) for question, _, other in pairs]
