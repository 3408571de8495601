"""Questions with their answers: loaded by name or from JSON Lines, split into parts, and fingerprinted.

Everything here is plain Python, so that the CLI can check a file of questions before any heavy library is loaded.
"""

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from hashlib import blake2b, sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from coda_dspy.data.benchmarks import BENCHMARKS
from coda_dspy.data.question import Question
from coda_dspy.errors import UserError
from coda_dspy.programs.cases import Case
from coda_dspy.task import KINDS, LETTERS, Task

BUILTIN: tuple[str, ...] = ("choice", "code", "math")
"""Names of the sets that come with the project."""

_FIELDS = (
    *("id", "question", "answer", "kind", "choices", "meta", "private", "integer", "previous"),
    *("entry_point", "prompt", "public_tests", "tests"),
)
_BOM = b"\xef\xbb\xbf"


class Split(NamedTuple):
    """Three parts of one set that have no question in common."""

    train: list[Question]
    validation: list[Question]
    test: list[Question]


def read_questions(path: str | Path, *, need_answers: bool = True) -> list[Question]:
    """Read a file in JSON Lines: one object `{id, question, answer, kind, choices?, meta?, …}` a line, in UTF-8.

    The README of this folder explains the fields. Numbers as id, answer or choice become text. Fields of other names
    go to `meta`. Blank lines are skipped.

    Args:
        path: The file.
        need_answers: With False, for questions that are only to be solved, three fields may be missing or blank:
            `answer` (then ""), `id` (then the number of the line) and `kind` (then `choice` where there are choices,
            else `math`).

    Returns:
        The questions in the order of the file; at least one.

    Raises:
        UserError: No such file, not readable, not UTF-8, no question in it; broken JSON or not an object; a field is
            missing, empty or of the wrong type; unknown kind, choices missing, a letter without a choice; an id used
            twice. The message names the file and the line and says what to do; it quotes nothing of a private question.
    """
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; give the path of a file with one JSON object a line") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot be read ({reason}); give the path of a readable file") from error
    return _parse(raw, str(path), need_answers)


def builtin(name: str) -> list[Question]:
    """Return a set that comes with the project, in the order of its file.

    Args:
        name: One of `BUILTIN`: `choice`, `code` or `math`.

    Raises:
        UserError: No set has this name.
    """
    if name not in BUILTIN:
        raise UserError(f"{name!r} is not a built-in set; choose one of: {', '.join(BUILTIN)}")
    file = f"{name}.jsonl"
    return _parse(files("coda_dspy.data").joinpath(file).read_bytes(), file, need_answers=True)


def load(name_or_path: str | Path, *, need_answers: bool = True) -> list[Question]:
    """Return a built-in set or a public benchmark by its name, or else the questions of a file.

    A name goes before a file of that name; write `./math` for the file.

    Args:
        name_or_path: One of `BUILTIN`; one of `BENCHMARKS`, which is fetched from the Hugging Face hub; `NAME=FILE`
            with the official rows of a benchmark in a local file; or the path of a file in JSON Lines.
        need_answers: As for `read_questions`.

    Raises:
        UserError: None of these; the file has a fault (see `read_questions`); or the benchmark cannot be fetched.
    """
    if name_or_path in BUILTIN:
        return builtin(str(name_or_path))
    name, local, file = str(name_or_path).partition("=")
    if name in BENCHMARKS:
        benchmark = BENCHMARKS[name]
        return list((benchmark.read(file) if local else benchmark.fetch()).questions)
    if not _exists(Path(name_or_path)):
        raise UserError(
            f"{str(name_or_path)!r} is neither a built-in set nor a file; choose one of: {', '.join(BUILTIN)}, "
            f"a benchmark ({', '.join(BENCHMARKS)}), or give the path of a JSON Lines file"
        )
    return read_questions(name_or_path, need_answers=need_answers)


