"""Classes and their representatives, and where a vote is open."""

import pytest
from ballots import WORKED, cast
from hypothesis import given
from hypothesis import strategies as st

from coda_dspy.candidate import Candidate
from coda_dspy.selectors import Ballot
from coda_dspy.selectors.contenders import MOST, contenders
from coda_dspy.task import Path
from coda_dspy.voting import beta_is_sure, classify

LONG = "I start over and over, and write down every step that I take, twice and once more. " * 3 + "\nAnswer: 4"
CLEAR = "Two and two are added, which is done in one step here.\nAnswer: 4"
ENDLESS = "Two and two are added, which makes 4 and then I go on to"
BARE = "Answer: 4"


def of_one_class(*candidates: Candidate) -> Ballot:
    return Ballot(candidates, classify([c.answer for c in candidates], str.__eq__))


def ballot(candidates: list[Candidate]) -> Ballot:
    return of_one_class(*candidates)


@pytest.mark.parametrize("texts", [(LONG, CLEAR, BARE, ENDLESS), (ENDLESS, BARE, LONG, CLEAR)])
def test_the_shortest_text_that_declares_its_answer_and_shows_its_working_stands_for_a_class(
    texts: tuple[str, ...],
) -> None:
    candidates = [Candidate("4", text, "direct", i, 1) for i, text in enumerate(texts)]
    assert of_one_class(*candidates).representative(0).text == CLEAR
    assert of_one_class(*(c for c in candidates if c.text != CLEAR)).representative(0).text == LONG
    assert of_one_class(*(c for c in candidates if c.text in (BARE, ENDLESS))).representative(0).text == BARE


def test_a_program_that_passes_stands_for_its_class_before_a_shorter_one_that_fails() -> None:
    fails, passes = Candidate("p", CLEAR, "coda", 0, 1, trusted=False), Candidate("p", LONG, "coda", 1, 1)
    assert of_one_class(fails, passes).representative(0) is passes


def test_of_equally_clear_texts_the_earliest_stands_for_the_class() -> None:
    first, second = cast("44")
    assert of_one_class(first, second).representative(0) is first


@pytest.mark.parametrize(
    ("direct", "code", "open_places"),
    [
        ("1111", "", []),
        ("11112", "", [0, 1]),  # 4 to 1: 89 %
        ("1111112", "", []),  # 6 to 1: 96 %
        ("12345", "", [0, 1, 2]),
        ("21122", "", [0, 1]),
        ("12", "1", []),  # in words and by program, and most of the votes
        ("122", "1", [0, 1]),
        ("12", "2", []),
    ],
)
def test_a_vote_is_open_between_the_leaders_unless_it_is_settled(
    direct: str, code: str, open_places: list[int]
) -> None:
    assert sorted(contenders(ballot([*cast(direct), *cast(code, "code")]))) == open_places


PATHS_CAST = st.lists(st.tuples(st.sampled_from(["direct", "code", "coda"]), st.sampled_from("1234")), min_size=1)


@given(PATHS_CAST)
def test_the_leader_comes_first_and_a_sure_vote_is_never_open(votes: list[tuple[Path, str]]) -> None:
    made = ballot([Candidate(a, WORKED.format(a), path, i, 1) for i, (path, a) in enumerate(votes)])
    places = contenders(made)
    assert len(places) <= MOST and len(places) != 1
    if places:
        assert made.classes[places[0]].votes == max(c.votes for c in made.classes)
        assert not beta_is_sure(made.classes)
