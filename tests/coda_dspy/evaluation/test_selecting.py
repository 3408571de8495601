"""Selectors on pools whose truth is known."""

import random
from collections.abc import Sequence
from dataclasses import replace

import dspy
import numpy as np
import pytest
from dspy.lm15 import ServerError
from hypothesis import given, settings
from hypothesis import strategies as st
from lessons import share, votes
from scripts import engine

from coda_dspy import Budget
from coda_dspy.candidate import Candidate
from coda_dspy.cli.select import select
from coda_dspy.errors import EngineError, UserError
from coda_dspy.evaluation import PoolRecord
from coda_dspy.evaluation.selecting import SELECTORS, compare, judgments
from coda_dspy.evaluation.statistics import gap_closure
from coda_dspy.learned import Learned
from coda_dspy.question import open_question
from coda_dspy.task import PATHS, Path, Task
from coda_dspy.testing import ScriptedCall
from coda_dspy.verifier import Verifier


def record(number: int, answers: Sequence[str], gold: str = "1", private: bool = False) -> PoolRecord:
    candidates = tuple(Candidate(a, f"So.\nAnswer: {a}", "direct", i, 10) for i, a in enumerate(answers))
    classes = tuple(tuple(i for i, a in enumerate(answers) if a == answer) for answer in dict.fromkeys(answers))
    task = None if private else {"question": f"Q{number}?", "kind": "math"}
    grades = tuple(a == gold for a in answers)
    return PoolRecord(f"q{number}", 0, "", task, gold, None, False, candidates, grades, classes)


def simulated(questions: int, accuracy: float, candidates: int = 5) -> list[PoolRecord]:
    source = random.Random(5)
    draw = lambda: "1" if source.random() < accuracy else source.choice("2345")  # noqa: E731
    return [record(n, [draw() for _ in range(candidates)]) for n in range(questions)]


def compared(records: list[PoolRecord], *names: str, script: object = None) -> dict:
    _, lm = engine(script or (lambda call: "no idea"))  # type: ignore[arg-type]
    with dspy.context(lm=lm):
        return {s.name: s for s in compare(records, names, Verifier(), Budget())}


def test_the_oracle_closes_the_whole_gap_and_chance_none_of_it() -> None:
    records = simulated(200, 0.4)
    found = compared(records, "oracle", "first", "majority")
    recall = np.mean([r.recalled for r in records])
    assert found["oracle"].accuracy.value == pytest.approx(recall)
    assert found["oracle"].closure == (1.0, 1.0, 1.0)
    first = found["first"].closure
    assert first is not None and first.low < 0.05 and first.high > -0.05
    majority = found["majority"].closure
    assert majority is not None and 0.2 < majority.value < 1.0
    assert majority.low < majority.value < majority.high


def test_majority_is_the_verifiers_own_and_plurality_another_name_for_it() -> None:
    records = [record(0, ["2", "1", "1"]), record(1, ["2", "1"]), record(2, ["1"])]
    found = compared(records, "majority", "plurality")
    assert found["majority"].accuracy.value == pytest.approx(2 / 3)  # a tie goes to the first vote
    assert found["plurality"].accuracy == found["majority"].accuracy
    assert found["majority"].gain.value == 0.0


def test_a_judge_is_asked_once_a_class_and_only_where_candidates_disagree() -> None:
    def knows(call: ScriptedCall) -> str:
        return "Rating: 9" if "Answer: 1" in call.prompt else "Rating: 2"

    made, lm = engine(knows)
    records = [record(0, ["2", "2", "1"]), record(1, ["1", "1", "1"])]
    with dspy.context(lm=lm):
        (found,) = compare(records, ["judge"], Verifier(), Budget())
    assert found.accuracy.value == 1.0
    assert len(made.calls) == 2
    assert found.tokens and found.gain.value == 0.5


def test_pairwise_judging_runs_on_the_pool() -> None:
    def prefers_one(call: ScriptedCall) -> str:
        return f"Better: {1 if call.prompt.find('Answer: 1') < call.prompt.find('Answer: 2') else 2}"

    assert compared([record(0, ["2", "2", "1"])], "pairwise", script=prefers_one)["pairwise"].accuracy.value == 1.0


def test_judges_cannot_read_private_questions() -> None:
    with pytest.raises(UserError, match="private"):
        compared([record(0, ["2", "1"], private=True)], "judge")
    assert compared([record(0, ["2", "1"], private=True)], "majority")["majority"].accuracy.n == 1


def test_unknown_selectors_and_pools_without_grades_are_refused() -> None:
    with pytest.raises(UserError, match="selector 'best' does not exist; choose one of: majority"):
        compared(simulated(3, 0.5), "best")
    with pytest.raises(UserError, match="no graded candidate"):
        compared([], "majority")


def test_the_help_names_every_selector() -> None:
    (option,) = (p for p in select.params if p.name == "selectors")
    named = str(getattr(option, "help", "")).replace(";", ",").split(", ")
    assert set(SELECTORS) - {"plurality"} <= set(named)  # plurality is another name for majority


def test_gap_closure_is_its_formula_and_none_without_a_gap() -> None:
    selected, chance, found = [1.0, 0.0, 1.0], [0.5, 0.0, 0.5], [1.0, 1.0, 1.0]
    estimate = gap_closure(selected, chance, found)
    assert estimate is not None
    assert estimate.value == pytest.approx((2 / 3 - 1 / 3) / (1 - 1 / 3))
    assert gap_closure([1.0], [1.0], [1.0]) is None


def test_a_question_without_candidates_counts_as_not_chosen_right() -> None:
    found = compared([record(0, ["1", "1"]), record(1, [])], "majority", "oracle")
    assert found["majority"].accuracy.value == found["oracle"].accuracy.value == 0.5


