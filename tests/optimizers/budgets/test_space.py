import pytest
from hypothesis import given
from hypothesis import strategies as st

from coda_dspy import Budget
from coda_dspy.budget import BY_STAGE, EARLY_EXITS, FIELDS, FIRST_PATHS, VERIFIERS
from coda_dspy.errors import UserError
from coda_dspy.optimizers import Space
from coda_dspy.optimizers.budgets import PAPER, budget_at, canonical, point_name
from coda_dspy.optimizers.plan import WIDE
from coda_dspy.optimizers.prompts.counting import most_calls_at

SPACE = Space({"num_attempts_baseline": (0, 1, 3), "num_attempts_coda": (0, 1), "best_of_n": (1, 2), "n_plans": (1, 2)})
POINTS = SPACE.points(Budget()) or []

wide_points = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in WIDE.values.items()})


def test_the_space_holds_each_budget_once_and_none_that_tries_nothing() -> None:
    names = [point_name(p) for p in POINTS]
    assert len(set(names)) == len(names) == 1 + (1 + 4) + 4
    assert names[0] == "baseline1"
    assert "baseline0-coda0" not in names


def test_budgets_with_few_calls_come_first() -> None:
    calls = [most_calls_at(budget_at(Budget(), point)) for point in POINTS]
    assert calls == sorted(calls)


@pytest.mark.parametrize("point", POINTS, ids=point_name)
def test_every_point_is_a_valid_budget(point: dict[str, int]) -> None:
    budget = budget_at(Budget(), point)
    assert budget.num_attempts_baseline == point["num_attempts_baseline"]
    assert bool(budget.num_attempts_coda) == bool(point.get("num_attempts_coda"))


def test_what_a_budget_never_uses_does_not_tell_two_points_apart() -> None:
    one = {"num_attempts_baseline": 3, "num_attempts_coda": 0, "best_of_n": 1, "verifier": "judge"}
    other = {"num_attempts_baseline": 3, "num_attempts_coda": 0, "best_of_n": 3, "verifier": "majority"}
    assert canonical(one, Budget()) == canonical(other, Budget())


def test_a_judge_of_a_single_candidate_is_no_other_budget() -> None:
    point = {"num_attempts_coda": 1, "best_of_n": 1, "verifier": "judge"}
    assert "verifier" not in canonical(point, Budget())
    assert "verifier" in canonical({**point, "best_of_n": 2}, Budget())
    assert "verifier" in canonical({**point, "use_reflection": False, "n_plans": 2}, Budget())


def test_weights_count_in_votes_without_step_3_too() -> None:
    point = {"num_attempts_baseline": 3, "num_attempts_coda": 0, "verifier": "weighted"}
    assert canonical(point, Budget()) == point


def test_every_verifier_can_be_searched() -> None:
    points = Space({"best_of_n": (2,), "verifier": VERIFIERS}).points(Budget()) or []
    assert {point["verifier"] for point in points} == set(VERIFIERS)


def test_an_effort_of_a_stage_that_nobody_is_asked_at_is_left_out() -> None:
    point = {"num_attempts_baseline": 3, "num_attempts_coda": 0, "reasoning_effort.plan": "high"}
    assert "reasoning_effort.plan" not in canonical(point, Budget())
    assert budget_at(Budget(), {**point, "num_attempts_coda": 1}).efforts("plan") == ["high", "medium", "low"]
    assert budget_at(Budget(), {**point, "num_attempts_coda": 1}).efforts("direct") == [None]


def test_a_single_direct_attempt_decides_alone_and_is_asked_greedily() -> None:
    point = canonical({"num_attempts_baseline": 1, "num_attempts_coda": 1, "n_plans": 2}, Budget())
    assert point == {"num_attempts_baseline": 1}
    budget = budget_at(Budget(), point)
    assert budget.temperature["direct"] == 0.0
    assert budget.num_attempts_coda == 0


def test_a_single_direct_attempt_behind_programs_does_not_decide_alone() -> None:
    base = Budget(first_path="code", num_attempts_coding=3)
    assert canonical({"num_attempts_baseline": 1, "num_attempts_coda": 1}, base) != {"num_attempts_baseline": 1}


BASES = st.builds(
    Budget,
    num_attempts_baseline=st.integers(1, 3),
    num_attempts_coding=st.integers(1, 3),
    num_attempts_coda=st.integers(0, 1),
    first_path=st.sampled_from(FIRST_PATHS),
    stop_on_agreement=st.booleans(),
    plan_paths=st.booleans(),
    early_exit=st.sampled_from(EARLY_EXITS),
)


