"""What a reply says and what it only thought."""

import pytest

from coda_dspy.answers import strip_thinking

CASES = [
    ("no tags", "no tags", ""),
    ("  spaces stay  ", "  spaces stay  ", ""),
    ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2", ""),
    ("<think>a</think>b", "b", "a"),
    ("a</think>b", "b", "a"),
    ("a</think>", "", "a"),
    ("<think>a", "", "a"),
    ("b<think>a", "b", "a"),
    ("<think></think>b", "b", ""),
    ("<think>a<think>b</think>c</think>d", "d", "a\nb\nc"),
    ("<think>a</think>b<think>c</think>d", "b\nd", "a\nc"),
    ("<think>a</think>b<think>c", "b", "a\nc"),
    ("<thinking>a</thinking>b", "b", "a"),
    ("<THINK>a</Think>b", "b", "a"),
    ("[THINK]a[/THINK]b", "b", "a"),
    ("<seed:think>a</seed:think>b", "b", "a"),
    ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b", "b", "a"),
    ("<|channel|>analysis<|message|>a<|channel|>final<|message|>b<|return|>", "b", "a"),
    ("<|channel|>analysis<|message|>a", "", "a"),
    ("<|channel|>commentary to=tool<|constrain|>json<|message|>a<|call|>", "", "a"),
    ("analysisWe need a.assistantfinalb", "b", "We need a."),
    ("", "", ""),
]


@pytest.mark.parametrize(("text", "visible", "thinking"), CASES)
def test_parts(text: str, visible: str, thinking: str) -> None:
    assert strip_thinking(text) == (visible, thinking)
