"""Multiple choice: GPQA Diamond, MMLU, ARC."""

from collections.abc import Iterator, Mapping
from hashlib import blake2b

from coda_dspy.data.benchmarks.benchmark import Benchmark
from coda_dspy.data.benchmarks.row import Row, texts_in
from coda_dspy.data.question import Question
from coda_dspy.errors import UserError
from coda_dspy.task import LETTERS

_GPQA_CHOICES = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def gpqa(row: Row) -> Iterator[Question]:
    """The right choice comes first in the row, so the choices are put in an order that the record id alone decides."""
    record = row.text("Record ID").strip()
    order = sorted(range(len(_GPQA_CHOICES)), key=lambda place: _key(record, place))
    yield Question(
        f"{row.benchmark}/{record}",
        row.text("Question").strip(),
        LETTERS[order.index(0)],
        "choice",
        tuple(row.text(_GPQA_CHOICES[place]).strip() for place in order),
        meta={"topic": row.given("High-level domain")},
        private=True,
    )


def _key(record: str, place: int) -> bytes:
    """A hash rather than a random generator, whose shuffle may differ between versions of Python."""
    return blake2b(f"{record}:{place}".encode(), digest_size=16).digest()


def mmlu(row: Row) -> Iterator[Question]:
    """The answer is the place of the right choice, from 0."""
    choices, right = row.texts("choices"), row.whole("answer")
    if not 0 <= right < min(len(choices), len(LETTERS)):
        raise UserError(f"answer is {right}, but there are {len(choices)} choices")
    yield Question(
        f"{row.benchmark}/{row.number}",
        row.text("question"),
        LETTERS[right],
        "choice",
        tuple(choices),
        meta={"topic": row.given("subject")},
    )


def arc(row: Row) -> Iterator[Question]:
    """The labels are A to E or 1 to 5, and there are three to five of them."""
    choices = row.fields.get("choices")
    if not isinstance(choices, Mapping):
        raise UserError("choices is no object with text and label")
    labels, texts = texts_in(choices.get("label"), "label"), texts_in(choices.get("text"), "text")
    if not len(labels) == len(texts) <= len(LETTERS) or row.text("answerKey") not in labels:
        raise UserError(
            f"answerKey is {row.text('answerKey')!r}, labels are {labels}, and there are {len(texts)} texts"
        )
    letter = LETTERS[labels.index(row.text("answerKey"))]
    yield Question(f"{row.benchmark}/{row.text('id')}", row.text("question"), letter, "choice", tuple(texts))


CHOICE = (
    Benchmark(
        name="gpqa-diamond",
        repository="Idavidrein/gpqa",
        config="gpqa_diamond",
        split="train",
        revision="633f5ee89ab8ad4522a9f850766b73f62147ffdd",
        convert=gpqa,
        licence="CC BY 4.0; its authors ask not to publish its text",
        gated=True,
        private=True,
    ),
    Benchmark(
        name="mmlu",
        repository="cais/mmlu",
        config="all",
        split="test",
        revision="c30699e8356da336a370243923dbaf21066bb9fe",
        convert=mmlu,
        licence="MIT",
    ),
    Benchmark(
        name="arc-challenge",
        repository="allenai/ai2_arc",
        config="ARC-Challenge",
        split="test",
        revision="210d026faf9955653af8916fad021475a3f00453",
        convert=arc,
        licence="CC BY-SA 4.0",
    ),
    Benchmark(
        name="arc-easy",
        repository="allenai/ai2_arc",
        config="ARC-Easy",
        split="test",
        revision="210d026faf9955653af8916fad021475a3f00453",
        convert=arc,
        licence="CC BY-SA 4.0",
    ),
)
