"""What agreement across paths weighs, on pools whose truth is known."""

import random
from math import exp
from statistics import fmean

import pytest

from coda_dspy.candidate import Candidate
from coda_dspy.evaluation import PoolRecord
from coda_dspy.learned import CORROBORATION, Measured
from coda_dspy.task import Path
from coda_dspy.voting import classify
from optimizers.corroboration import corroboration

Votes = list[tuple[Path, str]]


def record(number: int, votes: Votes, gold: str) -> PoolRecord:
    candidates = tuple(Candidate(answer, "", path, i, 10) for i, (path, answer) in enumerate(votes))
    classes = tuple(c.members for c in classify([answer for _, answer in votes], str.__eq__))
    grades = tuple(answer == gold for _, answer in votes)
    return PoolRecord(f"q{number}", 0, "", {}, gold, None, False, candidates, grades, classes)


def both(votes: Votes, answer: str) -> bool:
    return {path for path, said in votes if said == answer} == {"direct", "code"}


def by_the_law(source: random.Random, b: float, questions: int) -> list[PoolRecord]:
    """Any votes, and a right answer that is drawn among them with odds exp(votes + b where both paths agree)."""
    made = []
    for number in range(questions):
        votes: Votes = [(path, source.choice("1234")) for path in ("direct", "direct", "code", "code")]  # type: ignore[misc]
        answers = sorted({answer for _, answer in votes})
        odds = [exp(sum(a == answer for _, a in votes) + b * both(votes, answer)) for answer in answers]
        made.append(record(number, votes, source.choices(answers, odds)[0]))
    return made


@pytest.mark.parametrize("b", [0.5, 2.0])
def test_the_weight_is_found_within_its_interval(b: float) -> None:
    found = [corroboration(by_the_law(random.Random(seed), b, 400), lambda path: 1.0) for seed in range(20)]
    assert sum(one is not None and one.low <= b <= one.high for one in found) >= 17
    assert fmean(one.value for one in found if one is not None) == pytest.approx(b, abs=0.3)


def test_few_questions_change_little() -> None:
    few = corroboration([record(0, [("direct", "1"), ("code", "1"), ("direct", "2")], "2")], lambda path: 1.0)
    assert few is not None and few.n == 1
    assert CORROBORATION - 1 < few.value < CORROBORATION


def test_an_agreement_that_is_never_right_weighs_nothing_and_never_less() -> None:
    misled = [record(n, [("direct", "1"), ("code", "1"), ("direct", "2")], "2") for n in range(200)]
    assert corroboration(misled, lambda path: 1.0) == Measured(value=0.0, low=0.0, high=0.0, n=200)


def test_where_no_paths_meet_nothing_is_told() -> None:
    assert corroboration([record(0, [("direct", "1"), ("direct", "2")], "1")], lambda path: 1.0) is None
    assert corroboration([record(0, [("direct", "1"), ("code", "1")], "1")], lambda path: 1.0) is None
