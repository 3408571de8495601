from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coda_dspy.voting import (
    AnswerClass,
    beta_confidence,
    beta_is_sure,
    classify,
    next_wave,
    plurality,
    plurality_is_settled,
    strict_majority,
)

votes = st.lists(st.one_of(st.none(), st.sampled_from("abcd")), max_size=12)
# Equality that is neither transitive nor even symmetric: early exit must not rely on either.
relations = st.sets(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")))


def equal(a: str, b: str) -> bool:
    return a == b


def in_waves(
    answers: list[str | None], same: Callable[[str, str], bool], rule: Callable[..., bool]
) -> tuple[AnswerClass | None, int]:
    """The winner of a vote in waves, and how many votes were launched."""
    launched = 0
    while True:
        classes = classify(answers[:launched], same)
        wave = next_wave(classes, len(answers) - launched, rule)
        if wave == 0:
            return plurality(classes), launched
        launched += wave


@given(votes, relations)
def test_early_exit_gives_the_answer_of_the_full_run(answers: list[str | None], related: set[tuple[str, str]]) -> None:
    def same(a: str, b: str) -> bool:
        return a == b or (a, b) in related

    early, _ = in_waves(answers, same, plurality_is_settled)
    full = plurality(classify(answers, same))
    assert (early and early.answer) == (full and full.answer)


@given(votes, votes, relations, st.integers(0, 3), st.integers(0, 3))
def test_early_exit_gives_the_answer_of_the_full_run_also_where_votes_weigh_differently(
    before: list[str | None], answers: list[str | None], related: set[tuple[str, str]], first: int, then: int
) -> None:
    def classes(launched: int) -> list[AnswerClass]:
        cast = [*before, *answers[:launched]]
        weights = [first] * len(before) + [then] * launched
        return classify(cast, lambda a, b: a == b or (a, b) in related, weights)

    def rule(classes: Sequence[AnswerClass], remaining: int) -> bool:
        return plurality_is_settled(classes, remaining, then)

    launched = 0
    while wave := next_wave(classes(launched), len(answers) - launched, rule, weight=then):
        launched += wave
    early, full = plurality(classes(launched)), plurality(classes(len(answers)))
    assert (early and early.answer) == (full and full.answer)


@given(st.integers(1, 30))
def test_agreeing_votes_are_launched_only_up_to_the_majority(number: int) -> None:
    _, launched = in_waves(["a"] * number, equal, plurality_is_settled)
    assert launched == (number + 1) // 2


@given(votes)
def test_no_vote_is_counted_for_a_missing_answer(answers: list[str | None]) -> None:
    classes = classify(answers, equal)
    assert sum(c.votes for c in classes) == sum(a is not None for a in answers)
    assert all(answers[m] == c.answer for c in classes for m in c.members)


@given(votes)
def test_the_plurality_has_most_votes_and_the_earliest_first_vote_among_equals(answers: list[str | None]) -> None:
    classes = classify(answers, equal)
    leader = plurality(classes)
    assert (leader is None) == (not classes)
    for other in classes:
        assert leader is not None
        assert (leader.votes, -leader.members[0]) >= (other.votes, -other.members[0])


@given(votes)
def test_a_strict_majority_holds_more_than_half_of_all_attempts(answers: list[str | None]) -> None:
    leader = strict_majority(classify(answers, equal), len(answers))
    counts = [answers.count(letter) for letter in "abcd"]
    assert (leader is not None) == (2 * max(counts) > len(answers))


@pytest.mark.parametrize(
    ("answers", "winner"),
    [(["12", "13", "13"], "13"), (["a", "b"], "a"), ([None, "b", "a", "a", "b"], "b"), ([None, None], None)],
)
def test_plurality(answers: list[str | None], winner: str | None) -> None:
    leader = plurality(classify(answers, equal))
    assert (leader and leader.answer) == winner


def test_failed_attempts_keep_a_lone_answer_from_being_a_majority() -> None:
    assert strict_majority(classify(["a", None, None], equal), 3) is None


@given(votes, st.data())
def test_a_settled_vote_stays_settled_whatever_comes(answers: list[str | None], data: st.DataObject) -> None:
    remaining = data.draw(st.integers(0, 4))
    classes = classify(answers, equal)
    if not classes or not plurality_is_settled(classes, remaining):
        return
    rest = data.draw(st.lists(st.one_of(st.none(), st.sampled_from("abcdx")), max_size=remaining))
    before, after = plurality(classes), plurality(classify([*answers, *rest], equal))
    assert before is not None and after is not None
    assert before.answer == after.answer


def test_the_beta_posterior_is_the_known_one() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    for leader, runner_up in [(1, 0), (4, 0), (3, 2), (10, 7)]:
        expected = scipy_stats.beta(leader + 1, runner_up + 1).sf(0.5)
        assert beta_confidence(leader, runner_up) == pytest.approx(expected)


def test_the_beta_rule_stops_after_four_agreeing_answers() -> None:
    assert not beta_is_sure(classify(["a"] * 3, equal))
    assert beta_is_sure(classify(["a"] * 4, equal))


@given(votes)
def test_several_votes_an_attempt_never_lose_the_full_runs_answer(answers: list[str | None]) -> None:
    pairs = [answers[i : i + 2] for i in range(0, len(answers), 2)]
    launched = 0
    while True:
        cast = [vote for pair in pairs[:launched] for vote in pair]
        wave = next_wave(classify(cast, equal), len(pairs) - launched, plurality_is_settled, votes_each=2)
        if wave == 0:
            break
        launched += wave
    early, full = plurality(classify(cast, equal)), plurality(classify(answers, equal))
    assert (early and early.answer) == (full and full.answer)
