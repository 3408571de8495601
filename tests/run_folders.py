"""Folders of runs as `coda evaluate` writes them, and a reader of the pages made of them."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from coda_dspy.candidate import Candidate
from coda_dspy.evaluation import JsonLines, Pool, PoolRecord, Result, RunFolder

Parts = list[dict[str, Any]]


@dataclass
class Page(HTMLParser):
    """What a browser would make of a page: its elements with their attributes, and their texts."""

    source: str
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[str] = [""]
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self._open[-1], data.strip()))

    def of(self, *tags: str) -> list[str]:
        return [text for tag, text in self.texts if tag in tags]

    @property
    def figures(self) -> dict[str, str]:
        """The definition lists of the head: facts and figures, without their notes."""
        words = self.of("dt", "dd")
        return dict(zip(words[::2], words[1::2], strict=True))

    @property
    def rows(self) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if attributes.get("class") == "question"]

    @property
    def opened(self) -> list[Parts]:
        """What stands below each row once it is opened."""
        return [json.loads(text) for text in self.of("script") if text.startswith('[{"')]


def folder_of(path: Path, pairs: Sequence[tuple[Result, PoolRecord | None]], **described: Any) -> Path:
    """The folder of a run with these results, and what the pool holds of them."""
    RunFolder(path).begin({"engine": "openai/small", "data": {"name": "sums", "shard": None}, **described})
    for result, record in pairs:
        if record is not None:
            Pool(path / "pool.jsonl.gz").append(record)
        JsonLines(path / "results.jsonl").append(asdict(result))
    return path


def stage(calls: int = 1, **changes: Any) -> dict[str, Any]:
    row = {"calls": calls, "cached": 0, "failed": 0, "cut": 0, "tokens_in": 60, "tokens_out": 40, "seconds": 1.0}
    return {**row, **changes}


def candidate(answer: str, text: str = "", **fields: Any) -> Candidate:
    return Candidate(
        answer, text or f"So it is.\nAnswer: {answer}", **{"path": "direct", "attempt": 0, "tokens": 100, **fields}
    )


def answered(name: str, answers: Sequence[str], gold: str = "2", **fields: Any) -> tuple[Result, PoolRecord]:
    """A question whose first answer was chosen, with a candidate for each answer.

    Args:
        name: Its id.
        answers: At least one.
        gold: The right one.
        fields: Of the result, where it differs from one direct call of 100 tokens.
    """
    sample = fields.get("sample", 0)
    grades = tuple(answer == gold for answer in answers)
    classes = {answer: tuple(i for i, a in enumerate(answers) if a == answer) for answer in answers}
    candidates = tuple(candidate(answer, attempt=i) for i, answer in enumerate(answers))
    steps = tuple(step("direct", c.text, attempt=i) for i, c in enumerate(candidates))
    task = {"question": f"What of {name}?", "kind": "math"}
    record = PoolRecord(
        name, sample, "x", task, gold, answers[0], grades[0], candidates, grades, tuple(classes.values()), steps=steps
    )
    cost = {"tokens": 100, "known_tokens": 100, "billed_tokens": 100, "calls": 1, "billed_calls": 1, "seconds": 2.0}
    known: dict[str, Any] = {**cost, "stages": {"direct": stage()}, "path": "direct", **fields}
    votes = {answer: len(members) for answer, members in classes.items()}
    graded = {"recalled": record.recalled, "hit_rate": record.hit_rate}
    return Result(name, answers[0], gold, grades[0], votes=votes, **graded, **known), record


def step(stage: str, text: str, path: str = "direct", attempt: int = 0, failure: str | None = None) -> dict[str, Any]:
    return {"stage": stage, "place": [path, attempt, 0, stage, 0], "text": text, "failure": failure}