def write_questions(path: str | Path, questions: Iterable[Question]) -> None:
    """Write questions, private ones too, to a file in JSON Lines that `read_questions` reads.

    Raises:
        UserError: The file cannot be written.
    """
    lines = [json.dumps(_record_of(question), ensure_ascii=False) + "\n" for question in questions]
    try:
        Path(path).write_text("".join(lines), encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); give the path of a new file") from error


def _record_of(question: Question) -> dict[str, Any]:
    """A question as our schema has it, without what is empty."""
    record: dict[str, Any] = {name: getattr(question, name) for name in ("id", "question", "answer", "kind")}
    record |= {
        "choices": question.choices,
        "entry_point": question.entry_point,
        "public_tests": [case.as_row() for case in question.public_tests],
        "tests": [case.as_row() for case in question.tests],
        "meta": question.meta,
        "private": question.private,
        "integer": question.integer,
        "previous": question.previous,
    }
    return {name: value for name, value in record.items() if value or name == "answer"}


def split(questions: Iterable[Question], seed: int, train: int, validation: int, test: int) -> Split:
    """Cut a set into three parts by the ids of its questions alone; the order of the input never matters.

    1. Each question has a key: BLAKE2b of `"{seed}:{id}"`, 16 bytes. Within its level (`meta["level"]`; questions
       without one form a level of their own) it has the rank of its key: 0, 1, 2, …
    2. The levels are merged: a level of n questions has its rank r at place (r + 1/2) / n of the common order, so that
       every stretch of it holds about the mix of the whole set. Equal places go by key.
    3. The first `test` questions are the test part, the next `validation` the validation part, the next `train` the
       train part. What is left is in none.

    The test part comes first because a set may grow: with sizes and seed unchanged and a single level, a question that
    was in the train or validation part can never come into the test part. With several levels this holds as long as
    the test part takes as many questions of each level as before.

    Args:
        questions: The whole set.
        seed: Another seed gives another split.
        train: Number of questions in this part, as for `validation` and `test`; 0 is allowed.
        validation: See `train`.
        test: See `train`.

    Returns:
        The parts, each in the common order.

    Raises:
        UserError: A size is negative, there are fewer questions than asked for, or an id occurs twice.
    """
    asked = {"train": train, "validation": validation, "test": test}
    for part, size in asked.items():
        if size < 0:
            raise UserError(f"{part} is {size}; give a number of questions, 0 or more")
    order = _common_order(list(questions), seed)
    total = sum(asked.values())
    if total > len(order):
        sizes = " + ".join(f"{size} {part}" for part, size in asked.items())
        raise UserError(
            f"{sizes} = {total} questions were asked for, but the set has {len(order)}; ask for fewer or add questions"
        )
    held_out = test + validation
    return Split(train=order[held_out:total], validation=order[test:held_out], test=order[:test])


def problems(questions: Iterable[Question]) -> list[list[Question]]:
    """The questions, with the steps of a larger problem together, in their order; a question alone is one problem."""
    found = list(questions)
    followers = {question.previous: question for question in found if question.previous is not None}
    ids = {question.id for question in found}
    groups = [[question] for question in found if question.previous not in ids]
    for group in groups:
        while group[-1].id in followers:
            group.append(followers[group[-1].id])
    return groups


def sample(questions: Iterable[Question], seed: int, size: int) -> list[Question]:
    """Some of the problems, chosen and ordered by their ids alone, with the whole set's mix of levels (see `split`).

    Steps of a larger problem stay together, and count as one.
    """
    groups = {group[0].id: group for group in problems(questions)}
    order = _common_order([group[0] for group in groups.values()], seed)
    return [question for first in order[:size] for question in groups[first.id]]


def fingerprint(questions: Iterable[Question]) -> str:
    """Return 16 hexadecimal digits that stand for the data: ids, questions, choices, answers and kinds.

    The order of the questions and their `meta` do not matter. It is the beginning of the SHA-256 of canonical JSON.
    """
    rows = [[q.id, q.question, q.choices, q.answer, q.kind, *_tests_of(q)] for q in questions]
    rows.sort(key=json.dumps)
    return sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()[:16]


