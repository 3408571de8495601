"""The pool: every candidate of every question, so that selectors can be compared without generating again.

One compressed JSON line a question and sample. Of private questions (GPQA asks not to spread its text) it keeps answers
and figures, and no text.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import dspy

from coda_dspy import answers
from coda_dspy.answers.code import inputs_of
from coda_dspy.candidate import Candidate
from coda_dspy.errors import UserError
from coda_dspy.programs import behaviour
from coda_dspy.task import Task
from coda_dspy.voting import classify

from .lines import CompressedLines
from .result import Gradable, is_private, told

SCHEMA = 1


@dataclass(frozen=True)
class PoolRecord:
    """All candidates of one question and sample.

    Args:
        id: The question's id.
        sample: Which sample of the question it is.
        asked: Fingerprint of the question, the engine and the program.
        task: The question as arguments of a program; `None` where it is private.
        gold: The right answer; `None` where nobody knows it, or where it is private.
        answer: The program's answer.
        correct: Whether it is right; `None` where nobody knows.
        candidates: Every candidate, in the order of its vote.
        grades: Whether each candidate is right; `None` where nobody knows.
        classes: Positions of the candidates that mean the same, in the order of their first vote.
        outputs: Of programs for a code task: what each one puts out on the inputs that are known.
        steps: What every role said, in order: `stage`, `place`, `text`, `failure`.
        stages: Calls, tokens and failures by stage.
        failures: Why steps gave nothing.
        seconds: Wall time.
        schema: Version of this layout.
    """

    id: str
    sample: int
    asked: str
    task: Mapping[str, Any] | None
    gold: str | None
    answer: str | None
    correct: bool | None
    candidates: tuple[Candidate, ...]
    grades: tuple[bool | None, ...]
    classes: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[str, ...], ...] = ()
    steps: tuple[Mapping[str, Any], ...] = ()
    stages: Mapping[str, Any] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    seconds: float = 0.0
    schema: int = SCHEMA

    @property
    def recalled(self) -> bool | None:
        """Whether any candidate is right; `None` where nobody knows."""
        return None if self.correct is None or None in self.grades else any(self.grades)

    @property
    def hit_rate(self) -> float | None:
        """Share of the candidates that are right: the accuracy of one drawn by chance."""
        if self.correct is None or None in self.grades:
            return None
        return sum(map(bool, self.grades)) / len(self.grades) if self.grades else 0.0

    @classmethod
    def of(
        cls,
        question: Gradable,
        sample: int,
        asked: str,
        prediction: dspy.Prediction,
        seconds: float,
        grade: Callable[[str | None], bool | None],
    ) -> "PoolRecord":
        """The record of an answered question. Every candidate is graded; a program's hidden tests run for that."""
        task, private = question.task, is_private(question)
        candidates = tuple(prediction.candidates)
        classes = classify([c.answer for c in candidates], lambda a, b: answers.same(task, a, b))
        return cls(
            id=question.id,
            sample=sample,
            asked=asked,
            task=None if private else _plain(task),
            gold=None if private else question.answer or None,
            answer=prediction.answer,
            correct=grade(prediction.answer),
            candidates=tuple(c.without_texts() if private else c for c in candidates),
            grades=tuple(grade(c.answer) for c in candidates),
            classes=tuple(c.members for c in classes),
            outputs=tuple(_outputs(task, c.answer) for c in candidates) if task.kind == "code" else (),
            steps=() if private else tuple(map(_step, prediction.transcript)),
            stages=prediction.ledger.by_stage(),
            failures=tuple(told(question, prediction.failures)),
            seconds=seconds,
        )

    @classmethod
    def empty(cls, question: Gradable, sample: int, asked: str, correct: bool | None, reason: str) -> "PoolRecord":
        """The record of a question that failed as a whole."""
        private = is_private(question)
        task, gold = (None, None) if private else (_plain(question.task), question.answer or None)
        return cls(question.id, sample, asked, task, gold, None, correct, (), (), (), failures=(reason,))

    def to_json(self) -> dict[str, Any]:
        """The record as plain values. Traces, which serve optimizers within one process, are left out."""
        candidates = [asdict(replace(candidate, trace=())) for candidate in self.candidates]
        for candidate in candidates:
            del candidate["trace"]
        return {**{f.name: getattr(self, f.name) for f in fields(self)}, "candidates": candidates}

    @classmethod
    def from_json(cls, row: Mapping[str, Any], source: str = "pool") -> "PoolRecord":
        """Read a record.

        Raises:
            UserError: It is of another version, or no record at all.
        """
        if row.get("schema") != SCHEMA:
            raise UserError(f"{source}: schema is {row.get('schema')!r}, but this coda_dspy reads {SCHEMA}")
        try:
            candidates = tuple(_candidate(candidate) for candidate in row["candidates"])
            values = {name: _frozen(value) for name, value in row.items() if name != "candidates"}
            return cls(candidates=candidates, **values)
        except (KeyError, TypeError) as error:
            raise UserError(f"{source}: not a record of a pool ({error})") from error


class Pool:
    """The records of a file, by question and sample.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.lines = CompressedLines(path)

    def append(self, record: PoolRecord) -> None:
        """Add a record; it is on the disk before this returns.

        Raises:
            UserError: The disk is full, or the file cannot be written.
        """
        self.lines.append(record.to_json())

    def read(self) -> Iterator[PoolRecord]:
        """Every record once; of a question that a crash had asked again, the last one.

        Raises:
            UserError: The file holds something else.
        """
        rows = {(row.get("id"), row.get("sample")): row for row in self.lines.read()}
        for row in rows.values():
            yield PoolRecord.from_json(row, str(self.lines.path))


def _plain(task: Task) -> dict[str, Any]:
    arguments = task.arguments()
    if "tests" in arguments:
        arguments["tests"] = [{"input": c.input, "output": c.output, "testtype": c.form} for c in task.tests]
    return arguments


def _outputs(task: Task, program: str) -> tuple[str, ...]:
    inputs = inputs_of(task)
    return behaviour(program, inputs, task.entry_point) if inputs else ()


def _step(step: Any) -> dict[str, Any]:
    return {"stage": step.stage, "place": list(step.sample), "text": step.text, "failure": step.failure}


def _candidate(row: Mapping[str, Any]) -> Candidate:
    return Candidate(**{name: _frozen(value) for name, value in row.items()})


def _frozen(value: Any) -> Any:
    """Lists as JSON gives them back, as the tuples that they were."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
