"""Cases: what goes into a program, and what has to come out."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from coda_dspy.errors import UserError
from coda_dspy.programs.assertions import asserts_something, equations_in

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
            return cls(_asserting(row, where), form="snippet")
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


def _asserting(snippet: str, where: str) -> str:
    try:
        if asserts_something(snippet):
            return snippet
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{where} is a text, but no Python code: {error}") from error
    raise UserError(f"{where} asserts nothing when it runs; call its check, or add assertions")


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
        entry_point: The function that examples call; `None` for a program that reads standard input.
    """
    if entry_point is None:
        return _blocks(statement)
    return _doctests(statement, entry_point) or _named_inputs(statement, entry_point)


def _doctests(statement: str, entry_point: str) -> list[Case]:
    """`>>> f(3)` with its value in the next line."""
    lines = re.findall(r"^[ \t]*>>> (.+)\n[ \t]*(.+)$", statement, re.MULTILINE)
    cases = [Case(f"assert {call.strip()} == {result.strip()}", form="snippet") for call, result in lines]
    return [case for case in cases if _is_example_of(entry_point, case)]


_ASSIGNED = re.compile(r",\s*\w+\s*=\s*(.+?)(?=,\s*\w+\s*=|$)")


def _named_inputs(statement: str, entry_point: str) -> list[Case]:
    """LeetCode's `Input: nums = [2,7], target = 9` and `Output: [0,1]`: arguments in the order of the function's."""
    lines = re.findall(r"Input\W*?:\**[ \t]*(.+?)\s*\n\s*\**Output\W*?:\**[ \t]*(.+)", statement)
    owner = "Solution()." if re.search(r"^\s*class Solution\b", statement, re.MULTILINE) else ""
    cases = []
    for given, result in lines:
        arguments = _as_python(", ".join(_ASSIGNED.findall(f", {given}")) or given)
        example = f"assert {owner}{entry_point}({arguments}) == {_as_python(result.strip())}"
        cases.append(Case(example, form="snippet"))
    return [case for case in cases if _is_example_of(f"{owner}{entry_point}", case)]


def _as_python(text: str) -> str:
    for word, value in (("true", "True"), ("false", "False"), ("null", "None")):
        text = re.sub(rf"\b{word}\b", value, text)
    return text


def _is_example_of(function: str, case: Case) -> bool:
    equations = equations_in(case.input)
    return len(equations) == 1 and equations[0].call.startswith(f"{function}(")


_HEADING = re.compile(r"^[^\w\n]*(?:sample |example )?(input|output)[^\w\n]*\d*[^\w\n]*$", re.MULTILINE | re.IGNORECASE)
_REMARK = re.compile(r"^\W*(?:explanation|note|constraints|example)\b.*", re.MULTILINE | re.IGNORECASE | re.DOTALL)
_DESCRIBES = re.compile(
    r"\b(?:integers?|strings?|numbers?|lines?|lists?|arrays?|separated|contains?|given|its|has|print)\b", re.IGNORECASE
)


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
    return [c for c in found if c.input.strip() and c.output.strip() and not _describes_form(c.input)]


def _describes_form(text: str) -> bool:
    return _DESCRIBES.search(text) is not None and text.count(" ") >= 2


def _lines(block: str) -> str:
    fenced = re.search(r"```\w*\n(.*?)```", block, re.DOTALL)
    text = fenced[1] if fenced else _REMARK.sub("", block).strip("\n").split("\n\n")[0]
    return text.strip("\n") + "\n"
