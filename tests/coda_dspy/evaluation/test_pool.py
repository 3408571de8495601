"""Every candidate is kept, graded, and survives what may happen to a file."""

import gzip
import json
import random
from dataclasses import dataclass
from pathlib import Path

import dspy
import pytest
from dspy.lm15 import ContextLengthError, ServerError
from scripts import answering, engine

from coda_dspy import AdaptiveCoda, Budget, Coda
from coda_dspy.data import Question
from coda_dspy.errors import UserError
from coda_dspy.evaluation import CompressedLines, JsonLines, Pool, evaluate
from coda_dspy.programs import Case

BUDGET = Budget(num_attempts_baseline=3, best_of_n=1, n_plans=2, early_exit="off")


def pool_of(tmp_path: Path, question: Question, script: object, program: dspy.Module | None = None) -> Pool:
    pool = Pool(tmp_path / "pool.jsonl.gz")
    _, lm = engine(script)  # type: ignore[arg-type]
    with dspy.context(lm=lm):
        evaluate(program or AdaptiveCoda(BUDGET), [question], pool=pool)
    return pool


def test_every_candidate_is_kept_with_its_origin_its_grade_and_its_class(tmp_path: Path) -> None:
    question = Question("q", "What is 1 + 1?", "2")
    (record,) = pool_of(tmp_path, question, answering(["2", "3", "4"], ["2.0"])).read()
    assert [(c.path, c.answer) for c in record.candidates] == [
        ("direct", "2"),
        ("direct", "3"),
        ("direct", "4"),
        ("coda", "2.0"),
    ]
    assert record.grades == (True, False, False, True)
    assert record.classes == ((0, 3), (1,), (2,))
    assert (record.recalled, record.hit_rate, record.correct) == (True, 0.5, True)
    coda = record.candidates[3]
    assert len(coda.plans) == len(coda.executions) == 2 and coda.tokens
    assert {step["stage"] for step in record.steps} == {"direct", "plan", "execute", "reflect"}
    assert record.task == {"question": "What is 1 + 1?", "kind": "math"}


def test_verdicts_of_judges_are_kept(tmp_path: Path) -> None:
    program = Coda(Budget(best_of_n=2, n_plans=1, verifier="judge"))
    question = Question("q", "What is 1 + 1?", "2")
    (record,) = pool_of(tmp_path, question, answering(coda=["2", "3"]), program).read()
    assert [step["text"] for step in record.steps if step["stage"] == "judge"] == ["Rating: 5\nBetter: 1"] * 2


def test_programs_are_kept_with_what_they_put_out(tmp_path: Path) -> None:
    question = Question(
        "q",
        "Write double(x).",
        "",
        "code",
        public_tests=(Case("3", "6", "functional"),),
        tests=(Case("4", "8", "functional"),),
        entry_point="double",
    )
    lucky, right = "def double(x):\n    return 6", "def double(x):\n    return 2 * x"

    def script(call: object) -> str:
        sample = call.sample  # type: ignore[attr-defined]
        return f"```python\n{lucky if sample.attempt == 0 else right}\n```"

    program = AdaptiveCoda(Budget(num_attempts_baseline=2, num_attempts_coda=0, early_exit="off"))
    (record,) = pool_of(tmp_path, question, script, program).read()
    assert record.grades == (False, True)
    assert record.outputs == (("6",), ("6",))
    assert record.task is not None and record.task["tests"] == [{"input": "3", "output": "6", "testtype": "functional"}]


@dataclass(frozen=True)
class Secret:
    """A question whose text must not be kept."""

    id: str = "s"
    answer: str = "2"
    private: bool = True

    @property
    def task(self):  # type: ignore[no-untyped-def]
        return Question("s", "The secret of 1 + 1?", "2").task

    def grade(self, answer: str | None) -> bool:
        return answer == "2"


def test_of_a_private_question_no_text_is_kept(tmp_path: Path) -> None:
    script = answering(["2", "3", "4"], ["2"])
    _, lm = engine(lambda call: f"On the secret: {script(call)}")
    pool = Pool(tmp_path / "pool.jsonl.gz")
    with dspy.context(lm=lm):
        (result,) = evaluate(AdaptiveCoda(BUDGET), [Secret()], pool=pool)
    assert result.solution == "" and result.gold is None and result.correct
    kept = gzip.decompress(pool.lines.path.read_bytes()).decode()
    assert "secret" not in kept.lower()
    (record,) = pool.read()
    assert record.task is None and record.gold is None and record.grades == (True, False, False, True)


