from pathlib import Path

import pytest
from scripts import engine

from coda_dspy.data import Question
from coda_dspy.optimizers import Space, TunePlan, tune
from coda_dspy.optimizers.probed import narrowed

SUM = Question("q", "What is 1 + 1?", "2")
LETTER = Question("c", "Which?", "A", "choice", choices=("one", "two"))
SPACE = Space({"num_attempts_coding": (0, 3), "temperature.direct": (0.4, 0.8), "n_plans": (1, 2)})


def test_programs_are_searched_for_maths_only() -> None:
    assert "num_attempts_coding" in narrowed(SPACE, [LETTER, SUM]).values
    assert "num_attempts_coding" not in narrowed(SPACE, [LETTER]).values


@pytest.mark.parametrize(("honours", "searched"), [(True, True), (None, True), (False, False)])
def test_temperatures_are_searched_unless_the_engine_ignores_them(honours: bool | None, searched: bool) -> None:
    found = narrowed(SPACE, [SUM], {"honours": {"temperature": honours}})
    assert ("temperature.direct" in found.values) is searched
    assert found.values["n_plans"] == (1, 2)


def test_efforts_are_searched_where_the_engine_takes_several() -> None:
    probe = {"honours": {"effort": True}, "efforts": ["low", "high"]}
    found = narrowed(SPACE, [SUM], probe)
    assert [name for name in found.values if name.startswith("reasoning")] == ["reasoning_effort"]  # of all stages
    assert found.values["reasoning_effort"] == (None, "low", "high")
    assert "reasoning_effort" not in narrowed(SPACE, [SUM], {**probe, "efforts": ["low"]}).values
    assert "reasoning_effort" not in narrowed(SPACE, [SUM], {**probe, "honours": {"effort": None}}).values
    own = SPACE.but({"reasoning_effort.plan": (None, "low")})
    assert narrowed(own, [SUM], probe) == own


def test_what_a_probe_found_goes_into_the_profile_and_narrows_the_search(tmp_path: Path) -> None:
    questions = [Question(f"q{i}", f"What is {i} + 1?", str(i + 1)) for i in range(20)]
    space = Space({"num_attempts_baseline": (1, 3), "num_attempts_coda": (0,), "temperature.direct": (0.4, 0.8)})
    plan = TunePlan(train=4, validation=4, test=4, space=space, optimizer="none", finalists=1)
    _, lm = engine(lambda call: f"Answer: {int(call.prompt.split('What is ')[-1].split()[0]) + 1}")
    probe = {"honours": {"temperature": False}, "adapter": "plain"}
    report = tune(lm, questions, plan, tmp_path / "run", probe=probe)
    assert report.profile.probe == probe
    assert not any("temperature.direct" in trial.point for trial in report.trials)
