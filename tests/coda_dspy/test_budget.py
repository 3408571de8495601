import dspy
import pytest

from coda_dspy.budget import FIELDS, Budget, parse_fields
from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.errors import UserError


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"best_of_n": 0}, "best_of_n is 0; it has to be a whole number from 1 to 64"),
        ({"n_plans": "three"}, "n_plans is 'three'; it has to be a whole number from 1 to 64"),
        ({"n_plans": True}, "n_plans is True"),
        ({"num_attempts_coding": 2, "temperature": {"code": 0}}, "num_attempts_coding is 2, but temperature.code is 0"),
        ({"use_planner": "yes"}, "use_planner is 'yes'; it has to be true or false"),
        ({"verifier": "oracle"}, "verifier is 'oracle'; it has to be one of: majority, judge, pairwise"),
        ({"early_exit": "always"}, "early_exit is 'always'"),
        ({"temperature": 2.5}, "temperature is 2.5; it has to be a number from 0 to 2"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": {"plan": -1}}, "temperature.plan is -1; it has to be a number from 0 to 2"),
        ({"max_tokens": {"cook": 10}}, "max_tokens has no stage 'cook'; the stages are: approach, plan"),
        ({"max_tokens": 0}, "max_tokens is 0; it has to be a whole number from 1 to 1000000"),
        ({"max_total_tokens": 0}, "max_total_tokens is 0"),
        ({"temperature": 10**400}, "temperature is 1000"),
        ({"reasoning_effort": "huge"}, "reasoning_effort is 'huge'; it has to be one of: low, medium, high"),
        ({"plans": 3}, "budget has no field 'plans'; its fields are: best_of_n, n_plans"),
    ],
)
def test_a_bad_field_is_named_with_its_value_and_range(fields: dict, message: str) -> None:
    with pytest.raises(UserError) as error:
        Budget(**fields)
    assert message in str(error.value)


def test_several_samples_at_temperature_zero_are_refused() -> None:
    with pytest.raises(UserError, match=r"num_attempts_baseline is 3, but temperature\.direct is 0"):
        Budget(temperature={"direct": 0})
    with pytest.raises(UserError, match=r"temperature\.plan and temperature\.execute is 0"):
        Budget(temperature={"plan": 0, "execute": 0})
    assert Budget(num_attempts_baseline=1, temperature={"direct": 0}).temperature["direct"] == 0.0


@pytest.mark.parametrize("name", ["quick", "paper-qwen3", "paper-gpt-oss", "max"])
def test_presets_are_valid_budgets(name: str) -> None:
    assert isinstance(Budget.preset(name), Budget)


def test_an_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match="choose one of: quick, paper-qwen3, paper-gpt-oss, max"):
        Budget.preset("fast")


def test_replace_changes_one_stage_and_keeps_the_others() -> None:
    budget = Budget(temperature=1.0).replace(temperature={"plan": 0.3})
    assert budget.temperature["plan"] == 0.3
    assert budget.temperature["execute"] == 1.0


def test_assigning_a_bad_value_is_refused_as_well() -> None:
    budget = Budget()
    with pytest.raises(UserError, match="best_of_n is 0"):
        budget.best_of_n = 0
    budget.temperature = {"plan": 0.2}  # type: ignore[assignment]
    assert (budget.best_of_n, budget.temperature["plan"], budget.temperature["execute"]) == (3, 0.2, 0.7)


def test_early_exit_takes_booleans() -> None:
    assert Budget(early_exit=False).early_exit == "off"
    assert Budget(early_exit=True).early_exit == "lossless"


def test_the_budget_is_saved_and_loaded_with_its_program() -> None:
    saved = AdaptiveCoda(budget=Budget(best_of_n=5, temperature={"plan": 0.1}))
    state = saved.dump_state()
    loaded = AdaptiveCoda()
    loaded.load_state(state)
    assert loaded.budget == saved.budget
    assert loaded.coda.budget is loaded.budget


def test_a_state_with_a_bad_field_changes_nothing() -> None:
    budget = Budget(best_of_n=2)
    with pytest.raises(UserError):
        budget.load_state({"n_plans": 3, "best_of_n": 0})
    assert budget == Budget(best_of_n=2)


def test_optimizers_find_the_budget_among_the_parameters_but_not_the_predictors() -> None:
    program = AdaptiveCoda()
    assert program.budget in program.parameters()
    assert all(isinstance(predictor, dspy.Predict) for predictor in program.predictors())


def test_words_of_the_command_line_set_every_field() -> None:
    words = {
        "verifier": "judge",
        "early_exit": "off",
        "reasoning_effort": "high",
        "temperature": "0.5",
        "plan_diversity": "true",
        "use_planner": "false",
        "use_reflection": "true",
        "use_tests": "true",
        "stop_on_agreement": "true",
        "max_total_tokens": "none",
        "plan_paths": "true",
        "first_path": "code",
    }
    pairs = [f"{name}={words.get(name, '2')}" for name in FIELDS]
    budget = Budget().replace(**parse_fields(pairs))
    assert budget.n_plans == 2
    assert budget.temperature["judge"] == 0.5
    assert budget.max_total_tokens is None
    assert budget.plan_diversity


def test_words_of_the_command_line_set_single_stages() -> None:
    fields = parse_fields(["max_tokens=100", "max_tokens.plan=50"])
    budget = Budget().replace(**fields)
    assert budget.max_tokens["plan"] == 50
    assert budget.max_tokens["execute"] == 100


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("best_of_n", "write it as field=value"),
        ("best=3", "budget has no field 'best'"),
        ("best_of_n.plan=3", "budget field 'best_of_n' has no stages"),
    ],
)
def test_a_bad_word_of_the_command_line_is_explained(pair: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_fields([pair])


@pytest.mark.parametrize("fields", [{}, {"num_attempts_coding": 3, "num_attempts_baseline": 0}])
def test_agreement_needs_both_paths(fields: dict[str, int]) -> None:
    with pytest.raises(UserError, match="raise both above 0"):
        Budget(stop_on_agreement=True, **fields)
