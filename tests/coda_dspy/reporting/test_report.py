"""What the page of a run says is what the run came to; and what does not fit is refused with a reason."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_folders import Page, answered, candidate, folder_of, stage, step
from scripts import answering, engine

from coda_dspy import AdaptiveCoda, Budget
from coda_dspy.data import Question
from coda_dspy.errors import UserError
from coda_dspy.evaluation import CompressedLines, JsonLines, PoolRecord, Result, evaluate_in
from coda_dspy.evaluation.statistics import accuracy, gap_closure, hit_rate, mean_tokens, recall

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from coda_dspy.reporting import write_report

Pair = tuple[Result, PoolRecord | None]

# Right, wrong though the right answer was found, and wrong.
RIGHT, MISSED, WRONG = ["2", "2", "3"], ["3", "3", "2"], ["3", "4", "5"]


def page_of(folder: Path, pairs: list[Pair], **described: Any) -> Page:
    return Page(write_report([folder_of(folder, pairs, **described)]).read_text(encoding="utf-8"))


def share(found: Any) -> str:
    return f"{found.value:.1%} [{found.low:.1%}, {found.high:.1%}]"


def test_the_figures_are_those_of_the_statistics(tmp_path: Path) -> None:
    pairs = [answered(f"q{i}", (RIGHT, MISSED, WRONG, RIGHT, RIGHT)[i % 5], tokens=100 + i) for i in range(40)]
    results = [result for result, _ in pairs]
    figures = page_of(tmp_path / "run", list(pairs)).figures
    assert figures["accuracy"] == share(accuracy(results)) == "60.0% [44.6%, 73.7%]"
    assert figures["recall"] == share(recall(results))
    assert figures["one candidate"] == share(hit_rate(results))
    assert figures["recall − accuracy"].startswith("20.0% [")
    right, found = [float(bool(r.correct)) for r in results], [float(bool(r.recalled)) for r in results]
    assert figures["gap closure"] == share(gap_closure(right, [r.hit_rate or 0.0 for r in results], found))
    assert figures["tokens each"] == f"{mean_tokens(results):,.0f}"
    assert (figures["calls each"], figures["seconds each"], figures["samples"]) == ("1.0", "2.0", "1")
    assert (figures["unparsed"], figures["truncated"], figures["failed"]) == ("0.0%", "0.0%", "0.0%")


def test_the_stages_are_added_up(tmp_path: Path) -> None:
    stages = {"plan": stage(2, cut=1), "direct": stage(3, failed=1, tokens_out=None)}
    page = page_of(tmp_path / "run", [answered(f"q{i}", RIGHT, stages=stages) for i in range(2)])
    assert page.of("th") == ["stage", "calls", "cached", "failed", "cut", "tokens in", "tokens out", "seconds"]
    assert page.of("td")[:8] == ["plan", "4", "0", "0", "2", "120", "80", "2.0"]
    assert page.of("td")[8:] == ["direct", "6", "0", "2", "0", "120", "unknown", "2.0"]


def test_what_nobody_knows_is_unknown_and_not_0(tmp_path: Path) -> None:
    unknown = {"tokens": None, "known_tokens": 0, "billed_tokens": None}
    unknown["stages"] = {"direct": stage(tokens_in=None, tokens_out=None)}  # type: ignore[assignment]
    result, record = answered("q", RIGHT, **unknown)
    ungraded = replace(result, correct=None, gold=None, recalled=None, hit_rate=None)
    page = page_of(tmp_path / "run", [(ungraded, replace(record, gold=None, grades=(None,) * 3))])
    for name in ("accuracy", "recall", "one candidate", "recall − accuracy", "gap closure", "tokens each"):
        assert page.figures[name] == "unknown", name
    assert "billed unknown, from the cache unknown" in page.of("small")
    assert "unknown" in page.of("span")


def test_billed_calls_and_those_of_the_cache_are_told_apart(tmp_path: Path) -> None:
    page = page_of(tmp_path / "run", [answered("q", RIGHT, billed_tokens=40, calls=5, billed_calls=2)])
    assert "billed 40, from the cache 60" in page.of("small")
    assert "billed 2.0, from the cache 3.0" in page.of("small")


def test_of_a_mean_with_gaps_the_page_says_that_it_is_a_lower_bound(tmp_path: Path) -> None:
    page = page_of(tmp_path / "run", [answered("q", RIGHT, tokens=None, known_tokens=70)])
    assert page.figures["tokens each"] == "at least 70"


def test_the_head_says_what_was_run_and_what_of_the_budget_is_not_the_default(tmp_path: Path) -> None:
    budget = Budget(best_of_n=5, max_tokens=800, temperature={"plan": 0.1}).dump_state()
    described = {"budget": budget, "algorithm": "coda", "data": {"name": "sums", "shard": None}, "extra": True}
    facts = page_of(tmp_path / "run", [answered("q", RIGHT)], **described).figures
    assert facts["engine"] == "openai/small" and facts["algorithm"] == "coda" and facts["extra"] == "yes"
    assert facts["data"] == "name sums"
    assert facts["budget"] == "best_of_n 5, temperature plan 0.1, max_tokens 800"


def test_a_row_names_what_filters_ask_for(tmp_path: Path) -> None:
    cut, silent = {"direct": stage(cut=1)}, {"direct": stage()}
    pairs: list[Pair] = [answered("agreed", ["2", "2"]), answered("missed", MISSED), answered("wrong", ["3"])]
    pairs += [(Result("cut", correct=False, stages=cut), None), (Result("silent", correct=False, stages=silent), None)]
    rows = {row["data-name"]: row["data-flags"] for row in page_of(tmp_path / "run", pairs).rows}
    assert rows == {
        "agreed": "",
        "missed": "wrong disagreeing missed",
        "wrong": "wrong",
        "cut": "wrong truncated",
        "silent": "wrong unparsed",
    }


def test_rows_stand_in_the_order_of_their_numbers_and_name_their_samples(tmp_path: Path) -> None:
    pairs = [answered(name, RIGHT, sample=sample) for sample in (1, 0) for name in ("q10", "q9")]
    page = page_of(tmp_path / "run", list(pairs))
    names = [row["data-name"] for row in page.rows]
    assert names == ["q9 · sample 1", "q9 · sample 2", "q10 · sample 1", "q10 · sample 2"]
    assert page.figures["samples"] == "2"
    assert page.figures["pass@2"] == "100.0% [0.0%, 100.0%]"


def test_an_opened_question_shows_what_happened_in_its_order(tmp_path: Path) -> None:
    program = "```python\nprint(2)\n```\n\nThe program computes:\nAnswer: 2"
    steps = (
        step("plan", "1. Compute.", "coda"),
        step("code", "", "code", 1, failure="cut off after 9 tokens (limit 9)"),
        step("reflect", "Both agree.\nAnswer: 2", "coda"),
        step("judge", "Rating: 7", "verdict"),
    )
    result, record = answered("q", ["2", "3"], failures=["code: cut off"] * 2)
    computed = candidate("2", program, path="code", thinking="Hm.", plans=("1. Compute.",))
    mistaken = candidate("3", "Both agree.\nAnswer: 2", tokens=None, trusted=False)
    record = replace(record, steps=steps, candidates=(computed, mistaken))
    (parts,) = page_of(tmp_path / "run", [(result, record)]).opened
    assert [part["title"] for part in parts] == [
        "question",
        "plan (coda, attempt 1, plan 1)",
        "code (code, attempt 2)",
        "reflect (coda, attempt 1)",
        "judge (verdict, attempt 1)",
        "candidate 1: thinking",
        "candidate 1: solution",
        "candidates",
        "votes by class",
        "why steps gave nothing",
        "cost by stage",
    ]
    assert parts[2]["text"] == "failed: cut off after 9 tokens (limit 9)" and parts[2]["failed"]
    assert parts[6]["text"] == program
    assert parts[7]["rows"] == [
        ["1", "code", "1", "2", "right", "100"],
        ["2", "direct", "1", "3", "wrong, fails a public test", "unknown"],
    ]
    assert parts[8]["rows"] == [["2", "1", "right, chosen"], ["3", "1", "wrong"]]
    assert parts[9]["rows"] == [["code: cut off", "2"]]


def test_programs_are_shown_with_what_they_put_out_and_questions_with_their_options(tmp_path: Path) -> None:
    result, record = answered("q", ["def f(x): return 2"], "2")
    tests = [{"input": "3", "output": "6", "testtype": "functional"}]
    code = {"question": "Write f.", "kind": "code", "entry_point": "f", "tests": tests}
    choice = {"question": "Which?", "kind": "choice", "choices": ["red", "green"]}
    pairs: list[Pair] = [(result, replace(record, task=code, outputs=(("6", "8"),)))]
    other, chosen = answered("r", ["B"], "B")
    first, second = page_of(tmp_path / "run", [*pairs, (other, replace(chosen, task=choice))]).opened
    assert first[0]["text"] == "Write f.\nasked for: f\ntest: 3 gives 6"
    assert {"title": "candidate 1: what its program puts out", "text": "6\n8", "failed": False, "open": False} in first
    assert second[0]["text"] == "Which?\nA) red\nB) green"


def test_of_a_private_question_no_text_is_shown(tmp_path: Path) -> None:
    result, record = answered("q", RIGHT)
    secret = replace(record, task=None, gold=None, steps=(step("direct", "secret"),))
    secret = replace(secret, candidates=tuple(candidate("2", "secret", thinking="secret") for _ in RIGHT))
    page = page_of(tmp_path / "run", [(replace(result, gold=None), secret)])
    assert "secret" not in page.source
    assert page.opened[0][0]["text"] == "Private: its text is not kept."


def test_a_question_that_failed_as_a_whole_is_shown_without_a_pool(tmp_path: Path) -> None:
    failed = Result("q", gold="2", correct=False, error="direct: connection lost")
    page = page_of(tmp_path / "run", [(failed, None)])
    assert "1 of 1 are not in the pool: of them only the result is shown." in page.of("p")
    assert page.opened[0][1] == {
        "title": "failed as a whole",
        "text": "direct: connection lost",
        "failed": True,
        "open": True,
    }


def test_what_an_evaluation_wrote_can_be_read(tmp_path: Path) -> None:
    _, lm = engine(answering(["2", "3", None], ["2"]))
    program = AdaptiveCoda(Budget(best_of_n=1, n_plans=1, early_exit="off"))
    question = Question("q", "What is 1 + 1?", "2")
    results = evaluate_in(tmp_path / "run", program, [question], lm, {"budget": program.budget.dump_state()})
    page = Page(write_report([tmp_path / "run"]).read_text(encoding="utf-8"))
    assert page.figures["accuracy"] == share(accuracy(results))
    assert page.figures["budget"] == "best_of_n 1, n_plans 1, early_exit off"
    (parts,) = page.opened
    steps = [part["title"].partition(" (")[0] for part in parts if "(" in part["title"]]
    assert sorted(steps) == ["direct", "direct", "direct", "execute", "plan", "reflect"]
    assert "What is 1 + 1?" in parts[0]["text"] and [part["title"] for part in parts if part.get("failed")]


def test_shards_are_joined(tmp_path: Path) -> None:
    folders = [
        folder_of(tmp_path / f"{i}", [answered(f"q{i}", [answer])], data={"name": "sums", "shard": f"{i}/2"})
        for i, answer in ((1, "2"), (2, "3"))
    ]
    target = write_report(folders)
    page = Page(target.read_text(encoding="utf-8"))
    assert target == folders[0] / "report.html"
    assert [row["data-name"] for row in page.rows] == ["q1", "q2"]
    assert page.figures["accuracy"].startswith("50.0%")
    assert page.figures["shards"].startswith("2 folders, joined")


def test_a_question_in_two_shards_is_refused_and_both_are_named(tmp_path: Path) -> None:
    folders = [folder_of(tmp_path / name, [answered("q", RIGHT)]) for name in ("one", "two")]
    with pytest.raises(UserError, match=f"{folders[0]} and {folders[1]} both hold question 'q'"):
        write_report(folders)


@pytest.mark.parametrize("changed", [{"engine": "openai/other"}, {"data": {"name": "other"}}, {"algorithm": "coda"}])
def test_shards_of_another_run_are_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    first = folder_of(tmp_path / "one", [answered("a", RIGHT)])
    second = folder_of(tmp_path / "two", [answered("b", RIGHT)], **changed)
    with pytest.raises(UserError, match=f"two holds a run with another {next(iter(changed))} than .*one"):
        write_report([first, second])


def test_a_question_that_was_asked_again_counts_once(tmp_path: Path) -> None:
    pairs = [answered("q", WRONG), answered("q", RIGHT)]
    page = page_of(tmp_path / "run", list(pairs))
    assert len(page.rows) == 1 and page.figures["accuracy"].startswith("100.0%")


def test_what_is_no_run_or_has_no_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not the folder of a run: it holds no run\.json"):
        write_report([tmp_path])
    with pytest.raises(UserError, match="holds no results yet"):
        write_report([folder_of(tmp_path / "run", [])])


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"id": "q", "stages": []}, "stages of 'q': Input should be a valid dictionary"),
        ({"id": "q", "stages": {"plan": {"calls": 1}}}, "plan.cached of 'q'"),
        ({"answer": "2"}, "id of None: Field required"),
        ({"id": "q", "tokens": "many"}, "tokens of 'q'"),
    ],
)
def test_damaged_results_are_refused_with_their_field(tmp_path: Path, row: dict[str, Any], reason: str) -> None:
    folder = folder_of(tmp_path / "run", [])
    JsonLines(folder / "results.jsonl").append(row)
    with pytest.raises(UserError, match=f"results.jsonl is damaged: {reason}"):
        write_report([folder])


def test_other_damage_is_refused_with_its_file(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "torn", [answered("q", RIGHT)])
    (folder / "results.jsonl").write_bytes(b"\xff\xfe\n{}\n")
    with pytest.raises(UserError, match=r"results\.jsonl, line 1 is damaged"):
        write_report([folder])
    (folder / "run.json").write_text("{")
    with pytest.raises(UserError, match=r"run\.json is damaged"):
        write_report([folder])
    result, record = answered("q", RIGHT)
    with pytest.raises(UserError, match="grades or classes of 'q' fit no candidates"):
        write_report([folder_of(tmp_path / "classes", [(result, replace(record, classes=((7,),)))])])
    with pytest.raises(UserError, match=r"pool\.jsonl\.gz is damaged: 0\.place"):
        write_report(
            [folder_of(tmp_path / "steps", [(result, replace(record, steps=({**step("plan", ""), "place": 1},)))])]
        )
    with pytest.raises(UserError, match=r"pool\.jsonl\.gz is damaged: choices of 'q'"):
        write_report([folder_of(tmp_path / "task", [(result, replace(record, task={"question": "?", "choices": 1}))])])
    other = folder_of(tmp_path / "schema", [(result, None)])
    CompressedLines(other / "pool.jsonl.gz").append({"schema": 9, "id": "q", "sample": 0})
    with pytest.raises(UserError, match="schema is 9"):
        write_report([other])


def test_a_missing_library_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path / "run", [answered("q", RIGHT)])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"needs matplotlib; run: pip install 'coda-dspy\[tune\]'"):
        write_report([folder])


def test_a_run_without_right_answers_and_tokens_has_nothing_to_plot(tmp_path: Path) -> None:
    page = page_of(tmp_path / "run", [(Result("q", answer="2"), None)])
    assert "There is nothing to plot: neither right answers nor tokens are known." in page.of("p")
    assert json.dumps(page.opened[0][0]["text"]) == '"Not in the pool, so its text is not known."'
