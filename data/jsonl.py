"""Questions in JSON Lines, read and written: our schema, and what is said of a line that does not keep to it."""

import json
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from coda_dspy.data.parts import problems
from coda_dspy.data.question import Question
from coda_dspy.errors import UserError
from coda_dspy.programs.cases import Case
from coda_dspy.task import KINDS, LETTERS, Task

_FIELDS = (
    *("id", "question", "answer", "kind", "choices", "meta", "private", "integer", "previous"),
    *("entry_point", "prompt", "public_tests", "tests"),
)
_BOM = b"\xef\xbb\xbf"


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
    return parse(raw, str(path), need_answers)


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


def parse(raw: bytes, name: str, need_answers: bool) -> list[Question]:
    """The questions of the content of a file; `name` is what errors call it."""
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
    _refuse_tangled(found, name)
    return found


def _refuse_tangled(questions: list[Question], name: str) -> None:
    """Steps that wait for each other would never be asked, nor the first of two that follow one step."""
    if sum(map(len, problems(questions))) < len(questions):
        raise UserError(
            f"{name}: the steps of a problem are tangled: previous leads back to the question itself, or two "
            "questions name the same one; let every step follow another one"
        )


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
    task = Task.of(_statement(record), "code", None, public, _entry_point(record))
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


def _entry_point(record: dict[str, Any]) -> str | None:
    name = record.get("entry_point") or None
    if name is not None and not isinstance(name, str):
        raise UserError(f"entry_point is {_named(name)}; give the name of a function")
    return name


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
