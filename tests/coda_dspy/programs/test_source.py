import pytest
from hypothesis import given
from hypothesis import strategies as st

from coda_dspy.programs import program_in


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