def test_a_record_survives_the_file(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, Question("q", "What is 1 + 1?", "2"), answering(["2", "3", "4"], ["2"]))
    (record,) = pool.read()
    again = Pool(tmp_path / "again.gz")
    again.append(record)
    assert list(again.read()) == [record]
    assert json.loads(gzip.decompress(pool.lines.path.read_bytes()))["schema"] == 1


def test_another_schema_and_another_file_are_refused(tmp_path: Path) -> None:
    lines = CompressedLines(tmp_path / "pool.gz")
    lines.append({"schema": 99, "id": "q", "sample": 0})
    with pytest.raises(UserError, match="schema is 99"):
        list(Pool(lines.path).read())
    other = CompressedLines(tmp_path / "other.gz")
    other.append({"schema": 1, "id": "q", "sample": 0})
    with pytest.raises(UserError, match="not a record of a pool"):
        list(Pool(other.path).read())


def test_a_torn_compressed_line_is_dropped_and_the_rest_kept(tmp_path: Path) -> None:
    lines = CompressedLines(tmp_path / "lines.gz")
    for number in range(3):
        lines.append({"number": number})
    whole = lines.path.read_bytes()
    for cut in range(1, len(whole), 7):
        lines.path.write_bytes(whole[:-cut])
        kept = CompressedLines(lines.path).read()
        assert kept == [{"number": n} for n in range(len(kept))]
        CompressedLines(lines.path).append({"number": "new"})
        assert CompressedLines(lines.path).read() == [*kept, {"number": "new"}]


def test_what_an_engine_says_of_a_private_question_is_not_kept(tmp_path: Path) -> None:
    _, lm = engine(lambda call: ContextLengthError(f"refused: {call.prompt}"))
    pool, store = Pool(tmp_path / "pool.jsonl.gz"), JsonLines(tmp_path / "r.jsonl")
    with dspy.context(lm=lm):
        (result,) = evaluate(AdaptiveCoda(BUDGET), [Secret()], pool=pool, store=store)
    assert result.correct is False and set(result.failures) <= {"direct", "plan", "execute"}
    kept = gzip.decompress(pool.lines.path.read_bytes()).decode() + store.path.read_text()
    assert "secret" not in kept.lower()


def test_a_question_that_failed_as_a_whole_is_in_the_pool_without_candidates(tmp_path: Path) -> None:
    question = Question("q", "What is 1 + 1?", "2")
    _, lm = engine(lambda call: "Answer: 2" if "9 + 9" in call.prompt else ServerError("no"))
    pool = Pool(tmp_path / "pool.jsonl.gz")
    with dspy.context(lm=lm):
        evaluate(AdaptiveCoda(BUDGET), [Question("a", "What is 9 + 9?", "18"), question], pool=pool, workers=1)
    record = next(record for record in pool.read() if record.id == "q")
    assert (record.candidates, record.recalled, record.hit_rate) == ((), False, 0.0)


def test_a_large_pool_is_read_in_one_pass(tmp_path: Path) -> None:
    lines = CompressedLines(tmp_path / "lines.gz")
    text = "".join(random.Random(1).choices("abcdefgh", k=200_000))
    for number in range(20):
        lines.append({"number": number, "text": text})
    assert [row["number"] for row in CompressedLines(lines.path).read()] == list(range(20))


def test_a_damaged_pool_is_named_and_not_cut(tmp_path: Path) -> None:
    lines = CompressedLines(tmp_path / "lines.gz")
    for number in range(3):
        lines.append({"number": number})
    whole = bytearray(lines.path.read_bytes())
    whole[len(whole) // 3 + 12] ^= 0xFF
    lines.path.write_bytes(whole)
    with pytest.raises(UserError, match="damaged at byte"):
        CompressedLines(lines.path).read()
    with pytest.raises(UserError, match="damaged at byte"):
        CompressedLines(lines.path).append({"number": 9})
    assert lines.path.read_bytes() == whole
