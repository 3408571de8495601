"""Accuracies that are estimated without gold answers, on opinions whose truth is known."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

import dspy
import pytest
from scripts import engine

from coda_dspy import Budget
from coda_dspy.candidate import Candidate
from coda_dspy.evaluation import PoolRecord
from coda_dspy.evaluation.selecting import compare, without_gold
from coda_dspy.evaluation.unlabelled import Opinion, accuracies, estimated
from coda_dspy.task import PATHS, Path
from coda_dspy.testing import ScriptedCall
from coda_dspy.verifier import Verifier
from coda_dspy.voting import classify

ANSWERS = "1234"


def draw(source: random.Random, accuracy: float) -> str:
    return "1" if source.random() < accuracy else source.choice("234")


def test_accuracies_are_found_within_their_intervals() -> None:
    truth = {"direct": 0.8, "code": 0.6, "judge": 0.7, "pairwise": 0.25}
    within = 0
    for seed in range(10):
        source = random.Random(seed)
        said = [[Opinion(name, int(draw(source, p)) - 1) for name, p in truth.items()] for _ in range(400)]
        found = accuracies(said, len(ANSWERS))
        within += sum(found[name].low - 0.03 <= p <= found[name].high + 0.03 for name, p in truth.items())
    assert within >= 36  # of 40; the interval is that of a share, and what is right is a guess as well


def record(number: int, votes: list[tuple[Path, str]]) -> PoolRecord:
    candidates = tuple(Candidate(a, f"So.\nAnswer: {a}", path, i, 10) for i, (path, a) in enumerate(votes))
    classes = tuple(c.members for c in classify([a for _, a in votes], str.__eq__))
    task = {"question": f"Q{number}?", "kind": "math"}
    grades = tuple(a == "1" for _, a in votes)
    return PoolRecord(f"q{number}", 0, "", task, "1", None, False, candidates, grades, classes)


def pool(seed: int, truth: Mapping[Path, float], questions: int) -> list[PoolRecord]:
    source = random.Random(seed)
    return [record(n, [(p, draw(source, truth[p])) for p in PATHS for _ in range(2)]) for n in range(questions)]


TRUTH: dict[Path, float] = {"direct": 0.35, "code": 0.7, "coda": 0.5}


def test_the_better_path_weighs_more_and_grades_are_not_looked_at() -> None:
    records = pool(0, TRUTH, 200)
    blind = [replace(r, grades=tuple(None for _ in r.grades), gold=None) for r in records]
    found = estimated(records, {}).of("math")
    assert found.votes["code"].weight > found.votes["coda"].weight > found.votes["direct"].weight
    assert estimated(blind, {}) == estimated(records, {})


def rating(accuracy: float | None) -> Callable[[ScriptedCall], str]:
    """A judge whose ratings prefer the right answer so often; without an accuracy it has no opinion."""
    source, liked = random.Random(1), dict[str, str]()

    def script(call: ScriptedCall) -> str:
        if "Rating" not in call.prompt or accuracy is None:
            return "no idea"
        question = call.prompt.split("?")[0]
        if question not in liked:
            liked[question] = draw(source, accuracy)
        return f"Rating: {9 if f'Answer: {liked[question]}' in call.prompt else 2}"

    return script


@pytest.mark.parametrize("accuracy", [None, 0.25])
def test_with_useless_judges_it_is_no_worse_than_the_vote(accuracy: float | None) -> None:
    _, lm = engine(rating(accuracy))
    records = pool(2, TRUTH, 25)
    with dspy.context(lm=lm):
        learned = without_gold(records, Verifier(), Budget(), workers=1)
        (found,) = compare(records, ["weighted"], Verifier(), Budget(), workers=1, learned=learned)
    assert found.gain.value >= -0.05
    assert all(judging.weight < 1 for judging in learned.of("math").judges.values())


def test_a_good_judge_is_found_and_helps() -> None:
    _, lm = engine(rating(0.95))
    with dspy.context(lm=lm):
        (found,) = compare(pool(2, TRUTH, 25), ["unlabelled"], Verifier(), Budget(), workers=1)
    assert found.gain.value > 0.05
