"""A profile may come from a stranger: whatever its file holds, it is loaded, or refused with a reason."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coda_dspy import AdaptiveCoda, Profile, bounds, connect
from coda_dspy.errors import UserError
from coda_dspy.testing import ScriptedEngine

VALID = json.loads(
    Profile.of(
        AdaptiveCoda(),
        "local/some-model",
        decoding={"top_p": 0.9, "stop": ["END"], "seed": 1, "num_retries": 2, "cache": True, "top_k": 20},
        scores={"test": {"plain": {"value": 0.5, "low": 0.3, "high": 0.7, "n": 20}}},
        data={"name": "math", "hash": "00ff"},
        probe={"adapter": "plain"},
    ).model_dump_json()
)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(found for name, part in parts for found in places(part, (*place, name)))]


PLACES = [place for place in places(VALID) if place]
TEXTS = st.one_of(
    st.text(st.characters(codec=None), max_size=20),  # halves of characters too
    st.sampled_from(["self", "engine", "progress", "timeout", "base", "api_key", "\x1b]0;owned\x07", "x" * 20_000]),
)
HOSTILE = st.sampled_from([10**400, float("nan"), "half a character: \ud800", nested(50), -1, 10**9, "x" * 20_000])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS)
ANYTHING = st.recursive(
    SCALARS, lambda part: st.one_of(st.lists(part, max_size=3), st.dictionaries(TEXTS, part, max_size=3)), max_leaves=6
)


def with_change(content: Any, place: tuple[Any, ...], name: str | None, value: Any, delete: bool) -> Any:
    """The content with one value replaced, removed, or added to."""
    changed = json.loads(json.dumps(content))
    *way, last = place
    holder = changed
    for step in way:
        holder = holder[step]
    if delete:
        del holder[last]
    elif name is not None and isinstance(holder[last], dict):
        holder[last][name] = value
    elif isinstance(holder[last], list):
        holder[last].append(value)
    else:
        holder[last] = value
    return changed


CHANGES = st.tuples(
    st.sampled_from(PLACES), st.none() | TEXTS, HOSTILE | ANYTHING, st.integers(0, 9).map(lambda n: n == 0)
)


@settings(max_examples=300)
@given(CHANGES)
def test_a_changed_profile_loads_and_can_be_saved_or_is_refused(change: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, again = Path(folder) / "p.json", Path(folder) / "again.json"
        path.write_text(json.dumps(with_change(VALID, *change)))
        try:
            profile = Profile.read(path)
        except UserError as error:
            assert len(str(error)) < 25_000
            return
        profile.save(path)
        assert Profile.read(path) == profile
        Profile.read(path).save(again)
        assert again.read_bytes() == path.read_bytes()
        profile.program(connect(ScriptedEngine(lambda call: "1"), **profile.decoding))


@given(st.binary(max_size=200) | st.text().map(lambda text: text.encode("utf-8", "ignore")))
def test_a_file_of_anything_is_refused(content: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(content)
        with pytest.raises(UserError):
            Profile.read(file.name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: c["budget"].update(num_attempts_baseline=10**9),
            "num_attempts_baseline is 1000000000; it has to be",
        ),
        (lambda c: c["budget"]["max_tokens"].update(plan=10**7), "max_tokens.plan is 10000000; it has to be"),
        (lambda c: c["budget"].update(self=1), "budget.self names a field that does not exist"),
        (lambda c: c["budget"].pop("best_of_n"), "budget.best_of_n is missing"),
        (lambda c: c["prompts"]["coda.planner.plan"].update(instructions="x" * 2**21), "plan has 2,097,152 characters"),
        (lambda c: c["prompts"]["coda.planner.plan"].update(instructions=" "), "plan.instructions is empty"),
        (lambda c: c["prompts"]["coda.planner.plan"].update(demos=[{}] * 1000), "plan.demos: List should have at most"),
        (
            lambda c: c["prompts"]["coda.planner.plan"].update(demos=[{"plan": "x" * 300_000}] * 4),
            "plan has 1,200,",
        ),
        (lambda c: c.update(engine="x" * 20_000), "engine has 20,000 characters"),
        (lambda c: c["scores"].update(note="x" * 20_000), "scores.note has 20,000 characters"),
        (lambda c: c["scores"].update({"x" * 300: 1}), "scores.x+… has no name of at most 200 characters"),
        (lambda c: c["scores"].update(deep=nested(50)), "is nested deeper than 16 levels"),
        (lambda c: c["data"].update(size=10**30), r"data.size is a number beyond"),
        (lambda c: c["scores"].update(value=float("nan")), "scores.value is nan"),
        (lambda c: c["decoding"].update(api_base="http://elsewhere"), "api_base is no decoding setting"),
        (lambda c: c["decoding"].update(fallbacks=["other/model"]), "fallbacks is no decoding setting"),
        (lambda c: c["decoding"].update(custom_llm_provider="x"), "custom_llm_provider is no decoding setting"),
        (lambda c: c["decoding"].update(mock_response="Answer: 1"), "mock_response is no decoding setting"),
        (lambda c: c["decoding"].update(progress=1), "progress is no decoding setting"),
        (
            lambda c: c["decoding"].update(num_retries=10**9),
            "num_retries is 1000000000; it has to be a whole",
        ),
        (lambda c: c["decoding"].update(top_p="much"), "top_p is 'much'; it has to be a number"),
    ],
)
def test_what_no_profile_needs_is_refused_and_the_field_is_named(
    change: Callable[[Any], Any], message: str, tmp_path: Path
) -> None:
    content = json.loads(json.dumps(VALID))
    change(content)
    (tmp_path / "p.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=message) as caught:
        Profile.read(tmp_path / "p.json")
    assert str(caught.value).startswith(f"{tmp_path / 'p.json'}: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 100_000, "is nested too deeply"),
        (b'{"version": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b" " * (bounds.MOST_BYTES + 1), "has more than 8 MB"),
    ],
)
def test_a_file_that_would_drown_the_reader_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(content)
    with pytest.raises(UserError, match=message):
        Profile.read(tmp_path / "p.json")


def test_a_folder_is_no_profile(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        Profile.read(tmp_path)
