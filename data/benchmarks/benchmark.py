"""What is known of a public benchmark, and how its questions are got."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from coda_dspy.data.benchmarks import files, hub
from coda_dspy.data.benchmarks.row import Row
from coda_dspy.data.question import Question
from coda_dspy.errors import UserError

logger = logging.getLogger(__name__)

Converter = Callable[[Row], Iterable[Question]]
"""The questions of one official row: mostly one; none where the row is left out; several where it has steps."""


class Loaded(NamedTuple):
    """What a benchmark's rows gave.

    Args:
        questions: In the order of the rows.
        left_out: How many rows gave no question, by the rule that `Benchmark.keeps` states.
    """

    questions: tuple[Question, ...]
    left_out: int


@dataclass(frozen=True)
class Benchmark:
    """A public benchmark.

    Args:
        name: What it is called on the command line.
        repository: Its id on the Hugging Face hub.
        split: The rows that are taken.
        revision: The commit on the hub, so that the rows never change unseen.
        convert: Makes questions of one row.
        licence: What its publishers allow.
        config: The configuration on the hub, where there are several.
        files: Raw files to read instead of a configuration and a split.
        keeps: Which rows are taken, where it is not all of them.
        gated: Whether the hub asks for a login and for consent to terms.
        private: Whether its text has to stay out of logs and results.
    """

    name: str
    repository: str
    split: str
    revision: str
    convert: Converter
    licence: str
    config: str | None = None
    files: tuple[str, ...] = ()
    keeps: str = "all rows"
    gated: bool = False
    private: bool = False

    def fetch(self) -> Loaded:
        """Get the rows from the hub, or from what the hub's library has kept of an earlier time.

        Raises:
            UserError: No network, no access, no library; or a row is damaged. The message says what to provide.
        """
        return self._questions(self._fetched(), self.name)

    def read(self, path: str | Path) -> Loaded:
        """Read the official rows from a local file: .jsonl, .json, .csv or .parquet.

        Raises:
            UserError: The file cannot be read, or a row is damaged.
        """
        path = Path(path)
        return self._questions(files.rows_in(path), f"{self.name}={path}", path.parent)

    def _fetched(self) -> Iterator[Mapping[str, Any]]:
        try:
            if not self.files:
                yield from hub.rows(self.repository, self.config, self.split, self.revision)
                return
            paths = [hub.file(self.repository, name, self.revision) for name in self.files]
        except Exception as error:  # noqa: BLE001 - three libraries, each with families of errors of its own
            raise UserError(self._unfetched(hub.refusal(error, self.repository, not self.private))) from None
        for path in paths:
            yield from files.rows_in(path)

    def _unfetched(self, reason: str) -> str:
        rows = ", ".join(self.files) or " ".join(filter(None, (self.config, self.split)))
        return (
            f"{self.name} cannot be fetched from the Hugging Face hub ({reason}). Without it, save the official rows "
            f"({rows} of {self.repository}) as a file (.jsonl, .json, .csv or .parquet) and give {self.name}=FILE; or "
            "give a JSON Lines file of questions as data/README.md describes it"
        )

    def _questions(self, rows: Iterable[Mapping[str, Any]], source: str, folder: Path | None = None) -> Loaded:
        found: dict[str, Question] = {}
        number = left_out = 0
        for number, fields in enumerate(rows, start=1):
            try:
                questions = self._converted(Row(self.name, number, fields, folder), found)
            except UserError as error:
                raise UserError(f"{source}, row {number}: {error}") from None
            left_out += not questions
            found |= {question.id: question for question in questions}
        if not found:
            raise UserError(f"{source}: none of the {number} rows gives a question; are these the official rows?")
        if left_out:
            logger.warning("%s: %d of %d rows are left out; taken are %s", source, left_out, number, self.keeps)
        return Loaded(tuple(found.values()), left_out)

    def _converted(self, row: Row, known: Mapping[str, Question]) -> list[Question]:
        questions = list(self.convert(row))
        for question in questions:
            _ = question.task  # the parts have to fit together
            if question.id in known:
                raise UserError("its id was used by an earlier row; give every row once")
        return questions
