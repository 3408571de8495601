"""Profiles that ship: found by the name of their engine, and fit for this version."""

from pathlib import Path

import dspy
import pytest
from scripts import answering, engine

from coda_dspy import AdaptiveCoda, Budget, Profile, load, profiles
from coda_dspy.engines.catalog import CATALOG
from coda_dspy.errors import UserError
from coda_dspy.profiles import find, shipped

TINY = "local/tiny"


def profile_of(engine_name: str, attempts: int = 1) -> Profile:
    return Profile.of(AdaptiveCoda(Budget(num_attempts_baseline=attempts)), engine_name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of profiles in place of the package's own."""
    made = tmp_path / "shipped"
    made.mkdir()
    monkeypatch.setattr(profiles, "FOLDER", made)
    return made


def test_a_profile_that_ships_is_found_by_engine_and_kind(folder: Path) -> None:
    profile_of(TINY, 1).save(folder / "tiny.json")
    profile_of(TINY, 2).save(folder / "tiny-code.json")
    found = {kind: shipped(TINY, kind) for kind in ("math", "choice", "text", "code")}
    attempts = {kind: profile.budget["num_attempts_baseline"] for kind, profile in found.items() if profile}
    assert attempts == {"math": 1, "code": 2}
    assert [find(name).budget["num_attempts_baseline"] for name in (TINY, f"{TINY}-code")] == [1, 2]


@pytest.mark.parametrize("name", ["local/other", "tiny", "openai/tiny", "local//tiny", "local/../shipped/tiny", ""])
def test_no_other_engine_is_given_it(folder: Path, name: str) -> None:
    profile_of(TINY).save(folder / "tiny.json")
    assert shipped(name) is None


def test_a_name_without_a_profile_is_told_those_that_ship(folder: Path) -> None:
    with pytest.raises(UserError, match="those that do: none"):
        find("local/other")
    profile_of(TINY).save(folder / "tiny.json")
    with pytest.raises(UserError, match=r"no profile of the name local/other ships .* those that do: local/tiny"):
        load("local/other")


def test_a_file_below_a_folder_called_local_is_a_file(folder: Path, tmp_path: Path) -> None:
    profile_of("openai/x", 2).save(tmp_path / "local" / "p.json")
    assert find("local/p.json").engine == "openai/x"
    assert find(Path("local/p.json")).engine == "openai/x"


def test_load_takes_the_name_of_an_engine(folder: Path) -> None:
    profile_of(TINY).save(folder / "tiny.json")
    made, lm = engine(answering(["2"]))
    with dspy.context(lm=lm):
        assert load(TINY)(question="Q?").answer == "2"
    assert len(made.calls) == 1


def misfits() -> list[str]:
    """What is wrong with the profiles that ship."""
    wrong = []
    for name, path in profiles.names().items():
        try:
            engine_name = Profile.read(path).engine
        except UserError as error:
            wrong.append(f"make it again: {error}")
            continue
        if name.removesuffix("-choice").removesuffix("-code") != engine_name:
            wrong.append(f"{path.name} is the profile of {engine_name}")
        if engine_name.removeprefix("local/") not in CATALOG:
            wrong.append(f"{path.name}: {engine_name} is not in the catalog")
    return wrong


def test_what_ships_loads_and_is_named_after_an_engine_of_the_catalog() -> None:
    assert misfits() == []


def test_a_misfit_among_them_is_seen(folder: Path) -> None:
    profile_of("local/smollm2-135m").save(folder / "smollm2-135m-code.json")
    assert misfits() == []
    profile_of("local/smollm2-135m").save(folder / "other.json")
    profile_of(TINY).save(folder / "tiny.json")
    (folder / "zzz.json").write_text("{}")
    assert [line.split(":")[0] for line in misfits()] == [
        "other.json is the profile of local/smollm2-135m",
        "tiny.json",
        "make it again",
    ]
