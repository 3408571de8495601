"""Algorithm 2."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts import answering, engine

from coda_dspy import AdaptiveCoda, Budget
from coda_dspy.errors import UserError
from coda_dspy.testing import Reply, ScriptedCall


def paper(direct: tuple[str, ...], coda: tuple[str, ...]) -> tuple[str, str]:
    """Algorithm 2 of the paper, steps 1 and 3, written down once more: the answer and whether step 3 ran."""
    top = max(direct, key=direct.count)
    if direct.count(top) > len(direct) / 2:
        return top, "direct"
    votes = direct + coda
    most = max(votes.count(vote) for vote in votes)
    return next(vote for vote in votes if votes.count(vote) == most), "coda"


@pytest.mark.parametrize("early_exit", ["off", "lossless"])
@pytest.mark.parametrize("direct", list(product("12", repeat=2)) + list(product("123", repeat=3)))
@pytest.mark.parametrize("coda", [("1",), ("3", "3"), ("2", "3")])
def test_the_answer_and_the_step_are_the_papers(
    direct: tuple[str, ...], coda: tuple[str, ...], early_exit: str
) -> None:
    made, lm = engine(answering(direct, coda))
    budget = Budget(
        num_attempts_baseline=len(direct),
        num_attempts_coda=len(coda),
        best_of_n=1,
        n_plans=1,
        early_exit=early_exit,
    )
    prediction = AdaptiveCoda(budget, lm=lm)(question="Q?")
    answer, step = paper(direct, coda)
    assert prediction.answer == answer
    if step == "direct":
        assert made.count("reflect") == 0
        assert prediction.path == "direct"
    elif early_exit == "off":
        assert made.count("reflect") == len(coda)
        assert made.count("direct") == len(direct)


answer_lists = st.lists(st.sampled_from([None, "1", "2", "3"]), min_size=1, max_size=5)


@settings(max_examples=40)
@given(answer_lists, answer_lists, st.booleans())
def test_early_exit_gives_the_answer_of_the_full_run_whatever_fails(
    direct: list[str | None], coda: list[str | None], reflection: bool
) -> None:
    def answer(early_exit: str) -> tuple[str | None, int]:
        _, lm = engine(answering(direct, coda), cache=False)
        budget = Budget(
            num_attempts_baseline=len(direct),
            num_attempts_coda=len(coda),
            best_of_n=len(coda),
            n_plans=1,
            use_reflection=reflection,
            early_exit=early_exit,
        )
        prediction = AdaptiveCoda(budget, lm=lm)(question="Q?")
        return prediction.answer, prediction.ledger.calls()

    (early, fewer), (full, calls) = answer("lossless"), answer("off")
    assert early == full
    assert fewer <= calls


def test_a_unanimous_question_passes_through_cheaply() -> None:
    _, lm = engine(answering(["5"]))
    prediction = AdaptiveCoda(Budget(num_attempts_baseline=5), lm=lm)(question="Q?")
    assert prediction.ledger.calls() == 3
    assert prediction.path == "direct"


def test_a_cut_direct_attempt_is_no_vote() -> None:
    _, lm = engine(answering([None, "8", "8"]))
    prediction = AdaptiveCoda(Budget(num_attempts_baseline=3), lm=lm)(question="Q?")
    assert (prediction.answer, prediction.votes) == ("8", {"8": 2})


def test_one_answer_among_failures_is_no_majority() -> None:
    _, lm = engine(answering([None, "8", None], ["9"]))
    prediction = AdaptiveCoda(Budget(num_attempts_baseline=3, early_exit="off"), lm=lm)(question="Q?")
    assert prediction.ledger.calls("reflect") > 0


def test_ties_go_to_the_earlier_first_vote() -> None:
    _, lm = engine(answering(["4", "6"], ["6", "4"]))
    budget = Budget(num_attempts_baseline=2, num_attempts_coda=2, best_of_n=1, early_exit="off")
    assert AdaptiveCoda(budget, lm=lm)(question="Q?").answer == "4"


def test_the_path_is_that_of_the_last_pass_that_voted_for_the_answer() -> None:
    budget = Budget(num_attempts_baseline=3, best_of_n=1, early_exit="off")
    _, lm = engine(answering(["1", "2", "3"], ["2"]))
    assert AdaptiveCoda(budget, lm=lm)(question="Q?").path == "coda"
    _, lm = engine(answering(["1", "2", "3"], ["7"]))
    prediction = AdaptiveCoda(budget, lm=lm)(question="Q?")
    assert (prediction.answer, prediction.path) == ("1", "direct")


def test_several_runs_of_algorithm_1_draw_samples_of_their_own() -> None:
    made, lm = engine(answering(["1", "2", "3"]))
    budget = Budget(num_attempts_baseline=3, num_attempts_coda=3, best_of_n=1, early_exit="off")
    AdaptiveCoda(budget, lm=lm)(question="Q?")
    assert {c.sample.path for c in made.calls if c.stage == "reflect"} == {"coda", "coda-1", "coda-2"}


def test_statistical_stopping_ends_the_direct_attempts_early() -> None:
    _, lm = engine(answering(["5"]))
    budget = Budget(num_attempts_baseline=64, early_exit="beta")
    assert AdaptiveCoda(budget, lm=lm)(question="Q?").ledger.calls() == 4


def test_nothing_to_try_is_refused() -> None:
    with pytest.raises(UserError, match="num_attempts_baseline, num_attempts_coding and num_attempts_coda are all 0"):
        AdaptiveCoda(Budget(num_attempts_baseline=0, num_attempts_coda=0))


def test_without_baseline_attempts_algorithm_1_answers() -> None:
    _, lm = engine(answering(coda=["3"]))
    prediction = AdaptiveCoda(Budget(num_attempts_baseline=0), lm=lm)(question="Q?")
    assert (prediction.answer, prediction.path) == ("3", "coda")
    assert prediction.ledger.calls("direct") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"question": " "}, "question is empty"),
        ({"question": "Q?", "kind": "poem"}, "kind is 'poem'; choose one of: math, choice, text"),
        ({"question": "Q?", "kind": "choice"}, "needs choices"),
        ({"question": "Q?", "kind": "choice", "choices": ["a"]}, "choices holds 1 options"),
        ({"question": "Q?", "choices": ["a", "b"]}, "choices were given, but kind is 'math'"),
    ],
)
def test_a_question_that_does_not_fit_its_kind_is_refused(arguments: dict, message: str) -> None:
    made, lm = engine(answering())
    with pytest.raises(UserError, match=message):
        AdaptiveCoda(lm=lm)(**arguments)
    assert not made.calls


def test_a_choice_is_answered_with_its_letter() -> None:
    made, lm = engine(lambda call: "Rome is wrong. The answer is B) Paris")
    prediction = AdaptiveCoda(lm=lm)(question="Capital of France?", kind="choice", choices=["Rome", "Paris"])
    assert prediction.answer == "B"
    assert "A) Rome\nB) Paris" in made.calls[0].prompt


def test_the_last_resort_is_one_vote_however_many_runs_failed() -> None:
    def script(call: ScriptedCall) -> str | Reply:
        if call.sample.path == "last-resort":
            return "Answer: 9"
        return f"Answer: {call.sample.attempt}" if call.stage == "direct" else Reply.cut("hm")

    _, lm = engine(script)
    budget = Budget(num_attempts_baseline=2, num_attempts_coda=3, best_of_n=1, early_exit="off")
    prediction = AdaptiveCoda(budget, lm=lm)(question="Q?")
    assert prediction.votes == {"0": 1, "1": 1}
    assert prediction.answer == "0"


def test_without_step_3_no_direct_attempt_is_made_that_cannot_matter() -> None:
    _, lm = engine(answering(["1", "1", "2", "3"]))
    budget = Budget(num_attempts_baseline=4, num_attempts_coda=0)
    prediction = AdaptiveCoda(budget, lm=lm)(question="Q?")
    assert (prediction.answer, prediction.ledger.calls()) == ("1", 2)
