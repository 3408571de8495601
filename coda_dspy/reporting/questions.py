"""A question of a report: its row, and what stands below it once it is opened."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coda_dspy.candidate import Candidate
from coda_dspy.evaluation import PoolRecord
from coda_dspy.task import LETTERS

from .folders import Entry, StepRow, TaskRow
from .words import UNKNOWN, line, number, tokens_of, verdict

# A part of an opened question, as the page's script reads it: a text or a table, with a title.
Part = dict[str, Any]

FILTERS: dict[str, tuple[str, Callable[[Entry], bool]]] = {
    "wrong": ("wrong", lambda entry: entry.result.correct is False),
    "disagreeing": ("disagreeing (more than one class)", lambda entry: len(_votes(entry)) > 1),
    "truncated": ("truncated", lambda entry: entry.result.truncated),
    "unparsed": ("unparsed", lambda entry: entry.result.unparsed),
    "missed": (
        "right answer found but not chosen",
        lambda entry: entry.result.correct is False and bool(entry.result.recalled),
    ),
}


class Row(NamedTuple):
    """A question in the list.

    Args:
        name: Its id, with the sample where there are several.
        verdict: `right`, `wrong` or `unknown`.
        cells: What else the row says, by heading.
        flags: The filters that it passes.
        searched: The texts in which it is searched.
        parts: What stands below it.
    """

    name: str
    verdict: str
    cells: Mapping[str, str]
    flags: Sequence[str]
    searched: Sequence[str]
    parts: Sequence[Part]


def row_of(entry: Entry, several_samples: bool) -> Row:
    """The row of a question; `several_samples` says whether its sample has to be named."""
    result = entry.result
    name = f"{result.id} · sample {result.sample + 1}" if several_samples else result.id
    cells = {
        "answer": line(result.answer) if result.answer is not None else "no answer",
        "gold": line(result.gold) if result.gold is not None else ("private" if entry.is_private else UNKNOWN),
        "path": result.path or "none",
        "votes": " : ".join(str(votes) for _, votes, _ in _votes(entry)) or "none",
        "tokens": tokens_of(result.tokens, result.known_tokens),
    }
    searched = [result.id, _question(entry.task), result.answer or "", result.gold or ""]
    flags = [flag for flag, (_, passes) in FILTERS.items() if passes(entry)]
    return Row(name, verdict(result.correct), cells, flags, searched, list(_parts(entry)))


def _parts(entry: Entry) -> Iterator[Part]:
    """In the order in which it happened."""
    result, record = entry.result, entry.record
    yield _text("question", _question(entry.task) or _missing(entry), open=True)
    if result.error is not None:
        yield _text("failed as a whole", result.error, failed=True, open=True)
    if record is not None:
        if not entry.is_private:
            yield from map(_step, entry.steps)
            yield from _unsaid(record, {step.text for step in entry.steps})
        yield _candidates(record)
    elif result.solution:
        yield _text("solution", result.solution)
    yield _table("votes by class", ("answer", "votes", "verdict"), _votes(entry))
    if result.failures:
        yield _table("why steps gave nothing", ("reason", "times"), Counter(result.failures).items())
    yield bill(result.stages)


def bill(stages: Mapping[str, Mapping[str, Any]]) -> Part:
    """What each stage cost."""
    columns = ("stage", "calls", "cached", "failed", "cut", "tokens in", "tokens out", "seconds")
    rows = [
        (stage, *(number(row[column.replace(" ", "_")]) for column in columns[1:-1]), number(row["seconds"], 1))
        for stage, row in stages.items()
    ]
    return _table("cost by stage", columns, rows)


def _question(task: TaskRow | None) -> str:
    """The question as a person reads it; empty where its text is not known."""
    if task is None:
        return ""
    lines = [task.question]
    lines += [f"{letter}) {choice}" for letter, choice in zip(LETTERS, task.choices or (), strict=False)]
    if task.entry_point:
        lines.append(f"asked for: {task.entry_point}")
    lines += [f"test: {test.get('input')} gives {test.get('output')}" for test in task.tests]
    return "\n".join(lines)


def _missing(entry: Entry) -> str:
    return "Private: its text is not kept." if entry.is_private else "Not in the pool, so its text is not known."


def _votes(entry: Entry) -> list[tuple[str, int, str]]:
    """Each class: its answer, its votes, and whether it is right; most votes first."""
    record = entry.record
    if record is None:
        classes = [(answer, votes, UNKNOWN) for answer, votes in entry.result.votes.items()]
    else:
        classes = [_class(record, members) for members in record.classes if members]
    return sorted(classes, key=lambda one: -one[1])


def _class(record: PoolRecord, members: Sequence[int]) -> tuple[str, int, str]:
    answers = [record.candidates[member].answer for member in members]
    chosen = ", chosen" if record.answer in answers else ""
    return line(answers[0]), len(members), f"{verdict(record.grades[members[0]])}{chosen}"


def _step(step: StepRow) -> Part:
    title = step.place.shown(step.stage)
    if step.failure is not None:
        return _text(title, f"failed: {step.failure}\n{step.text}".strip(), failed=True)
    return _text(title, step.text)


def _unsaid(record: PoolRecord, said: set[str]) -> Iterator[Part]:
    """Of the candidates what no step says: thinking, programs with what they compute, what programs put out."""
    for position, candidate in enumerate(record.candidates, start=1):
        for title, text in _texts(candidate):
            if text and text not in said:
                yield _text(f"candidate {position}: {title}", text)
        if position <= len(record.outputs):
            yield _text(f"candidate {position}: what its program puts out", "\n".join(record.outputs[position - 1]))


def _texts(candidate: Candidate) -> Iterator[tuple[str, str]]:
    yield from ((f"plan {number}", text) for number, text in enumerate(candidate.plans, start=1))
    yield from ((f"execution {number}", text) for number, text in enumerate(candidate.executions, start=1))
    yield "thinking", candidate.thinking
    yield "solution", candidate.text


def _candidates(record: PoolRecord) -> Part:
    columns = ("candidate", "path", "attempt", "answer", "verdict", "tokens")
    graded = enumerate(zip(record.candidates, record.grades, strict=True), start=1)
    rows = [
        (
            position,
            candidate.path,
            candidate.attempt + 1,
            line(candidate.answer),
            verdict(grade) + ("" if candidate.trusted else ", fails a public test"),
            number(candidate.tokens),
        )
        for position, (candidate, grade) in graded
    ]
    return _table("candidates", columns, rows)


def _text(title: str, text: str, *, failed: bool = False, open: bool = False) -> Part:
    return {"title": title, "text": text, "failed": failed, "open": open}


def _table(title: str, columns: Sequence[str], rows: Any) -> Part:
    return {"title": title, "columns": list(columns), "rows": [[str(cell) for cell in row] for row in rows]}