def _tests_of(question: Question) -> list[Any]:
    if question.kind != "code":
        return []
    cases = question.public_tests + question.tests
    return [question.entry_point, [[c.input, c.output, c.form] + ([c.before] if c.before else []) for c in cases]]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # for example a name that is too long, such as a whole question
        return False


def _common_order(questions: Sequence[Question], seed: int) -> list[Question]:
    keys: dict[str, bytes] = {}
    levels: defaultdict[str, list[Question]] = defaultdict(list)
    for question in questions:
        if question.id in keys:
            raise UserError(f"id {question.id!r} occurs twice in the set to split; give every question its own id")
        keys[question.id] = blake2b(f"{seed}:{question.id}".encode(), digest_size=16).digest()
        levels[str(question.meta.get("level", ""))].append(question)
    placed: list[tuple[float, bytes, Question]] = []
    for members in levels.values():
        members.sort(key=lambda member: keys[member.id])
        placed += [((rank + 0.5) / len(members), keys[member.id], member) for rank, member in enumerate(members)]
    placed.sort(key=lambda entry: entry[:2])
    return [question for _, _, question in placed]


def _parse(raw: bytes, name: str, need_answers: bool) -> list[Question]:
    found: list[Question] = []
    lines: dict[str, int] = {}
    # Not splitlines(): it also cuts at separators that may stand inside a JSON string.
    for number, line in enumerate(raw.removeprefix(_BOM).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            question = _question(_record(line), number, need_answers)
            if question.id in lines:
                raise UserError(
                    f"id {question.id!r} is already used in line {lines[question.id]}; make every id unique"
                )
        except UserError as error:
            raise UserError(f"{name}, line {number}: {_told(error, line)}") from error.__cause__
        lines[question.id] = number
        found.append(question)
    if not found:
        raise UserError(f"{name}: holds no question; write one JSON object a line")
    return found


def _told(error: UserError, line: bytes) -> str:
    """The message; but those that quote what stands in the line must not quote a private question."""
    if re.search(rb'"private"\s*:\s*true', line):
        return "this private question has not the form that data/README.md gives; what it holds is not shown here"
    return str(error)


def _record(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line.decode("utf-8"))
        # JSON can spell half of a character pair, which no engine could be sent.
        json.dumps(record, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError("is not UTF-8 text; save the file in the encoding UTF-8") from error
    except UnicodeEncodeError as error:
        raise UserError("holds half of a Unicode character (\\ud800 to \\udfff alone); write the whole one") from error
    except json.JSONDecodeError as error:
        raise UserError(
            f"is not JSON ({error.msg}, column {error.colno}); write one complete JSON object a line"
        ) from error
    except (ValueError, RecursionError) as error:
        raise UserError("is JSON beyond what can be read (a huge number or deep nesting); simplify it") from error
    if not isinstance(record, dict):
        raise UserError(
            f"holds {_named(record)}, not an object; write one object {{...}} a line, without a list around them"
        )
    return record


def _question(record: dict[str, Any], number: int, need_answers: bool) -> Question:
    choices = _choices(record)
    spare_id, spare_kind, spare_answer = None, None, None
    if not need_answers:
        spare_id, spare_kind, spare_answer = str(number), "math" if choices is None else "choice", ""
    kind = _text(record, "kind", spare_kind)
    if kind not in KINDS:
        raise UserError(f"kind is {kind!r}; choose one of: {', '.join(KINDS)}")
    if kind == "code":
        return _code_question(record, _text(record, "id", spare_id), need_answers)
    task = Task.of(_text(record, "question"), kind, choices)
    return Question(
        id=_text(record, "id", spare_id),
        question=task.question,
        answer=_answer(_text(record, "answer", spare_answer), task),
        kind=kind,
        choices=task.choices,
        meta=_meta(record),
        private=_flag(record, "private"),
        integer=_flag(record, "integer"),
        previous=_previous(record),
    )


def _code_question(record: dict[str, Any], name: str, need_tests: bool) -> Question:
    """A code task: its reference solution may be missing, its tests may not."""
    public, hidden = _cases(record, "public_tests"), _cases(record, "tests")
    if need_tests and not public + hidden:
        raise UserError("a code task without tests cannot be scored; add public_tests or tests")
    task = Task.of(_statement(record), "code", None, public, record.get("entry_point") or None)
    return Question(
        id=name,
        question=task.question,
        answer=str(record.get("answer") or ""),
        kind="code",
        meta=_meta(record),
        public_tests=task.tests,
        tests=hidden,
        entry_point=task.entry_point,
        private=_flag(record, "private"),
        previous=_previous(record),
    )


def _flag(record: dict[str, Any], name: str) -> bool:
    flag = record.get(name, False)
    if not isinstance(flag, bool):
        raise UserError(f"{name} is {_named(flag)}; give true or false, or leave it out")
    return flag


def _previous(record: dict[str, Any]) -> str | None:
    return None if record.get("previous") is None else _as_text(record["previous"], "previous")


def _statement(record: dict[str, Any]) -> str:
    """The question, with the code that it begins (`prompt`) where the question does not show it already."""
    question, prompt = _text(record, "question"), str(record.get("prompt") or "").strip()
    if not prompt or prompt in question:
        return question
    return prompt if prompt.startswith(question) else f"{question}\n\n{prompt}"


def _cases(record: dict[str, Any], name: str) -> tuple[Case, ...]:
    given = record.get(name) or []
    rows = [given] if isinstance(given, str) else given
    if not isinstance(rows, list):
        raise UserError(f"{name} is {_named(given)}; give a list of tests, or a text of assertions")
    return tuple(_case(row, f"{name}, number {at}", record) for at, row in enumerate(rows, start=1))


def _case(row: Any, where: str, record: dict[str, Any]) -> Case:
    case = Case.of(row, where)
    if case.form == "functional" and not record.get("entry_point"):
        raise UserError(f"{where} calls a function, but entry_point is missing; name the function")
    return case


def _answer(answer: str, task: Task) -> str:
    if task.choices is None or not answer:
        return answer
    letters = LETTERS[: len(task.choices)]
    letter = answer.upper()
    if len(letter) != 1 or letter not in letters:
        raise UserError(
            f"answer is {answer!r}, but there are {len(letters)} choices; give one letter from A to {letters[-1]}"
        )
    return letter


def _choices(record: dict[str, Any]) -> list[str] | None:
    given = record.get("choices")
    if given is None:
        return None
    if not isinstance(given, list):
        raise UserError(f"choices is {_named(given)}; give a list of 2 to {len(LETTERS)} options")
    return [_as_text(choice, f"choice {at}") for at, choice in enumerate(given, start=1)]


def _meta(record: dict[str, Any]) -> dict[str, Any]:
    meta = record.get("meta")
    if meta is not None and not isinstance(meta, dict):
        raise UserError(f"meta is {_named(meta)}; give an object or leave it out")
    others = {name: value for name, value in record.items() if name not in _FIELDS}
    return others | (meta or {})


def _text(record: dict[str, Any], name: str, spare: str | None = None) -> str:
    value = record.get(name)
    if spare is not None and (value is None or (isinstance(value, str) and not value.strip())):
        return spare
    if value is None:
        raise UserError(f"field {name!r} is missing; add it")
    return _as_text(value, name)


def _as_text(value: object, name: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UserError(f"{name} is {_named(value)}; give it as text or as a number")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UserError(f"{name} is {value}; give a finite number or text")
        # str() would write small and large numbers with an exponent, which not every comparison reads.
        return format(Decimal(str(value)), "f")
    text = str(value)
    if not text.strip():
        raise UserError(f"{name} is empty; give it as text or as a number")
    return text.strip()


def _named(value: object) -> str:
    names = {bool: "true or false", str: "text", list: "a list", dict: "an object", type(None): "null"}
    return names.get(type(value), "a number")