@given(BASES)
def test_the_engine_alone_is_one_greedy_direct_answer_whatever_the_base(base: Budget) -> None:
    point, _ = SPACE.plain(base)
    assert canonical(point, base) == point
    budget = budget_at(base, point)
    assert (budget.num_attempts_baseline, budget.num_attempts_coding, budget.num_attempts_coda) == (1, 0, 0)
    assert (budget.first_path, budget.stop_on_agreement, budget.temperature["direct"]) == ("direct", False, 0.0)
    assert len(point_name(point)) <= len("baseline1-coding0")


@given(BASES)
def test_the_vote_alone_asks_directly_as_often_as_the_space_allows(base: Budget) -> None:
    _, point = SPACE.plain(base)
    budget = budget_at(base, point)
    assert (budget.num_attempts_baseline, budget.num_attempts_coding, budget.num_attempts_coda) == (3, 0, 0)


@given(BASES)
def test_the_papers_settings_are_the_papers_whatever_the_base(base: Budget) -> None:
    budget, preset = budget_at(base, WIDE.paper(base)), Budget.preset("paper-qwen3")
    names = set(FIELDS) - {*BY_STAGE, "max_total_tokens"}
    assert {name: getattr(budget, name) for name in names} == {name: getattr(preset, name) for name in names}


def test_what_comes_first_has_the_name_that_the_space_has_for_it() -> None:
    names = {point_name(point) for point in POINTS}
    assert {point_name(point) for point in SPACE.plain(Budget())} <= names
    holds_the_papers = SPACE.but({"num_attempts_coding": (0, 3), "best_of_n": (1, 3), "refine_rounds": (0, 2)})
    found = {point_name(point) for point in holds_the_papers.points(Budget()) or []}
    assert point_name(holds_the_papers.paper(Budget())) in found
    temperatures = SPACE.but({"temperature": (0.4, 0.8)})
    assert "temperature" not in temperatures.plain(Budget())[1]  # the base has several


def test_values_that_are_no_budget_together_are_left_out() -> None:
    space = Space({"num_attempts_coding": (0, 3), "stop_on_agreement": (False, True)})
    assert {(p["num_attempts_coding"], p["stop_on_agreement"]) for p in space.points(Budget()) or []} == {
        (0, False),
        (3, False),
        (3, True),
    }


@given(st.data())
def test_the_dearest_budget_of_a_space_has_the_most_calls(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(list(WIDE.values)), min_size=1, max_size=5, unique=True))
    space, base = Space({name: WIDE.values[name] for name in names}), data.draw(BASES)
    points = space.points(base) or []
    most = max((most_calls_at(budget_at(base, point)) for point in points), default=0)
    assert most_calls_at(space.dearest(base)) >= most


def test_a_field_is_searched_for_all_stages_or_by_stage() -> None:
    assert "temperature.direct" not in WIDE.but({"temperature": (0.4, 0.8)}).values
    with pytest.raises(UserError, match=r"temperature for all stages and temperature.direct too"):
        Space({"temperature": (0.4,), "temperature.direct": (0.8,)})


def test_a_value_of_one_stage_is_set_for_that_stage() -> None:
    budget = budget_at(Budget(), {"num_attempts_baseline": 3, "temperature.direct": 0.4})
    assert budget.temperature["direct"] == 0.4
    assert budget.temperature["plan"] == Budget().temperature["plan"]


@given(wide_points)
def test_a_point_stays_as_it_is_once_it_is_canonical(chosen: dict[str, object]) -> None:
    point = canonical(chosen, Budget())
    assert canonical(point, Budget()) == point


@given(wide_points)
def test_what_is_left_out_of_a_point_never_adds_a_call(chosen: dict[str, object]) -> None:
    point = canonical(chosen, Budget())
    if point != {"num_attempts_baseline": 1}:
        assert most_calls_at(budget_at(Budget(), point)) <= most_calls_at(budget_at(Budget(), chosen))


def test_the_papers_settings_are_a_budget() -> None:
    budget = budget_at(Budget(), PAPER)
    assert (budget.best_of_n, budget.n_plans, budget.num_attempts_coding) == (3, 2, 3)


def test_a_space_too_large_to_look_through_is_not_and_has_a_dearest_budget() -> None:
    space = Space({name: tuple(range(1, 65)) for name in ("best_of_n", "n_plans", "num_attempts_coda")})
    assert space.points(Budget()) is None
    dearest = space.dearest(Budget())
    assert (dearest.best_of_n, dearest.n_plans, dearest.num_attempts_coda) == (64, 64, 64)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_plan": (1, 2)}, "no field 'n_plan'"),
        ({"n_plans": (0, 1)}, "n_plans is 0"),
        ({"n_plans": ()}, "no value for n_plans"),
        ({"temperature.plans": (0.1,)}, "no stage 'plans'"),
    ],
)
def test_a_space_of_something_else_is_refused(values: dict[str, tuple[object, ...]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Space(values)
