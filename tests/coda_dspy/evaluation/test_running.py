import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path

import dspy
import pytest
from dspy.lm15 import AuthError, ContextLengthError, ServerError
from scripts import engine

from coda_dspy import AdaptiveCoda, Budget
from coda_dspy.errors import EngineError, UserError
from coda_dspy.evaluation import JsonLines, evaluate
from coda_dspy.task import Task
from coda_dspy.testing import Reply, ScriptedCall

ONCE = Budget(num_attempts_baseline=1, num_attempts_coda=0)


@dataclass(frozen=True)
class Sum:
    id: str
    answer: str

    @property
    def task(self) -> Task:
        return Task(f"What is {self.id} + 0?")

    def grade(self, answer: str | None) -> bool | None:
        return answer == self.answer if self.answer else None


@dataclass(frozen=True)
class Other(Sum):
    @property
    def task(self) -> Task:
        return Task("What is 5 + 0?")


SUMS = [Sum(str(i), str(i)) for i in range(12)]


def adds(call: ScriptedCall) -> str:
    return f"Answer: {call.prompt.split()[2]}"


def test_results_come_in_the_order_of_the_questions_and_are_graded(tmp_path: Path) -> None:
    _, lm = engine(adds)
    store = JsonLines(tmp_path / "r.jsonl")
    with dspy.context(lm=lm):
        results = evaluate(AdaptiveCoda(ONCE), [*SUMS, Sum("20", "21")], store=store, workers=4)
    assert [r.id for r in results] == [*(s.id for s in SUMS), "20"]
    assert [r.correct for r in results] == [True] * 12 + [False]
    assert len(store.read()) == 13


def test_a_finished_question_is_not_answered_again(tmp_path: Path) -> None:
    made, lm = engine(adds, cache=False)
    store = JsonLines(tmp_path / "r.jsonl")
    with dspy.context(lm=lm):
        evaluate(AdaptiveCoda(ONCE), SUMS[:5], store=store)
        first = store.path.read_bytes()
        results = evaluate(AdaptiveCoda(ONCE), SUMS, store=store)
    assert len(made.calls) == len(results) == 12
    assert store.path.read_bytes().startswith(first)


def test_a_line_that_a_crash_has_torn_is_dropped_and_answered_again(tmp_path: Path) -> None:
    made, lm = engine(adds, cache=False)
    store = JsonLines(tmp_path / "r.jsonl")
    with dspy.context(lm=lm):
        evaluate(AdaptiveCoda(ONCE), SUMS[:3], store=store)
        store.path.write_bytes(store.path.read_bytes()[:-10])
        store = JsonLines(store.path)  # as another process would open it
        evaluate(AdaptiveCoda(ONCE), SUMS[:3], store=store)
    assert len(made.calls) == 4
    assert sorted(row["id"] for row in store.read()) == ["0", "1", "2"]


