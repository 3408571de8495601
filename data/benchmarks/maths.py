"""Mathematics: AIME, MATH-500, GSM8K, NuminaMath."""

import re
from collections.abc import Iterator

from coda_dspy.data.benchmarks.benchmark import Benchmark
from coda_dspy.data.benchmarks.row import Row
from coda_dspy.data.question import Question
from coda_dspy.errors import UserError

_LARGEST = 999
_GSM8K_ANSWER = re.compile(r"####\s*(-?[\d.,]*\d)")
_BOX = re.compile(r"\\boxed\s*\{")
_PROOF = re.compile(r"\b(?:prove|show) that\b", re.IGNORECASE)
# `f(1)` is no part, "(1) Find …" is one.
_PARTS = re.compile(r"(?<![\w)\]}])\((?:1|a|i)\).*(?<![\w)\]}])\((?:2|b|ii)\)", re.DOTALL)


def aime2024(row: Row) -> Iterator[Question]:
    """A row of 2024 or 2025, which has an id; some copies of the data lack it."""
    id = row.fields.get("id")
    yield _aime(row, str(row.number if id is None else id))


def aime2026(row: Row) -> Iterator[Question]:
    """A row of 2026, which has the problem's number."""
    yield _aime(row, str(row.whole("problem_idx")))


def _aime(row: Row, id: str) -> Question:
    answer = row.whole("answer")
    if not 0 <= answer <= _LARGEST:
        raise UserError(f"answer is not from 0 to {_LARGEST}")
    return Question(f"{row.benchmark}/{id}", row.text("problem"), str(answer), integer=True)


def math500(row: Row) -> Iterator[Question]:
    """The answer as it is given: LaTeX."""
    meta = {"level": f"level {row.whole('level')}", "topic": row.text("subject")}
    yield Question(f"{row.benchmark}/{row.text('unique_id')}", row.text("problem"), row.text("answer"), meta=meta)


def gsm8k(row: Row) -> Iterator[Question]:
    """The answer is what stands behind `####`, without the commas."""
    answer = _GSM8K_ANSWER.search(row.text("answer"))
    if answer is None:
        raise UserError("answer has no number behind ####")
    yield Question(f"{row.benchmark}/{row.number}", row.text("question"), answer[1].replace(",", ""))


def numinamath(row: Row) -> Iterator[Question]:
    """The answer is what is boxed, where exactly one thing is."""
    problem, boxes = row.text("problem"), boxes_in(row.text("solution"))
    answers = set(boxes)
    if len(answers) != 1 or "" in answers or _PROOF.search(problem) or any(map(_PARTS.search, (problem, boxes[-1]))):
        return
    meta = {"source": row.given("source")}
    yield Question(f"{row.benchmark}/{row.number}", problem, boxes[-1], meta=meta)


def boxes_in(text: str) -> list[str]:
    r"""What each `\boxed{…}` of a text holds; one that is never closed holds nothing."""
    return [_balanced(text[box.end() :]) for box in _BOX.finditer(text)]


def _balanced(text: str) -> str:
    """The text up to the brace that closes it; empty where none does."""
    depth = 1
    for brace in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if not depth:
            return text[: brace.start()].strip()
    return ""


MATHS = (
    Benchmark(
        name="aime2024",
        repository="HuggingFaceH4/aime_2024",
        split="train",
        revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
        convert=aime2024,
        licence="problems (c) MAA",
    ),
    Benchmark(
        name="aime2025",
        repository="math-ai/aime25",
        split="test",
        revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
        convert=aime2024,
        licence="problems (c) MAA",
    ),
    Benchmark(
        name="aime2026",
        repository="MathArena/aime_2026",
        split="train",
        revision="10b4e45b7a503075d4da8a0d57916a4f06ce6bd2",
        convert=aime2026,
        licence="CC BY-NC-SA 4.0; problems (c) MAA",
    ),
    Benchmark(
        name="math500",
        repository="HuggingFaceH4/MATH-500",
        split="test",
        revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
        convert=math500,
        licence="MIT",
    ),
    Benchmark(
        name="gsm8k",
        repository="openai/gsm8k",
        config="main",
        split="test",
        revision="740312add88f781978c0658806c59bc2815b9866",
        convert=gsm8k,
        licence="MIT",
    ),
    Benchmark(
        name="numinamath",
        repository="AI-MO/NuminaMath-CoT",
        split="train[:5000]",
        revision="9d8d210c9f6a36c8f3cd84045668c9b7800ef517",
        convert=numinamath,
        licence="Apache-2.0",
        keeps="those with one boxed answer, no proof and no parts",
    ),
)
