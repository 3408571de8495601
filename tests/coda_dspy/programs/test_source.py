import subprocess
import sys

import pytest
from ending import ends
from hypothesis import given
from hypothesis import strategies as st

from coda_dspy.programs import program_in
from coda_dspy.programs.source import blocks_in


@pytest.mark.parametrize(
    ("reply", "program"),
    [
        ("```python\nprint(4)\n```", "print(4)"),
        ("Sure!\n```\nx = 4\nprint(x)\n```\nIt prints 4.", "x = 4\nprint(x)"),
        ("```py\nprint(1)\n```\nBetter:\n```python\nprint(2)\n```", "print(2)"),
        ("```python\nprint(1)\n```\nOutput:\n```\n1 apple\n```", "print(1)"),
        ("```python\nprint(1)\n```\n```json\n{}\n```", "print(1)"),
        ("```python\nprint(5)", "print(5)"),
        ("def f():\n    return 1\nprint(f())", "def f():\n    return 1\nprint(f())"),
        ("```python\nprint(3 * 7)\n```\nThis prints:\n```\n22\n```", "print(3 * 7)"),
        ("```\nprint(3)\n```\nIt prints\n```\n3\n```", "print(3)"),
        ("1. Do:\n   ```python\n   if True:\n       print(2)\n   ```", "if True:\n    print(2)"),
        ("```python\r\nprint(4)\r\n```", "print(4)"),
        (
            "```python\ndef f():\n    return 1\n```\nUse:\n```python\nprint(f())\n```",
            "def f():\n    return 1\n\nprint(f())",
        ),
        ("The answer is 4.", None),
        ("```python\nthis is no code\n```", None),
        ("", None),
        ("42", None),
    ],
)
def test_the_last_whole_program_is_found(reply: str, program: str | None) -> None:
    assert program_in(reply) == program


def test_of_several_programs_the_one_with_the_entry_point_counts() -> None:
    reply = "```python\ndef area(r):\n    return 3 * r * r\n```\nUse it:\n```python\nprint(area(2))\n```"
    assert program_in(reply, "area") == "def area(r):\n    return 3 * r * r"


def test_a_method_is_an_entry_point_as_well() -> None:
    reply = "```python\nclass Solution:\n    def area(self, r):\n        return r\n```"
    assert program_in(reply, "area") is not None


@given(st.text(max_size=300))
def test_whatever_a_reply_holds_nothing_is_raised(reply: str) -> None:
    program_in(f"```python\n{reply}", "f")


PIECES = [
    "```python\n",
    "```\n",
    "```",
    "def f(x):\n",
    "    return x\n",
    "f(1)\n",
    "\t",
    "\x00",
    "'\\d'",
    "(",
    "lambda: ",
    "\r\n",
]


@given(st.lists(st.sampled_from(PIECES)).map("".join), st.none() | st.just("f"))
def test_whatever_blocks_a_reply_holds_nothing_is_raised(reply: str, entry_point: str | None) -> None:
    found = program_in(reply, entry_point)
    assert found is None or found.strip()
    assert all(isinstance(block, str) for block in blocks_in(reply))


@pytest.mark.parametrize(
    "piece", ["(", "-", "1+", "x=1\n", "```\n", "```python\nf(1)\n", "    ", "[", "f(", "not ", "'"]
)
def test_a_megabyte_of_code_is_read_to_its_end(piece: str) -> None:
    reply = f"```python\n{piece * (1_000_000 // len(piece))}1"
    with ends():
        program_in(reply, "f")
        blocks_in(reply)


def test_what_python_says_of_a_program_does_not_reach_the_terminal() -> None:
    reply = "```python\nprint('\\\x1b')\n```"
    code = f"from coda_dspy.programs import program_in; program_in({reply!r})"
    shown = "default::DeprecationWarning:<unknown>"  # as later Pythons do unasked, as a SyntaxWarning
    done = subprocess.run([sys.executable, "-W", shown, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
