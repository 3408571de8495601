"""What was learned: what may stand in a file, how a program carries it, and what it changes at run time."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import dspy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lessons import answers, share, votes
from scripts import answering, engine

from coda_dspy import AdaptiveCoda, Budget, Coda
from coda_dspy.algorithms import with_algorithm
from coda_dspy.errors import UserError
from coda_dspy.learned import AnswerCounts, Learned
from coda_dspy.profile import Profile
from coda_dspy.testing import ScriptedCall
from coda_dspy.voting import AnswerClass, classify, plurality

EVERYTHING: dict[str, Any] = {
    "math": {
        **answers((0.1, 0.75), (5.0, 0.25)),
        **votes(0.5, 2.25, 1.0),
        "alternatives": {"value": 4.0, "low": 2.0, "high": 8.0, "n": 12},
        "judges": {"pairwise": {"accuracy": share(0.8), "chance": share(0.5), "weight": 1.386}},
        "first_path": "code",
        "agreement": share(0.4),
    },
    "choice": answers((1.0, 1.0)),
}


def equal(a: str, b: str) -> bool:
    return a == b


# -- what may stand in a file ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "value", "named"),
    [
        (("sums",), {}, "learned.sums"),
        (("math", "first_path"), "coda", "learned.math.first_path"),
        (("math", "colour"), 1, "learned.math.colour"),
        (("math", "votes", "direct", "weight"), -1.0, "learned.math.votes.direct.weight"),
        (("math", "votes", "direct", "weight"), math.inf, "learned.math.votes.direct.weight"),
        (("math", "votes", "direct", "weight"), "2", "learned.math.votes.direct.weight"),
        (("math", "votes"), {"direct": {"accuracy": share(0.5), "weight": 1.0}}, "votes.code is missing"),
        (("math", "agreement", "value"), math.nan, "learned.math.agreement.value"),
        (("math", "agreement", "low"), 0.9, "lies outside its interval"),
        (("math", "agreement", "n"), -1, "learned.math.agreement.n"),
        (("math", "judges", "oracle"), {}, "learned.math.judges.oracle"),
        (("math", "answers", "concentrations"), [], "learned.math.answers.concentrations"),
        (("math", "answers", "concentrations"), [{"alpha": 0.1, "share": 0.5}], "they have to add up to 1"),
        (("math", "answers", "concentrations"), [{"alpha": 0.0, "share": 1.0}], "concentrations.0.alpha"),
    ],
)
def test_nonsense_is_refused_and_named(where: tuple[str, ...], value: Any, named: str) -> None:
    content = copy.deepcopy(EVERYTHING)
    place = content
    for name in where[:-1]:
        place = place[name]
    place[where[-1]] = value
    with pytest.raises(UserError, match=named.replace(".", r"\.")):
        Learned.parse(content)


# -- how a program carries it ----------------------------------------------------------------------------------------


def test_a_saved_program_has_what_it_learned_and_saves_the_same_bytes(tmp_path: Path) -> None:
    program = AdaptiveCoda(learned=Learned.parse(EVERYTHING))
    program.save(tmp_path / "a.json")
    loaded = AdaptiveCoda()
    loaded.load(tmp_path / "a.json")
    loaded.save(tmp_path / "b.json")
    assert loaded.learned == program.learned
    assert loaded.coda.learned is loaded.learned
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_copies_keep_what_was_learned_and_share_it_with_algorithm_1() -> None:
    program = AdaptiveCoda(learned=Learned.parse(EVERYTHING))
    for made in (program.deepcopy(), program.reset_copy(), copy.deepcopy(program)):
        assert made.learned == program.learned
        assert made.coda.learned is made.learned
        assert with_algorithm(made, "coda").learned == program.learned


def test_a_state_without_lessons_loads_and_forgets_them() -> None:
    state = AdaptiveCoda().dump_state()
    assert "learned" not in state
    program = AdaptiveCoda(learned=Learned.parse(EVERYTHING))
    program.load_state(state)
    assert program.learned == Learned()


def test_a_bad_state_changes_nothing() -> None:
    learned = Learned.parse(EVERYTHING)
    with pytest.raises(UserError, match=r"learned\.math\.first_path"):
        learned.load_state({"math": {"first_path": "sideways"}})
    assert learned == Learned.parse(EVERYTHING)


def test_a_profile_keeps_what_was_learned_to_the_byte(tmp_path: Path) -> None:
    profile = Profile.of(AdaptiveCoda(learned=Learned.parse(EVERYTHING)), "local/x")
    profile.save(tmp_path / "a.json")
    Profile.of(Profile.read(tmp_path / "a.json").adaptive(), "local/x").save(tmp_path / "b.json")
    assert json.loads((tmp_path / "a.json").read_text())["learned"]["math"]["votes"]["code"]["weight"] == 2.25
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_a_profile_with_nonsense_in_it_is_refused(tmp_path: Path) -> None:
    Profile.of(AdaptiveCoda(learned=Learned.parse(EVERYTHING)), "local/x").save(tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    content["learned"]["math"]["votes"]["code"]["weight"] = 1e9
    with pytest.raises(UserError, match=r"learned\.math\.votes\.code\.weight"):
        Profile.parse(content)


# -- the answer-count model ------------------------------------------------------------------------------------------


def by_enumeration(cast: list[str], remaining: int, alpha: float, weight: int) -> float:
    """The same probability, by every way in which the remaining votes may fall."""
    leader = plurality(classify(cast, equal, [1] * len(cast)))

    def wins(so_far: list[str], left: int) -> float:
        if not left:
            final = plurality(classify(so_far, equal, [1] * len(cast) + [weight] * remaining))
            return float(leader is not None and final is not None and final.answer == leader.answer)
        total = alpha + len(so_far)
        new = alpha / total * wins([*so_far, f"new {len(so_far)}"], left - 1)
        known = [so_far.count(a) / total * wins([*so_far, a], left - 1) for a in dict.fromkeys(so_far)]
        return new + sum(known)

    return wins(cast, remaining)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=5),
    st.integers(0, 4),
    st.sampled_from([0.05, 0.7, 3.0, 40.0]),
    st.integers(0, 3),
)
def test_the_leader_wins_as_often_as_every_way_of_voting_says(
    cast: list[str], remaining: int, alpha: float, weight: int
) -> None:
    model = AnswerCounts.model_validate(answers((alpha, 1.0))["answers"])
    found = model.leader_wins(classify(cast, equal), remaining, weight, weight)
    assert found == pytest.approx(by_enumeration(cast, remaining, alpha, weight), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=6), st.integers(0, 5), st.integers(0, 3), st.integers(0, 3)
)
def test_unequal_weights_to_come_make_the_leader_less_sure(cast: list[str], remaining: int, a: int, b: int) -> None:
    model = AnswerCounts.model_validate(answers((0.5, 0.5), (4.0, 0.5))["answers"])
    classes, least, most = classify(cast, equal), min(a, b), max(a, b)
    bound = model.leader_wins(classes, remaining, least, most)
    assert all(bound <= model.leader_wins(classes, remaining, w, w) + 1e-9 for w in (least, most))


def test_many_votes_are_looked_at_without_overflow() -> None:
    model = AnswerCounts.model_validate(answers((0.02, 0.5), (100.0, 0.5))["answers"])
    classes = [AnswerClass("a", tuple(range(300)), 300), AnswerClass("b", tuple(range(300, 500)), 200)]
    assert 0.9 < model.leader_wins(classes, 128) <= 1.0 + 1e-9


# -- at run time -----------------------------------------------------------------------------------------------------

REPEATS = Learned.parse({"math": answers((0.02, 1.0))})
SCATTERS = Learned.parse({"math": answers((50.0, 1.0))})
EIGHT = Budget(num_attempts_baseline=8, num_attempts_coda=0)


def calls(learned: Learned | None, early_exit: str, *direct: str) -> int:
    made, lm = engine(answering(direct))
    AdaptiveCoda(EIGHT.replace(early_exit=early_exit), lm=lm, learned=learned)(question="Q?")
    return made.count("direct")


def test_an_engine_that_repeats_itself_is_asked_less_often_than_beta_asks() -> None:
    assert calls(REPEATS, "learned", "1") == 1
    assert calls(None, "beta", "1") == 4


def test_without_a_model_learned_is_beta() -> None:
    of_another_kind = Learned.parse({"choice": answers((0.02, 1.0))})
    for direct in (("1",), ("1", "2"), ("1", "1", "2")):
        assert calls(None, "learned", *direct) == calls(of_another_kind, "learned", *direct)
        assert calls(None, "learned", *direct) == calls(None, "beta", *direct)


def test_an_engine_that_seldom_repeats_itself_is_asked_on() -> None:
    assert calls(SCATTERS, "learned", *"12345678") == 8


def test_algorithm_1_stops_by_the_model_too() -> None:
    made, lm = engine(answering(coda=("1",)))
    Coda(Budget(best_of_n=8, early_exit="learned"), lm=lm, learned=REPEATS)(question="Q?")
    assert made.count("reflect") == 1


def coded(call: ScriptedCall) -> str:
    return "```python\nprint(7)\n```" if call.stage == "code" else "Answer: 1"


@pytest.mark.parametrize(
    ("first_path", "lessons", "first"),
    [
        ("learned", {"math": {"first_path": "code"}}, "code"),
        ("learned", {"choice": {"first_path": "code"}}, "direct"),
        ("direct", {"math": {"first_path": "code"}}, "direct"),
    ],
)
def test_the_learned_path_comes_first(first_path: str, lessons: dict[str, Any], first: str) -> None:
    _, lm = engine(coded)
    budget = Budget(num_attempts_baseline=1, num_attempts_coding=1, num_attempts_coda=0, first_path=first_path)
    assert AdaptiveCoda(budget, lm=lm, learned=Learned.parse(lessons))(question="Q?").path == first


def weighted(direct: list[str | None], coda: list[str | None], weights: tuple[int, int]) -> str | None:
    """Algorithm 2 with weights, written down once more."""
    w_direct, w_coda = weights if any(weights) else (1, 1)

    def best(cast: list[tuple[str | None, int]]) -> tuple[int, int, int, str | None]:
        present = dict.fromkeys(a for a, _ in cast if a is not None)
        told = [a for a, _ in cast]
        return max(
            ((sum(w for b, w in cast if b == a), told.count(a), -told.index(a), a) for a in present),
            default=(0, 0, 0, None),
        )

    s = [(a, w_direct) for a in direct]
    top = best(s)
    if 2 * top[0] > w_direct * len(direct):
        return top[3]
    return best(s + [(a, w_coda) for a in coda])[3]


answer_lists = st.lists(st.sampled_from([None, "1", "2", "3"]), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(answer_lists, answer_lists, st.tuples(st.sampled_from([0, 1, 2, 3]), st.sampled_from([0, 1, 2, 5])))
def test_weighted_votes_give_the_answer_of_the_full_run(
    direct: list[str | None], coda: list[str | None], weights: tuple[int, int]
) -> None:
    def answer(early_exit: str) -> str | None:
        _, lm = engine(answering(direct, coda), cache=False)
        budget = Budget(
            num_attempts_baseline=len(direct),
            num_attempts_coda=len(coda),
            best_of_n=1,
            n_plans=1,
            max_plan_tries=1,
            verifier="weighted",
            early_exit=early_exit,
        )
        learned = Learned.parse({"math": votes(float(weights[0]), 0.0, float(weights[1]))})
        found: str | None = AdaptiveCoda(budget, lm=lm, learned=learned)(question="Q?").answer
        return found

    expected = weighted(direct, coda, weights)
    if expected is not None:  # else a last resort is asked
        assert answer("off") == expected
        assert answer("lossless") == expected


def test_without_weights_weighted_is_the_majority() -> None:
    for learned in (None, Learned.parse({"math": votes(0.0, 0.0, 0.0)}), Learned.parse({"choice": votes(1, 9, 9)})):
        made, lm = engine(answering(("1", "1", "2"), ("2",)))
        budget = Budget(num_attempts_baseline=3, verifier="weighted")
        assert AdaptiveCoda(budget, lm=lm, learned=learned)(question="Q?").answer == "1"
        assert made.count("reflect") == 0


def judged(weight: float) -> tuple[str | None, int]:
    """The answer of Algorithm 1 whose attempts say 1, 1 and 2, and how often the judge, who likes 2, was asked."""

    def script(call: ScriptedCall) -> str:
        if call.stage == "judge":
            return "Rating: 9" if "Answer: 2" in call.prompt else "Rating: 1"
        return str(answering(coda=("1", "1", "2"))(call))

    made, lm = engine(script)
    lessons = votes(1.0, 1.0, 1.0) | {
        "judges": {"judge": {"accuracy": share(0.9), "chance": share(0.5), "weight": weight}}
    }
    program = Coda(Budget(best_of_n=3, verifier="weighted"), lm=lm, learned=Learned.parse({"math": lessons}))
    with dspy.context(lm=lm):
        return program(question="Q?").answer, made.count("judge")


def test_a_judge_that_weighs_more_than_the_votes_decides() -> None:
    assert judged(1.5)[0] == "2"
    assert judged(0.5)[0] == "1"


def test_a_judge_without_weight_is_not_asked() -> None:
    assert judged(0.0) == ("1", 0)