def test_samples_of_one_question_do_not_count_as_many_questions() -> None:
    records = simulated(12, 0.4)
    copies = [replace(r, sample=k) for r in records for k in range(16)]
    once, often = (compared(rows, "majority")["majority"].closure for rows in (records, copies))
    assert once is not None and often is not None
    assert often.value == pytest.approx(once.value)
    assert often.high - often.low == pytest.approx(once.high - once.low, rel=0.2)


def test_a_judge_that_never_answers_is_an_error_and_not_a_result() -> None:
    with pytest.raises(EngineError, match="gave no reply"):
        compared([record(0, ["2", "1"])], "judge", script=lambda call: ServerError("gone"))


def by_paths(number: int, direct: str, code: str) -> PoolRecord:
    """A record whose first candidates are direct ones and whose others are programs."""
    made = record(number, [*direct, *code])
    paths = ["direct"] * len(direct) + ["code"] * len(code)
    return replace(made, candidates=tuple(replace(c, path=p) for c, p in zip(made.candidates, paths, strict=True)))


def test_weighted_votes_are_weighed_as_the_verifier_weighs_them() -> None:
    learned = Learned.parse({"math": votes(1.0, 2.5, 1.0)})
    records = [by_paths(0, "22", "1"), by_paths(1, "111", "2"), by_paths(2, "23", "11")]
    majority, weighted = compare(records, ["majority", "weighted"], Verifier(), Budget(), learned=learned)
    assert (majority.accuracy.value, weighted.accuracy.value) == (pytest.approx(2 / 3), 1.0)
    assert weighted.tokens == 0


def test_weighted_asks_the_judges_that_weigh_something() -> None:
    judge = {"judge": {"accuracy": share(0.9), "chance": share(0.5), "weight": 1.5}}
    learned = Learned.parse({"math": votes(1.0, 1.0, 1.0) | {"judges": judge}})
    made, lm = engine(lambda call: "Rating: 9" if "Answer: 1" in call.prompt else "Rating: 2")
    with dspy.context(lm=lm):
        (found,) = compare([record(0, ["2", "2", "1"])], ["weighted"], Verifier(), Budget(), learned=learned)
    assert (found.accuracy.value, len(made.calls)) == (1.0, 2)


PATH_AND_ANSWER = st.tuples(st.sampled_from(PATHS), st.sampled_from("123"))
WEIGHT = st.sampled_from([0.0, 0.4, 1.0, 2.5])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(PATH_AND_ANSWER, min_size=1, max_size=6), st.tuples(WEIGHT, WEIGHT, WEIGHT), WEIGHT, st.sampled_from("123")
)
def test_weighted_chooses_what_the_verifier_chooses_at_run_time(
    cast: list[tuple[Path, str]], weights: tuple[float, float, float], of_judge: float, liked: str
) -> None:
    judge = {"judge": {"accuracy": share(0.9), "chance": share(0.5), "weight": of_judge}}
    learned = Learned.parse({"math": votes(*weights) | {"judges": judge}})
    _, lm = engine(lambda call: f"Rating: {9 if f'Answer: {liked}' in call.prompt else 2}")
    made = record(0, [answer for _, answer in cast])
    candidates = tuple(replace(c, path=path) for c, (path, _) in zip(made.candidates, cast, strict=True))
    budget = Budget(verifier="weighted")
    with dspy.context(lm=lm):
        with open_question(Task("Q0?"), budget, "plain", learned):
            verdict = Verifier()(candidates)
        for gold in {answer for _, answer in cast}:
            grades = tuple(c.answer == gold for c in candidates)
            graded = replace(made, candidates=candidates, grades=grades)
            if any(weights):
                (selected,) = compare([graded], ["weighted"], Verifier(), budget, learned=learned)
                assert selected.accuracy.value == (verdict.candidate.answer == gold)


def test_judges_are_asked_through_the_adapter_that_is_named() -> None:
    made, lm = engine(lambda call: "Rating: 5")
    with dspy.context(lm=lm):
        for adapter in ("plain", "sections"):
            judgments([record(0, ["2", "1"])], "judge", Verifier(), Budget(), adapter=adapter)
    marked = ["[[ ##" in call.prompt for call in made.calls]
    assert marked == [False, False, True, True]


def test_weighted_without_weights_for_such_questions_is_refused() -> None:
    for learned in (None, Learned(), Learned.parse({"choice": votes(1.0, 2.0, 1.0)})):
        with pytest.raises(UserError, match="selector weighted needs what votes"):
            compare([record(0, ["2", "1"])], ["weighted"], Verifier(), Budget(), learned=learned)


def test_judgments_are_made_where_some_candidates_are_right_and_some_wrong() -> None:
    likes_two = lambda call: "Rating: 9" if "Answer: 2" in call.prompt else "Rating: 2"  # noqa: E731
    _, lm = engine(likes_two)
    records = [
        record(0, ["2", "1"]),
        record(1, ["3", "1", "4"]),  # rated alike
        record(2, ["1", "1"]),
        record(3, ["2", "3"]),
        record(4, []),
        record(5, ["2", "1"], private=True),
    ]
    with dspy.context(lm=lm):
        made = judgments(records, "judge", Verifier(), Budget())
    assert [(j.id, j.right) for j in made] == [("q0", False), ("q1", None)]
    assert [j.chance for j in made] == [pytest.approx(1 / 2), pytest.approx(1 / 3)]


def test_a_judge_that_looks_at_the_place_alone_prefers_nothing() -> None:
    _, lm = engine(lambda call: "Better: 1")
    with dspy.context(lm=lm):
        (made,) = judgments([record(0, ["2", "1"])], "pairwise", Verifier(), Budget())
    assert made.right is None
