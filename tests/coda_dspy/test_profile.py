import json
import os
from pathlib import Path

import dspy
import pytest
from scripts import answering, engine

from coda_dspy import AdaptiveCoda, Budget, Coda, Profile, load
from coda_dspy.algorithms import with_algorithm
from coda_dspy.errors import UserError

KEY = "sk-sentinel-0123456789"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    program = AdaptiveCoda(Budget(best_of_n=2, temperature={"plan": 0.33}))
    demo = dspy.Example(question="1 + 1?", ending="End.", solution="Ü = \\frac{4}{2}\nAnswer: 2")
    program.coda.executor.direct.demos = [demo]
    program.coda.planner.plan.signature = program.coda.planner.plan.signature.with_instructions("Plan it well.")
    target = tmp_path / "profile.json"
    Profile.of(program, "local/some-model", scores={"test": {"accuracy": 0.5, "n": 8}}).save(target)
    return target


def test_save_load_save_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.json"
    Profile.of(Profile.read(path).adaptive(), "local/some-model", scores=Profile.read(path).scores).save(again)
    assert again.read_bytes() == path.read_bytes()


def test_a_loaded_program_has_the_prompts_and_the_budget(path: Path) -> None:
    made, lm = engine(answering(["2"]))
    program = load(path, lm)
    assert program(question="Q?").answer == "2"
    assert program.budget.temperature["plan"] == 0.33
    assert [m.role for m in made.calls[0].request.messages] == ["user", "assistant", "user"]
    assert program.coda.planner.plan.signature.instructions == "Plan it well."


def test_the_engine_of_dspys_settings_is_used_where_none_is_given(path: Path) -> None:
    _, lm = engine(answering(["2"]))
    with dspy.context(lm=lm):
        assert load(path)(question="Q?").answer == "2"


def edited(path: Path, change: object) -> Path:
    content = json.loads(path.read_text())
    change(content)  # type: ignore[operator]
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(version=2), "version is 2, but this coda_dspy reads version 1"),
        (lambda c: c["prompts"].pop("coda.planner.plan"), "prompts.coda.planner.plan is missing"),
        (lambda c: c["prompts"].update(x={"instructions": ""}), "prompts.x names a predictor that does not exist"),
        (lambda c: c["prompts"]["coda.planner.plan"].pop("instructions"), r"prompts.coda.planner.plan.instructions: "),
        (lambda c: c["prompts"]["coda.planner.plan"].update(demos=[{"zzz": "1"}]), r"demos.0 has no field 'zzz'"),
        (lambda c: c["budget"].update(best_of_n=0), "best_of_n is 0"),
        (lambda c: c["budget"].update(speed=1), "budget.speed names a field that does not exist"),
        (lambda c: c.update(adapter="json"), "adapter 'json' does not exist"),
        (lambda c: c.update(algorithm="magic"), "algorithm: "),
        (lambda c: c.update(api_key="x"), "api_key: "),
        (lambda c: c.pop("engine"), "engine: Field required"),
        (lambda c: c.update(format="other"), "format: "),
    ],
)
def test_a_profile_that_does_not_fit_is_refused_and_the_field_is_named(
    path: Path, change: object, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        load(edited(path, change))


@pytest.mark.parametrize(
    ("content", "message"), [("{", "is not JSON"), ("[]", "the file: "), (None, "cannot be read: No such file")]
)
def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    target = tmp_path / "p.json"
    if content is not None:
        target.write_text(content)
    with pytest.raises(UserError, match=message):
        load(target)


def test_a_full_disk_leaves_the_old_profile_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device; what was there before is unchanged"):
        Profile.of(AdaptiveCoda(), "local/other").save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_neither_key_nor_address_is_in_a_profile(tmp_path: Path) -> None:
    from coda_dspy import connect
    from coda_dspy.engines import engine_name

    lm = connect("openai/fake", "http://127.0.0.1:1/v1", api_key=KEY)
    target = tmp_path / "p.json"
    Profile.of(AdaptiveCoda(lm=lm), engine_name(lm)).save(target)
    assert KEY not in target.read_text()
    assert "127.0.0.1" not in target.read_text()


def test_each_algorithm_runs_with_the_profiles_prompts(path: Path) -> None:
    profile = Profile.read(path)
    coda = profile.program(algorithm="coda")
    assert isinstance(coda, Coda)
    assert coda.adapter == "plain"
    direct = profile.program(algorithm="direct")
    assert direct.budget.num_attempts_coding == direct.budget.refine_rounds == 0
    _, lm = engine(answering(["2"]))
    with dspy.context(lm=lm):
        assert direct(question="Q?").ledger.calls() == 1
        assert coda(question="Q?").ledger.calls("direct") == 0


def test_an_unknown_algorithm_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match="choose one of: adaptive, coda, direct, code, self-consistency"):
        with_algorithm(AdaptiveCoda(), "magic")


def test_a_probe_is_kept_in_a_profile_and_its_absence_leaves_no_trace(path: Path, tmp_path: Path) -> None:
    assert "probe" not in json.loads(path.read_text())
    assert Profile.read(path).probe is None
    probe = {"adapter": "plain", "tokens_per_second": {"1": 40.5}, "context_limit": None}
    with_probe, again = tmp_path / "probe.json", tmp_path / "again.json"
    Profile.read(path).model_copy(update={"probe": probe}).save(with_probe)
    assert Profile.read(with_probe).probe == probe
    Profile.read(with_probe).save(again)
    assert again.read_bytes() == with_probe.read_bytes()
    with pytest.raises(UserError, match="probe: "):
        load(edited(with_probe, lambda content: content.update(probe="fast")))
