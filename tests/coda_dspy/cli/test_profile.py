import json
from pathlib import Path
from typing import Any

import dspy
import pytest
from lessons import answers, votes
from lessons import share as share_of
from scripts import Run, answering, engine

from coda_dspy import AdaptiveCoda, Budget, Profile, profiles
from coda_dspy.profile import installed_versions
from coda_dspy.testing import ScriptedCall

ENGINE = "local/qwen2.5-coder-0.5b"
ESCAPE = "\x1b]0;owned\x07"
SHARE = {"value": 0.5, "low": 0.35, "high": 0.65, "n": 40}
SCORES = {
    "chosen": "small",
    "validation": [{**SHARE, "best_of_n": 2, "tokens": 512.25}],
    "test": {
        "tuned": {**SHARE, "tokens": 700.0},
        "difference": {"value": 0.1, "low": -0.05, "high": 0.25, "p_value": 0.25, "n": 40},
    },
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    program = AdaptiveCoda(Budget(num_attempts_baseline=1, temperature={"plan": 0.25}))
    direct = program.coda.executor.direct
    direct.signature = direct.signature.with_instructions("Think first.\nThen answer.")
    direct.demos = [dspy.Example(question="1 + 1?", ending="End.", solution="Two.\nAnswer: 2")]
    profile = Profile.of(
        program,
        ENGINE,
        decoding={"top_k": 20},
        scores=SCORES,
        data={"name": "math", "hash": "00ff"},
        probe={"tokens_per_second": {"1": 40.5}, "figures": {"hidden": 1}},
    )
    profile.save(tmp_path / "a.json")
    return tmp_path / "a.json"


def edited(path: Path, change: Any) -> Path:
    content = json.loads(path.read_text())
    change(content)
    target = path.with_name("b.json")
    target.write_text(json.dumps(content))
    return target


def rows(out: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]


def test_show_prints_what_differs_what_is_asked_and_what_was_measured(run: Run, path: Path) -> None:
    code, out, _ = run("profile", "show", str(path))
    assert code == 0
    assert out.splitlines()[0] == f"engine {ENGINE}, algorithm adaptive, adapter plain"
    assert "decoding: top_k 20" in out
    assert "data: hash 00ff, name math" in out
    assert f"dspy {installed_versions()['dspy']}" in out
    assert "coda.executor.direct: instructions of its own, demonstrations 1\n  Think first. Then answer.\n" in out
    assert "coda.planner.plan: instructions as written, demonstrations 0" in out
    assert rows(out) == [
        ["num_attempts_baseline", "1", "3"],
        ["temperature.plan", "0.25", "0.8"],
        ["chosen", "small", "", "", ""],
        ["test.difference", "+10.0%", "-5.0% – +25.0%", "40", "p_value 0.25"],
        ["test.tuned", "50.0%", "35.0% – 65.0%", "40", "tokens 700"],
        ["validation.1", "50.0%", "35.0% – 65.0%", "40", "best_of_n 2, tokens 512.2"],
        ["tokens_per_second.1", "40.5"],
    ]


LEARNED: dict[str, Any] = {
    "math": {
        **answers((0.1, 0.75), (5.0, 0.25)),
        **votes(0.5, 2.25, 1.0),
        "alternatives": {"value": 4.0, "low": 2.0, "high": 8.0, "n": 12},
        "judges": {"judge": {"accuracy": share_of(0.8, 12), "chance": share_of(0.5), "weight": 1.386}},
        "first_path": "code",
        "agreement": share_of(0.4),
    }
}


def test_show_prints_what_was_learned_for_run_time(run: Run, path: Path) -> None:
    code, out, _ = run("profile", "show", str(edited(path, lambda content: content.update(learned=LEARNED))))
    assert code == 0
    assert [row for row in rows(out) if row[0].startswith("math.")] == [
        ["math.first_path", "code", "", "", ""],
        ["math.agreement", "40.0%", "0.0% – 100.0%", "50", ""],
        ["math.votes.direct", "50.0%", "0.0% – 100.0%", "50", "weight 0.5"],
        ["math.votes.code", "50.0%", "0.0% – 100.0%", "50", "weight 2.25"],
        ["math.votes.coda", "50.0%", "0.0% – 100.0%", "50", "weight 1"],
        ["math.alternatives", "4.0", "2.0 – 8.0", "12", ""],
        ["math.judges.judge", "80.0%", "0.0% – 100.0%", "12", "weight 1.386, chance 50.0%"],
        ["math.answers.leading", "80.0%", "0.0% – 100.0%", "50", "votes 400"],
        ["math.answers.distinct", "2.0", "1.0 – 3.0", "50", "α 0.1 75%, α 5 25%"],
    ]
    assert "learned for run time: none" in run("profile", "show", str(path))[1]


def test_diff_names_what_was_learned_otherwise(run: Run, path: Path) -> None:
    first = edited(path, lambda content: content.update(learned=LEARNED)).rename(path.with_name("first.json"))
    other = {"math": {**LEARNED["math"], **votes(0.5, 2.5, 1.0)}}
    code, out, _ = run("profile", "diff", str(first), str(edited(path, lambda content: content.update(learned=other))))
    assert (code, rows(out)) == (1, [["learned.math.votes.code.weight", "2.25", "2.5"]])


def test_show_prints_whole_prompts_where_asked(run: Run, path: Path) -> None:
    _, out, _ = run("profile", "show", str(path), "--prompts")
    shown = "  instructions: Think first.\n    Then answer.\n  demonstration 1\n  ending: End.\n  question: 1 + 1?\n"
    assert shown + "  solution: Two.\n    Answer: 2\n" in out


def test_terminal_escapes_of_a_stranger_are_not_printed_raw(run: Run, path: Path) -> None:
    def poison(content: Any) -> None:
        content["engine"] = content["prompts"]["coda.executor.direct"]["instructions"] = f"x {ESCAPE}"
        content["prompts"]["coda.executor.direct"]["demos"] = [{"solution": ESCAPE}]
        for group in ("scores", "data", "versions", "decoding", "probe"):
            content[group] = {f"name {ESCAPE}": ESCAPE}

    poisoned = edited(path, poison)
    for words in (("show", "--prompts"), ("show",), ("check",), ("diff", str(path))):
        _, out, err = run("profile", *words, str(poisoned))
        assert "owned" in out, words
        assert "\x1b" not in out + err
        assert "\x07" not in out + err
    refused = edited(path, lambda content: content.update({ESCAPE: 1}))
    code, out, err = run("profile", "check", str(refused))
    assert (code, "owned" in err, "\x1b" in out + err) == (2, True, False)


def test_a_stranger_cannot_fill_the_terminal(run: Run, path: Path) -> None:
    many = edited(path, lambda content: content.update(scores={f"s{i}": "x" * 1000 for i in range(1000)}))
    code, out, _ = run("profile", "show", str(many))
    assert code == 0
    assert "… and 800 more" in out
    assert max(map(len, out.splitlines())) < 400


def test_equal_profiles_are_exit_code_0(run: Run, path: Path) -> None:
    same = edited(path, lambda content: None)  # written in another layout
    assert same.read_bytes() != path.read_bytes()
    code, out, _ = run("profile", "diff", str(path), str(same))
    assert (code, out.splitlines()[-1]) == (0, "no difference")


def test_diff_names_fields_and_prompts_and_is_exit_code_1(run: Run, path: Path) -> None:
    def change(content: Any) -> None:
        content["budget"]["best_of_n"] = 8
        content["scores"]["test"]["tuned"]["value"] = 0.55
        del content["probe"]
        content["prompts"]["coda.executor.direct"]["demos"][0]["solution"] = "Two.\nAnswer: two"

    code, out, _ = run("profile", "diff", str(path), str(edited(path, change)))
    assert code == 1
    assert rows(out) == [
        ["budget.best_of_n", "3", "8"],
        ["scores.test.tuned.value", "0.5", "0.55"],
        ["probe.figures.hidden", "1", "–"],
        ["probe.tokens_per_second.1", "40.5", "–"],
        ["probe", "–", "None"],
    ]
    lines = out.splitlines()
    assert lines[lines.index("--- coda.executor.direct") + 1] == "+++ coda.executor.direct"
    assert [line for line in lines if line[:2] in ("- ", "+ ")] == ["-  Answer: 2", "+  Answer: two"]


def test_diff_of_what_cannot_be_read_is_exit_code_2(run: Run, path: Path) -> None:
    code, _, err = run("profile", "diff", str(path), "missing.json")
    assert code == 2
    assert "missing.json cannot be read" in err


def test_check_says_what_it_found(run: Run, path: Path) -> None:
    code, out, _ = run("profile", "check", str(path))
    assert code == 0
    assert f"engine: {ENGINE}; its weights are known" in out
    assert "budget: valid; 2 values differ from the defaults" in out
    assert "of this version; demonstrations 4" in out
    assert "decoding: allowed (top_k 20)" in out
    assert "warning" not in out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["versions"].update(dspy="3.0"), "warning: made with dspy 3.0, here is 3."),
        (lambda c: c["versions"].update(other="1"), "warning: made with other 1, here is none"),
        (lambda c: c.update(versions={}), "warning: it does not say which versions made it"),
        (lambda c: c.update(scores={}), "warning: it holds no scores"),
        (lambda c: c.update(engine="local/unheard-of"), "its weights are not in the catalog"),
        (lambda c: c.update(engine="openai/gpt"), "a server has its weights"),
    ],
)
def test_check_warns_where_a_profile_can_be_used_all_the_same(run: Run, path: Path, change: Any, message: str) -> None:
    code, out, _ = run("profile", "check", str(edited(path, change)))
    assert (code, message in out) == (0, True), out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(version=2), "b.json: version is 2"),
        (lambda c: c["budget"].update(best_of_n=10**6), "b.json: best_of_n is 1000000; it has to be"),
        (lambda c: c["prompts"].pop("coda.planner.plan"), "b.json: prompts.coda.planner.plan is missing"),
        (lambda c: c.update(adapter="json"), "b.json: adapter 'json' does not exist"),
        (lambda c: c["decoding"].update(api_base="http://x"), "b.json: api_base is no decoding setting"),
        (lambda c: c.update(engine=""), "b.json: engine: "),
    ],
)
def test_check_refuses_and_names_the_field(run: Run, path: Path, change: Any, message: str) -> None:
    code, out, err = run("profile", "check", str(edited(path, change)))
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


