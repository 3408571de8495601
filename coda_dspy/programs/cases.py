"""Cases: what goes into a program, and what has to come out."""

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from coda_dspy.errors import UserError

SECONDS = 6.0
"""How long a case may take where it does not say so itself: LiveCodeBench's limit."""
MOST_SECONDS = 7200

Form = Literal["stdin", "functional", "snippet"]
FORMS = ("stdin", "functional", "snippet")


@dataclass(frozen=True)
class Case:
    """One case, in the layout of LiveCodeBench's tests.

    Args:
        input: For `stdin` the text of standard input; for `functional` one JSON value a line, the positional arguments;
            for `snippet` Python code that asserts something of the program.
        output: What has to come out: the text of standard output, or the JSON of the returned value; empty for
            `snippet`.
        form: `stdin`, `functional` or `snippet`.
        before: Code that goes before the program when it is run on this case, such as the helpers that it may use.
        seconds: How much CPU time the case may take.
    """

    input: str
    output: str = ""
    form: str = "stdin"
    before: str = ""
    seconds: float = SECONDS

    @classmethod
    def of(cls, row: Any, where: str = "a test") -> "Case":
        """Read a case from JSON: a text, which is a snippet, or an object of `input`, `output`, `testtype`.

        The object may also hold `before` and `seconds`.

        Raises:
            UserError: It is neither, or its parts do not fit; the message says where.
        """
        if isinstance(row, str):
            return cls(row, form="snippet")
        if not isinstance(row, Mapping) or not all(isinstance(row.get(key), str) for key in ("input", "output")):
            raise UserError(f"{where} is no case; write an object with the texts input and output")
        form = row.get("testtype", "stdin")
        if form not in FORMS:
            raise UserError(f"{where} has testtype {form!r}; it has to be one of: {', '.join(FORMS)}")
        case = cls(row["input"], row["output"], form, _before(row, where), _seconds(row, where))
        if form == "functional":
            _check_json(case, where)
        return case

    def as_row(self) -> str | dict[str, Any]:
        """The case as JSON, which `of` reads."""
        if self == Case(self.input, form="snippet"):
            return self.input
        row: dict[str, Any] = {"input": self.input, "output": self.output, "testtype": self.form}
        if self.before:
            row["before"] = self.before
        return row if self.seconds == SECONDS else row | {"seconds": self.seconds}

    def arguments(self) -> list[Any]:
        """The positional arguments of a `functional` case."""
        return [json.loads(line) for line in self.input.splitlines() if line.strip()]


def _before(row: Mapping[str, Any], where: str) -> str:
    before = row.get("before", "")
    if not isinstance(before, str):
        raise UserError(f"{where} has a before that is no text; give code or leave it out")
    return before


def _seconds(row: Mapping[str, Any], where: str) -> float:
    seconds = row.get("seconds", SECONDS)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0.05 <= seconds <= MOST_SECONDS:
        raise UserError(f"{where} has seconds {seconds!r}; give a number from 0.05 to {MOST_SECONDS}")
    return float(seconds)


def _check_json(case: Case, where: str) -> None:
    try:
        case.arguments(), json.loads(case.output)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is functional, but its input or output is no JSON: {error}") from error


def cases_in(statement: str, entry_point: str | None = None) -> list[Case]:
    """The examples of a statement, where they can be read: doctest lines, or Input/Output blocks.

    Args:
        statement: The task in words.
        entry_point: The function that doctest lines call; `None` for a program that reads standard input.
    """
    return _doctests(statement, entry_point) if entry_point else _blocks(statement)


def _doctests(statement: str, entry_point: str) -> list[Case]:
    found = []
    for call, result in re.findall(r"^[ \t]*>>> (.+)\n[ \t]*(.+)$", statement, re.MULTILINE):
        case = _doctest(call, result, entry_point)
        if case is not None:
            found.append(case)
    return found


def _doctest(call: str, result: str, entry_point: str) -> Case | None:
    try:
        node = ast.parse(call.strip(), mode="eval").body
        if not isinstance(node, ast.Call) or node.keywords or not isinstance(node.func, ast.Name | ast.Attribute):
            return None
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        arguments = [json.dumps(ast.literal_eval(argument)) for argument in node.args]
        output = json.dumps(ast.literal_eval(result.strip()))
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    return Case("\n".join(arguments), output, "functional") if name == entry_point else None


_HEADING = re.compile(r"^[^\w\n]*(?:sample |example )?(input|output)[^\w\n]*\d*[^\w\n]*$", re.MULTILINE | re.IGNORECASE)


def _blocks(statement: str) -> list[Case]:
    """An `Input` heading and an `Output` heading behind it, each with its lines, fenced or up to a blank line."""
    # Where a statement has a part with examples, its other headings describe the form in words.
    examples = re.search(r"^[^\w\n]*(?:sample|example)s?\b", statement, re.MULTILINE | re.IGNORECASE)
    headings = list(_HEADING.finditer(statement, examples.start() if examples else 0))
    found = []
    for given, wanted, after in zip(headings, headings[1:], [*headings[2:], None], strict=False):
        if (given[1].lower(), wanted[1].lower()) == ("input", "output"):
            end = after.start() if after is not None else len(statement)
            found.append(Case(_lines(statement[given.end() : wanted.start()]), _lines(statement[wanted.end() : end])))
    return [case for case in found if case.input.strip() and case.output.strip() and not _is_prose(case.input)]


def _is_prose(text: str) -> bool:
    return text.strip().endswith(".") and len(re.findall(r"[A-Za-z]{2,}", text)) >= 3


def _lines(block: str) -> str:
    fenced = re.search(r"```\w*\n(.*?)```", block, re.DOTALL)
    text = fenced[1] if fenced else block.strip("\n").split("\n\n")[0]
    return text.strip("\n") + "\n"