def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text('{"id": "0", "question": "What?"}\n{"id": "1"}')
    before = path.read_bytes()
    _, lm = engine(adds)
    with dspy.context(lm=lm), pytest.raises(UserError, match="holds something else than results"):
        evaluate(AdaptiveCoda(ONCE), SUMS[:3], store=JsonLines(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("change", ["engine", "budget", "question"])
def test_answers_of_another_engine_budget_or_question_are_never_mixed_in(tmp_path: Path, change: str) -> None:
    _, lm = engine(adds)
    _, other = engine(adds)
    store = JsonLines(tmp_path / "r.jsonl")
    with dspy.context(lm=lm):
        evaluate(AdaptiveCoda(ONCE), SUMS[:3], store=store)
    program = AdaptiveCoda(ONCE.replace(refine_rounds=1) if change == "budget" else ONCE)
    questions = [Other("0", "5")] if change == "question" else SUMS[:3]
    with (
        dspy.context(lm=other if change == "engine" else lm),
        pytest.raises(UserError, match="of another question, engine, profile or budget"),
    ):
        evaluate(program, questions, store=store)


def test_a_prompt_that_is_too_long_costs_that_question_only() -> None:
    _, lm = engine(lambda call: ContextLengthError("too long") if "3 +" in call.prompt else adds(call))
    with dspy.context(lm=lm):
        results = evaluate(AdaptiveCoda(ONCE), SUMS[:5])
    assert [r.correct for r in results] == [True, True, True, False, True]
    assert "too long" in results[3].failures[0]


def test_a_machine_that_lacks_something_ends_the_run_instead_of_counting_wrong_answers(tmp_path: Path) -> None:
    store = JsonLines(tmp_path / "r.jsonl")
    with pytest.raises(UserError, match="no engine is set"):
        evaluate(AdaptiveCoda(ONCE), SUMS[:3], store=store)
    assert not store.read()


def test_a_reply_with_lone_surrogates_is_saved(tmp_path: Path) -> None:
    _, lm = engine(lambda call: "\ud800 " + adds(call))
    store = JsonLines(tmp_path / "r.jsonl")
    with dspy.context(lm=lm):
        (result,) = evaluate(AdaptiveCoda(ONCE), SUMS[:1], store=store)
    assert result.correct
    assert store.read()[0]["solution"].startswith("? ")


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    store = JsonLines(tmp_path / "r.jsonl")
    store.path.write_text('{"id": "a"}\nnonsense\n{"id": "b"}\n')
    with pytest.raises(UserError, match=r"line 2 is damaged.*remove that line"):
        store.read()


def test_a_full_disk_is_explained_and_keeps_what_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = JsonLines(tmp_path / "r.jsonl")
    store.append({"id": "a"})

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device; what was saved before is kept"):
        store.append({"id": "b"})
    assert json.loads(store.path.read_text().splitlines()[0]) == {"id": "a"}


def test_questions_run_side_by_side_but_no_more_than_workers() -> None:
    barrier = threading.Barrier(3, timeout=10)

    def script(call: ScriptedCall) -> str:
        barrier.wait()
        return adds(call)

    _, lm = engine(script)
    with dspy.context(lm=lm):
        assert len(evaluate(AdaptiveCoda(ONCE), SUMS[:6], workers=3)) == 6


def test_nothing_new_starts_once_it_should_not_go_on() -> None:
    _, lm = engine(adds)
    seen: list[str] = []
    with dspy.context(lm=lm):
        results = evaluate(
            AdaptiveCoda(ONCE),
            SUMS,
            workers=2,
            on_result=lambda r: seen.append(r.id),
            keep_going=lambda: len(seen) < 4,
        )
    assert 4 <= len(results) < 12


def test_a_question_without_any_answer_is_wrong_with_its_reason() -> None:
    _, lm = engine(lambda call: Reply.cut("hm") if "3 +" in call.prompt else adds(call))
    with dspy.context(lm=lm):
        results = evaluate(AdaptiveCoda(ONCE), SUMS[:5])
    assert [r.correct for r in results] == [True, True, True, False, True]
    assert "cut off" in results[3].failures[0]


def test_a_dead_engine_ends_the_run_and_keeps_what_is_done(tmp_path: Path) -> None:
    _, lm = engine(lambda call: adds(call) if call.index < 3 else AuthError("expired"))
    store = JsonLines(tmp_path / "r.jsonl")
    with dspy.context(lm=lm), pytest.raises(EngineError, match="expired"):
        evaluate(AdaptiveCoda(ONCE), SUMS, store=store, workers=1)
    assert len(store.read()) == 3


def test_an_unknown_answer_is_not_graded() -> None:
    _, lm = engine(adds)
    with dspy.context(lm=lm):
        (result,) = evaluate(AdaptiveCoda(ONCE), [Sum("5", "")])
    assert (result.answer, result.gold, result.correct) == ("5", None, None)


def test_each_sample_is_a_sample_of_its_own_and_is_not_answered_again(tmp_path: Path) -> None:
    made, lm = engine(adds)
    store = JsonLines(tmp_path / "r.jsonl")
    with dspy.context(lm=lm):
        results = evaluate(AdaptiveCoda(ONCE), SUMS[:3], samples=4, store=store)
        again = evaluate(AdaptiveCoda(ONCE), SUMS[:3], samples=4, store=JsonLines(store.path))
    assert [(r.id, r.sample) for r in results] == [(str(i), k) for i in range(3) for k in range(4)]
    assert results == again
    assert len(made.calls) == 12  # with a warm cache too, no sample is another one's reply
    assert sum(r.billed_calls for r in results) == 12


def test_fewer_samples_are_a_part_of_more() -> None:
    _, lm = engine(adds)
    with dspy.context(lm=lm):
        evaluate(AdaptiveCoda(ONCE), SUMS[:2], samples=2)
        more = evaluate(AdaptiveCoda(ONCE), SUMS[:2], samples=3)
    assert [r.billed_calls for r in more] == [0, 0, 1, 0, 0, 1]


@dataclass(frozen=True)
class Step(Sum):
    """A step of a larger problem: it is asked with the answers of the steps before."""

    previous: str | None = None
    given: tuple[str, ...] = ()

    @property
    def task(self) -> Task:
        return Task(f"What is {self.id} + 0? Given: {', '.join(self.given)}.")

    def after(self, programs: tuple[str, ...]) -> "Step":
        return Step(self.id, self.answer, self.previous, tuple(programs))


STEPS = [Step("3", "3", "2"), Step("1", "1"), Step("2", "2", "1"), Step("9", "9", "not among them")]


@pytest.mark.parametrize("workers", [1, 4])
def test_steps_of_a_problem_follow_each_other_with_their_own_answers(tmp_path: Path, workers: int) -> None:
    made, lm = engine(adds)
    store = JsonLines(tmp_path / "r.jsonl")
    with dspy.context(lm=lm):
        results = evaluate(AdaptiveCoda(ONCE), STEPS, store=store, workers=workers, samples=2)
    assert [r.id for r in results[::2]] == ["3", "1", "2", "9"]
    assert all(r.correct for r in results)
    assert sum("Given: 1, 2." in call.prompt for call in made.calls) == 2
    assert sum("Given: ." in call.prompt for call in made.calls) == 4


def test_a_run_that_broke_within_a_problem_goes_on_with_its_next_step(tmp_path: Path) -> None:
    made, lm = engine(lambda call: adds(call) if call.index != 2 else AuthError("expired"))
    store = JsonLines(tmp_path / "r.jsonl")
    with dspy.context(lm=lm):
        with pytest.raises(EngineError):
            evaluate(AdaptiveCoda(ONCE), STEPS[:3], store=store, workers=1)
        results = evaluate(AdaptiveCoda(ONCE), STEPS[:3], store=JsonLines(store.path), workers=1)
    assert [r.id for r in results] == ["3", "1", "2"]
    assert sum("Given: 1, 2." in call.prompt for call in made.calls) >= 1
    assert len(store.read()) == 3


def test_cut_and_unreadable_replies_are_told_apart() -> None:
    def script(call: ScriptedCall) -> object:
        return {"1": Reply.cut("hm"), "2": "I do not know.", "3": ContextLengthError("too long")}.get(
            call.prompt.split()[2], adds(call)
        )

    _, lm = engine(script)
    with dspy.context(lm=lm):
        results = evaluate(AdaptiveCoda(ONCE), SUMS[:5])
    assert [r.truncated for r in results] == [False, True, False, False, False]
    assert [r.unparsed for r in results] == [False, False, True, False, False]


def test_a_question_that_the_engine_cannot_take_fails_alone(tmp_path: Path) -> None:
    _, lm = engine(lambda call: ServerError("overloaded") if "3 +" in call.prompt else adds(call))
    store = JsonLines(tmp_path / "r.jsonl")
    with dspy.context(lm=lm):
        results = evaluate(AdaptiveCoda(ONCE), SUMS, store=store, workers=1)
    assert [r.correct for r in results] == [True] * 3 + [False] + [True] * 8
    assert "gave no reply" in (results[3].error or "")
    assert len(store.read()) == 12


def test_an_engine_that_dies_in_the_middle_leaves_no_wrong_answers_behind(tmp_path: Path) -> None:
    _, lm = engine(lambda call: adds(call) if call.index < 4 else ServerError("gone"))
    store = JsonLines(tmp_path / "r.jsonl")
    with dspy.context(lm=lm), pytest.raises(EngineError, match="gave no reply"):
        evaluate(AdaptiveCoda(ONCE), SUMS, store=store, workers=1)
    assert [row["correct"] for row in store.read()] == [True] * 4


def test_an_engine_that_never_answers_ends_the_run(tmp_path: Path) -> None:
    _, lm = engine(lambda call: ServerError("gone"))
    store = JsonLines(tmp_path / "r.jsonl")
    with dspy.context(lm=lm), pytest.raises(EngineError, match="gave no reply"):
        evaluate(AdaptiveCoda(ONCE), SUMS[:2], store=store, workers=1)
    assert not store.read()


@dataclass(frozen=True)
class Broken(Sum):
    def grade(self, answer: str | None) -> bool | None:
        if answer is not None:
            raise RuntimeError("the grader fell over")
        return False


def test_a_grader_that_falls_over_costs_that_question_only() -> None:
    _, lm = engine(adds)
    with dspy.context(lm=lm):
        results = evaluate(AdaptiveCoda(ONCE), [*SUMS[:2], Broken("7", "7")])
    assert [r.correct for r in results] == [True, True, False]
    assert results[2].error == "RuntimeError: the grader fell over"


def test_a_saved_verdict_is_kept_unless_its_grading_was_corrected(tmp_path: Path) -> None:
    graded: list[str | None] = []

    @dataclass(frozen=True)
    class Counted(Sum):
        def grade(self, answer: str | None) -> bool | None:
            graded.append(answer)
            return answer == self.answer

    _, lm = engine(adds)
    store = JsonLines(tmp_path / "r.jsonl")
    with dspy.context(lm=lm):
        evaluate(AdaptiveCoda(ONCE), [Counted("5", "5")], store=store)
        evaluate(AdaptiveCoda(ONCE), [Counted("5", "5")], store=JsonLines(store.path))
        assert len(graded) == 1
        (corrected,) = evaluate(AdaptiveCoda(ONCE), [Counted("5", "6")], store=JsonLines(store.path))
    assert (len(graded), corrected.correct) == (2, False)