@pytest.fixture
def shipping(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The profile ships, and no weights are needed; the engines that were connected."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    path.rename(folder / f"{ENGINE.removeprefix('local/')}.json")
    monkeypatch.setattr(profiles, "FOLDER", folder)
    connected: list[Any] = []

    def connect(name: str, *_: Any, **__: Any) -> Any:
        made, lm = engine(answering(["2"]))
        connected.append(made)
        return lm

    monkeypatch.setattr("coda_dspy.engines.connect", connect)
    return connected


SAID = f"with the profile that ships for {ENGINE} (math); --profile none leaves it out"


def test_show_and_check_take_the_name_of_an_engine(run: Run, shipping: list[Any]) -> None:
    assert "temperature.plan" in run("profile", "show", ENGINE)[1]
    assert run("profile", "check", ENGINE)[0] == 0
    code, _, err = run("profile", "check", "local/smollm2-135m")
    assert (code, "ships with this version" in err) == (2, True)


def test_solve_uses_what_ships_and_says_so_beside_the_answer(run: Run, shipping: list[Any]) -> None:
    code, out, err = run("solve", "--engine", ENGINE, "--json", "1 + 1?")
    assert code == 0
    assert json.loads(out)["answer"] == "2"
    assert err.splitlines() == [SAID]
    assert [len(made.calls) for made in shipping] == [1]
    assert "Think first." in str(shipping[0].calls[0].request)


def test_solve_weighs_votes_and_asks_judges_as_the_profile_says(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A direct vote and the first of two attempts say 1; the judge likes 2, and Algorithm 1 weighs more."""

    def script(call: ScriptedCall) -> object:
        if call.stage == "judge":
            return "Rating: 9" if "Answer: 2" in call.prompt else "Rating: 1"
        return answering(direct=["1", "3"], coda=["1", "2"])(call)

    monkeypatch.setattr("coda_dspy.engines.connect", lambda *_, **__: engine(script)[1])
    counts = {"num_attempts_baseline": 2, "num_attempts_coda": 1, "best_of_n": 2}
    learned = {"math": {**LEARNED["math"], **answers((5.0, 1.0))}}
    for verifier, answer in (("majority", "1"), ("weighted", "2")):
        budget = {**counts, "verifier": verifier, "early_exit": "learned"}
        profile = edited(path, lambda c, b=budget: c["budget"].update(b) or c.update(learned=learned))
        code, out, err = run("solve", "--profile", str(profile), "--json", "1 + 1?")
        assert (code, json.loads(out)["answer"]) == (0, answer), err


@pytest.mark.parametrize(
    "words",
    [
        ("--profile", "none"),
        ("--preset", "quick"),
        ("--choice", "1", "--choice", "2"),
        ("--engine", "local/smollm2-135m"),
    ],
    ids=["none", "preset", "another kind", "another engine"],
)
def test_solve_goes_without_where_it_was_told_to_or_nothing_fits(
    run: Run, shipping: list[Any], words: tuple[str, ...]
) -> None:
    _, _, err = run("solve", "--engine", ENGINE, *words, "1 + 1?")
    assert "profile" not in err
    assert len(shipping[0].calls) > 1
    assert "Think first." not in str(shipping[0].calls[0].request)


def test_a_profile_that_was_asked_for_is_not_announced(run: Run, shipping: list[Any]) -> None:
    code, _, err = run("solve", "--profile", ENGINE, "1 + 1?")
    assert (code, err) == (0, "")
    assert "Think first." in str(shipping[0].calls[0].request)


@pytest.mark.parametrize(("kinds", "said"), [(("math", "math"), True), (("math", "text"), False)])
def test_a_file_of_one_kind_of_question_uses_what_ships_too(
    run: Run, shipping: list[Any], tmp_path: Path, kinds: tuple[str, ...], said: bool
) -> None:
    lines = [json.dumps({"id": f"q{i}", "question": f"{i}?", "kind": kind}) for i, kind in enumerate(kinds)]
    (tmp_path / "q.jsonl").write_text("\n".join(lines) + "\n")
    code, _, err = run("solve", "--engine", ENGINE, "--input", "q.jsonl", "--output", "out.jsonl")
    assert code == 0, err
    assert (SAID in err) is said


def test_a_profile_of_an_earlier_version_is_renewed(run: Run, path: Path, tmp_path: Path) -> None:
    old = edited(path, lambda c: (c["prompts"].pop("coda.planner.plan"), c["budget"].pop("first_path")))
    code, _, err = run("profile", "check", str(old))
    assert code == 2 and "coda profile renew OLD NEW" in err
    code, out, _ = run("profile", "renew", str(old), str(tmp_path / "new.json"))
    assert code == 0 and "new since then: budget.first_path, prompts.coda.planner.plan" in out
    assert (tmp_path / "new.json").read_bytes() == path.read_bytes()


def test_what_is_wrong_for_another_reason_is_not_renewed(run: Run, path: Path, tmp_path: Path) -> None:
    strange = edited(path, lambda c: c["budget"].update(nonsense=1))
    code, _, err = run("profile", "renew", str(strange), str(tmp_path / "new.json"))
    assert code == 2 and "budget.nonsense names a field that does not exist" in err
    assert not (tmp_path / "new.json").exists()
