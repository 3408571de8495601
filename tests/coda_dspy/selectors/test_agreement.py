"""Agreement across paths, on simulated pools of correlated errors."""

import random

from ballots import cast, chosen
from lessons import votes

from coda_dspy import Budget
from coda_dspy.learned import Learned
from coda_dspy.question import open_question
from coda_dspy.selectors import Ballot, agreement, decide, majority
from coda_dspy.task import Path, Task
from coda_dspy.verifier import answer_classes


def silent(call: object) -> str:
    raise AssertionError("agreement asks nobody")


def learned(corroboration: float | None, direct: float = 1.0, code: float = 1.0) -> Learned:
    found = votes(direct, code, 1.0)
    if corroboration is not None:
        found["corroboration"] = {"value": corroboration, "low": 0.0, "high": 9.0, "n": 40}
    return Learned.parse({"math": found})


def test_an_answer_of_both_paths_beats_one_that_one_path_repeats() -> None:
    ballot = [*cast("111"), *cast("22"), *cast("2", "code")]
    assert chosen("majority", ballot, silent).answer == "1"
    assert chosen("agreement", ballot, silent).answer == "2"


def test_without_lessons_agreement_is_worth_one_vote_more() -> None:
    assert chosen("agreement", [*cast("1111"), *cast("2"), *cast("2", "code")], silent).answer == "1"


def test_learned_weights_of_paths_and_of_their_agreement_count() -> None:
    ballot = [*cast("1111"), *cast("2"), *cast("2", "code")]
    assert chosen("agreement", ballot, silent, learned(2.5)).answer == "2"
    assert chosen("agreement", ballot, silent, learned(0.0)).answer == "1"
    assert chosen("agreement", ballot, silent, learned(0.0, code=3.5)).answer == "2"


def test_weighted_adds_agreement_only_where_it_was_learned() -> None:
    ballot = [*cast("111"), *cast("2"), *cast("2", "code")]
    assert chosen("weighted", ballot, silent, learned(None)).answer == "1"
    assert chosen("weighted", ballot, silent, learned(1.5)).answer == "2"


def correlated(source: random.Random, repeats: float) -> list[tuple[Path, str]]:
    """Votes of two paths; one that errs repeats its path's own mistake, or makes any other."""
    found: list[tuple[Path, str]] = []
    for path, number, mistake in (("direct", 5, "2"), ("code", 2, "3")):
        for _ in range(number):
            wrong = mistake if source.random() < repeats else source.choice("456789")
            found.append((path, "1" if source.random() < 0.4 else wrong))  # type: ignore[arg-type]
    return found


def rate(repeats: float) -> tuple[float, float]:
    """How often majority and agreement are right; 1 is."""
    source, right = random.Random(3), [0, 0]
    with open_question(Task("Q?"), Budget(verifier="agreement"), None):
        for _ in range(400):
            said = correlated(source, repeats)
            candidates = [cast(answer, path)[0] for path, answer in said]
            ballot = Ballot(candidates, answer_classes(candidates))
            for i, selector in enumerate((majority, agreement)):
                right[i] += decide(ballot, selector(ballot)).candidate.answer == "1"
    return right[0] / 400, right[1] / 400


def test_where_paths_repeat_their_mistakes_agreement_is_right_more_often_than_the_vote() -> None:
    vote, agreeing = rate(repeats=1.0)
    assert agreeing > vote + 0.05


def test_where_votes_are_independent_agreement_loses_nothing_to_the_vote() -> None:
    vote, agreeing = rate(repeats=0.0)
    assert agreeing > vote - 0.02
