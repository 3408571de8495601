"""What a report reads: the folders of one run, a folder a shard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from re import split
from typing import Any

from coda_dspy.errors import UserError
from coda_dspy.evaluation import JsonLines, Pool, PoolRecord, Result, RunFolder
from coda_dspy.evaluation.recorded import POOL, RESULTS
from coda_dspy.sampling import Sample


@dataclass(frozen=True)
class StageRow:
    """What a stage cost; unknown tokens are `None`."""

    calls: int
    cached: int
    failed: int
    cut: int
    tokens_in: int | None
    tokens_out: int | None
    seconds: float


@dataclass(frozen=True)
class StepRow:
    """What a role said at one place of the search, or why it said nothing."""

    stage: str
    place: Sample
    text: str
    failure: str | None = None


@dataclass(frozen=True)
class TaskRow:
    """What was asked."""

    question: str
    choices: Sequence[str] | None = None
    entry_point: str | None = None
    tests: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class Entry:
    """One question and sample: what it came to, and what the pool has of it, if it has it.

    Args:
        result: What it came to.
        record: Its candidates.
        task: What was asked; `None` where that is private.
        steps: What every role said.
    """

    result: Result
    record: PoolRecord | None = None
    task: TaskRow | None = None
    steps: Sequence[StepRow] = ()

    @property
    def is_private(self) -> bool:
        return self.record is not None and self.task is None


@dataclass(frozen=True)
class Run:
    """A run, with all its shards.

    Args:
        folders: Where it lies, a folder a shard.
        described: `run.json` of the first folder.
        entries: In the order of their ids and samples; at least one.
    """

    folders: Sequence[Path]
    described: Mapping[str, Any]
    entries: Sequence[Entry]

    @property
    def results(self) -> list[Result]:
        return [entry.result for entry in self.entries]


def read_run(folders: Sequence[Path]) -> Run:
    """Read the shards of a run.

    Raises:
        UserError: A folder holds no run, no results, or damaged files; the folders are of different runs; or two of
            them hold the same question and sample.
    """
    described = [_described(folder) for folder in folders]
    for folder, other in zip(folders[1:], described[1:], strict=True):
        _refuse_another(folders[0], described[0], folder, other)
    found: dict[tuple[str, int], tuple[Path, Entry]] = {}
    for folder in folders:
        for entry in _entries(folder):
            key = entry.result.id, entry.result.sample
            if key in found:
                raise UserError(
                    f"{found[key][0]} and {folder} both hold question {key[0]!r}, sample {key[1]}; "
                    "give shards of one run, each of them once"
                )
            found[key] = folder, entry
    return Run(folders, described[0], [found[key][1] for key in sorted(found, key=_natural)])


def _described(folder: Path) -> dict[str, Any]:
    described = RunFolder(folder).described()
    if described is None:
        raise UserError(
            f"{folder} is not the folder of a run: it holds no run.json; give one that `coda evaluate` wrote"
        )
    return described


def _refuse_another(first: Path, described: Mapping[str, Any], folder: Path, other: Mapping[str, Any]) -> None:
    begun, also = _without_shard(described), _without_shard(other)
    for key in begun | also:
        if begun.get(key) != also.get(key):
            raise UserError(f"{folder} holds a run with another {key} than {first}; give shards of one run")


def _without_shard(described: Mapping[str, Any]) -> dict[str, Any]:
    """What is the same for all shards of a run."""
    data = described.get("data")
    return {**described, "data": {**data, "shard": None} if isinstance(data, Mapping) else data}


def _entries(folder: Path) -> list[Entry]:
    """What is in a folder; of a question that a crash had asked again, the last answer."""
    results, pool = folder / RESULTS, folder / POOL
    try:
        rows, records = JsonLines(results).read(), list(Pool(pool).read())
    except OSError as error:
        raise UserError(f"{error.filename or folder} cannot be read: {error.strerror}") from error
    if not rows:
        raise UserError(f"{folder} holds no results yet; wait until its run has finished a question")
    kept = {(record.id, record.sample): record for record in records}
    last = {(result.id, result.sample): result for result in (_result(row, results) for row in rows)}
    return [_entry(result, kept.get(key), pool) for key, result in last.items()]


def _result(row: Mapping[str, Any], path: Path) -> Result:
    result: Result = _checked(Result, row, path, row.get("id"))
    _checked(dict[str, StageRow], result.stages, path, result.id)
    return result


def _entry(result: Result, record: PoolRecord | None, pool: Path) -> Entry:
    if record is None:
        return Entry(result)
    checked: PoolRecord = _checked(PoolRecord, record.to_json(), pool, record.id)
    positions = range(len(checked.candidates))
    if len(checked.grades) != len(positions) or not all(m in positions for members in checked.classes for m in members):
        raise UserError(f"{pool} is damaged: grades or classes of {record.id!r} fit no candidates; remove that line")
    task = _checked(TaskRow | None, checked.task, pool, record.id)
    return Entry(result, checked, task, _checked(tuple[StepRow, ...], checked.steps, pool, record.id))


def _checked(kind: Any, value: Any, path: Path, name: Any) -> Any:
    """A value as what it should be, every field of its type; `name` says in errors where it stands."""
    from pydantic import ValidationError

    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise UserError(f"{path} is damaged: {field} of {name!r}: {first['msg']}; remove that line") from error


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _natural(key: tuple[str, int]) -> tuple[list[tuple[int, str]], int]:
    """Question 10 comes after question 9."""
    parts = split(r"(\d+)", key[0])
    return [(len(part.lstrip("0")) if part.isdecimal() else 0, part) for part in parts], key[1]
