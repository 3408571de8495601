"""Probes of scripted engines whose behaviour is known."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.lm15 import AuthError, InvalidRequestError, ServerError, TransportError
from scripts import engine

from coda_dspy import Budget, connect
from coda_dspy.data import Question
from coda_dspy.errors import EngineError, UserError
from coda_dspy.probing import ProbePlan, ProbeReport, calls, probe_engine, work
from coda_dspy.programs import Case
from coda_dspy.testing import FakeOpenAIServer, Reply, ScriptedCall, ScriptedEngine

SMALL = ProbePlan(minutes=1, questions=5, followed=1, levels=(1, 2), rounds=1, pairs=1)
Script = Callable[[ScriptedCall], Any]

SUMS = [Question(f"sum-{i}", f"What is {i} + 1?", str(i + 1)) for i in range(5)]
CHOICES = [Question(f"choice-{i}", f"Which is {i}?", "B", "choice", ("no", "yes")) for i in range(5)]
QUESTIONS = [*SUMS, *CHOICES]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "RETRY_SECONDS", 0.0)


def probed(script: Script, plan: ProbePlan = SMALL, **settings: Any) -> tuple[ProbeReport, ScriptedEngine]:
    """The report on an engine that answers by a script, and the engine."""
    made, lm = engine(script)
    return probe_engine(lm, plan, settings.pop("questions", QUESTIONS), **settings), made


def able(call: ScriptedCall) -> str:
    """Right about everything, in words: keeps to no markers, and says the same every time."""
    if call.stage == "plan":
        return "1. Add one. (high)"
    if call.stage == "code":
        return f"```python\nprint({number_in(call)} + 1)\n```"
    return f"It is so.\nAnswer: {number_in(call) + 1 if 'What is' in text_of(call) else 'B'}"


def in_sections(call: ScriptedCall) -> str:
    """The same, with section markers where they are asked for."""
    text = able(call)
    return f"[[ ## solution ## ]]\n{text}\n\n[[ ## completed ## ]]" if "[[ ##" in text_of(call) else text


def inventive(call: ScriptedCall) -> str:
    """The same, with another text for every sample above temperature 0: by its seed, where it has one."""
    config = call.request.config
    chance = config.seed if config.seed is not None else call.index
    return f"{able(call)}\n{chance}" if config.temperature else able(call)


def text_of(call: ScriptedCall) -> str:
    return "\n".join(message.text or "" for message in call.request.messages)


def number_in(call: ScriptedCall) -> int:
    """Of the question, which comes after the demonstrations."""
    words = text_of(call).rpartition("What is ")[2].split()
    return int(words[0]) if words and words[0].isdecimal() else 0


def effort_of(call: ScriptedCall) -> str | None:
    reasoning = call.request.config.reasoning
    return reasoning.effort if reasoning else None


def test_an_engine_that_keeps_to_no_sections_gets_the_plain_adapter() -> None:
    report, _ = probed(able)
    figures = report.figures["adapters"]
    assert report.adapter == "plain"
    assert figures["sections"]["markers"]["value"] == 0
    assert figures["plain"]["readable"] == {"value": 1.0, "low": pytest.approx(0.722, abs=0.01), "high": 1.0, "n": 10}


def test_sections_are_taken_where_they_are_kept_and_cost_nothing() -> None:
    report, _ = probed(in_sections)
    assert report.adapter == "sections"
    assert report.figures["adapters"]["sections"]["markers"]["value"] == 1
    assert report.figures["adapters"]["difference"]["value"] == 0


def test_sections_are_not_taken_where_they_cost_one_right_answer() -> None:
    def distracted(call: ScriptedCall) -> str:
        wrong = "[[ ##" in text_of(call) and "What is 3" in text_of(call)
        return in_sections(call).replace("Answer: 4", "Answer: 5") if wrong else in_sections(call)

    report, _ = probed(distracted)
    assert report.figures["adapters"]["sections"]["markers"]["value"] == 1
    assert report.figures["adapters"]["difference"]["value"] == pytest.approx(-0.1)
    assert report.adapter == "plain"


def test_too_few_questions_decide_nothing() -> None:
    report, _ = probed(in_sections, questions=SUMS[:3])
    assert (report.adapter, report.better_path) == ("plain", {})


def test_thinking_in_tags_is_found_in_every_stage() -> None:
    report, _ = probed(lambda call: f"<think>{'hm ' * 20}</think>{able(call)}")
    assert set(report.thinking_share) == {"direct", "code", "plan", "execute", "reflect"}
    assert all(0.5 < share < 1 for share in report.thinking_share.values())
    assert report.figures["stages"]["direct"]["thinks"] == "tags"
    assert report.figures["adapters"]["plain"]["accuracy"]["value"] == 1


def test_thinking_beside_the_text_is_measured_by_the_tokens_that_are_reported() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 40, "completion_tokens_details": {"reasoning_tokens": 30}}
    with FakeOpenAIServer(lambda call: Reply("Answer: 1", reasoning="hm", usage=usage)) as server:
        report = probe_engine(connect("openai/fake", server.url), SMALL, QUESTIONS)
    assert report.thinking_share["direct"] == 0.75
    assert report.figures["stages"]["direct"]["thinks"] == "reasoning content"


def test_without_thinking_the_share_is_nothing_but_its_interval_is_not() -> None:
    report, _ = probed(able)
    figure = report.figures["stages"]["plan"]["thinking"]
    assert (report.thinking_share["plan"], figure["n"], figure["high"]) == (0.0, 1, 1.0)


def test_cut_replies_are_counted_and_never_answers() -> None:
    report, _ = probed(lambda call: Reply.cut(able(call)) if call.stage in ("direct", "execute") else able(call))
    assert report.figures["stages"]["direct"]["cut"]["value"] == 1
    assert report.figures["stages"]["plan"]["cut"]["value"] == 0
    assert report.figures["adapters"]["plain"]["readable"]["value"] == 0
    assert 0.5 < (report.truncation or 0) < 1


def test_a_cut_thought_counts_as_thinking() -> None:
    report, _ = probed(lambda call: Reply.cut("<think>and so on and so on"))
    assert report.truncation == 1
    assert report.thinking_share["direct"] == 1


def test_an_honest_engine_honours_temperature_and_seed() -> None:
    report, _ = probed(inventive)
    assert (report.honours["temperature"], report.honours["seed"]) == (True, True)


def test_an_engine_that_gets_its_seed_from_the_conductor_is_judged_by_it() -> None:
    made = ScriptedEngine(lambda call: f"{call.request.config.seed if call.request.config.temperature else 0}")
    made.takes_seed = True  # type: ignore[attr-defined]
    report = probe_engine(connect(made), SMALL, QUESTIONS)
    assert (report.honours["temperature"], report.honours["seed"]) == (True, True)


def test_an_engine_that_always_says_the_same_ignores_temperature() -> None:
    report, _ = probed(able)
    assert report.honours["temperature"] is False
    assert report.honours["seed"] is None  # the same text with one seed says nothing then


def test_an_engine_that_samples_at_temperature_0_ignores_it_too() -> None:
    report, _ = probed(lambda call: f"{able(call)}\n{call.index}")
    assert (report.honours["temperature"], report.honours["seed"]) == (False, False)


def test_an_engine_that_batches_may_honour_temperature_though_its_greedy_replies_differ() -> None:
    def script(call: ScriptedCall) -> str:
        text = able(call)
        return f"{call.index} {text}" if call.request.config.temperature else f"{text} {call.index}"

    report, _ = probed(script)
    assert report.figures["sampling"]["same_at_temperature_0"]["value"] == 0
    assert report.honours["temperature"] is True


def test_an_engine_that_samples_anew_whatever_the_temperature_ignores_it() -> None:
    report, _ = probed(lambda call: f"{call.index} {able(call)}")
    assert report.honours["temperature"] is False


def test_replies_that_differ_in_their_reasoning_alone_do_not_tell_whether_temperature_is_honoured() -> None:
    report, _ = probed(lambda call: Reply(able(call), reasoning=f"Hm, {call.index}."))
    assert report.honours["temperature"] is None


def test_an_engine_that_refuses_seeds_is_not_judged_by_them() -> None:
    def script(call: ScriptedCall) -> object:
        if call.request.config.seed is not None:
            return InvalidRequestError("unknown field: seed")
        return inventive(call)

    report, _ = probed(script)
    assert (report.honours["temperature"], report.honours["seed"]) == (True, None)


def test_an_engine_that_refuses_efforts_is_asked_for_one_once() -> None:
    def script(call: ScriptedCall) -> object:
        return InvalidRequestError("reasoning_effort is not supported") if effort_of(call) else able(call)

    report, made = probed(script)
    assert (report.efforts, report.honours["effort"], report.figures["efforts"]) == ((), False, {})
    assert sum(effort_of(call) is not None for call in made.calls) == 1
    assert not {"low", "medium", "high"} & set(report.not_measured)


def test_an_engine_that_passes_over_efforts_has_none_either() -> None:
    report, _ = probed(able)
    assert (report.efforts, report.honours["effort"]) == ((), False)
    assert report.figures["efforts"]["high"]["change"]["value"] == 0


def test_efforts_are_taken_and_what_they_change_is_measured() -> None:
    lengths = {"low": 5, "medium": 10, "high": 30, None: 10}
    report, _ = probed(lambda call: f"{'so ' * lengths[effort_of(call)]}{able(call)}")
    assert (report.efforts, report.honours["effort"]) == (("low", "medium", "high"), True)
    figures = report.figures["efforts"]
    assert figures["low"]["change"]["value"] < 0 < figures["high"]["change"]["value"]
    assert figures["medium"]["change"]["value"] == 0


def test_an_engine_that_is_better_by_program_is_found_out() -> None:
    report, _ = probed(lambda call: able(call) if call.stage == "code" else able(call).replace("Answer: ", "Answer: 9"))
    paths = report.figures["paths"]["math"]
    assert report.better_path == {"math": "code"}
    assert (paths["direct"]["accuracy"]["value"], paths["code"]["accuracy"]["value"]) == (0, 1)
    assert (paths["agree"]["value"], paths["difference"]["value"], paths["difference"]["n"]) == (0, 1, 5)


def test_an_engine_that_is_better_in_words_is_too() -> None:
    report, _ = probed(lambda call: "I cannot program." if call.stage == "code" else able(call))
    assert report.better_path == {"math": "direct"}


def test_where_no_sandbox_starts_the_programs_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "sandbox_problem", lambda: "landlock: too old")
    monkeypatch.setattr("coda_dspy.probing.engine_probe.sandbox_problem", lambda: "landlock: too old")
    report, made = probed(able)
    assert made.count("code") == 0
    assert (report.better_path, report.not_measured["code"]) == ({}, "no program runs here: landlock: too old")


def test_code_tasks_are_answered_through_both_adapters() -> None:
    case = Case.of({"input": "3\n", "output": "4\n", "testtype": "stdin"}, "test 1")
    tasks = [Question(f"code-{i}", "Read a number, print the next.", "", "code", tests=(case,)) for i in range(4)]
    report, _ = probed(lambda call: "```python\nprint(int(input()) + 1)\n```", questions=tasks)
    assert report.figures["adapters"]["plain"]["accuracy"]["value"] == 1
    assert "kind math only" in report.not_measured["code"]


class Slow:
    """An engine that takes its time for every call, for at most so many calls at a time."""

    def __init__(self, seconds: float, at_a_time: int) -> None:
        self.seconds = seconds
        self.slots = threading.BoundedSemaphore(at_a_time)

    def __call__(self, call: ScriptedCall) -> str:
        with self.slots:
            time.sleep(self.seconds)
        return able(call) if call.sample.path != "probe" else "word " * 20


def test_speed_grows_with_calls_at_a_time_until_the_engine_is_full() -> None:
    plan = replace(SMALL, levels=(1, 2, 4), rounds=2, questions=1)
    report, _ = probed(Slow(0.1, at_a_time=2), plan)
    rates = report.tokens_per_second
    assert 60 < rates[1] < 201  # 20 words in 0.1 s, on a machine that may be busy
    assert rates[2] > 1.3 * rates[1]
    assert rates[4] < 1.5 * rates[2]
    assert report.concurrency in (2, 4)
    assert report.figures["speed"]["4"]["calls"] == 8


def test_a_level_at_which_calls_fail_is_not_the_best_and_only_generated_tokens_count() -> None:
    flying: set[int] = set()

    def script(call: ScriptedCall) -> object:
        flying.add(call.index)
        try:
            time.sleep(0.05)
            crowded = call.sample.path == "probe" and len(flying) > 1
            return ServerError("too many", status=503) if crowded else "word " * 20
        finally:
            flying.discard(call.index)

    report, _ = probed(script, replace(SMALL, questions=1))
    assert report.concurrency == 1
    assert report.failures["speed"].endswith("too many")


def test_without_usage_nothing_is_made_of_tokens() -> None:
    with FakeOpenAIServer(lambda call: Reply("Answer: 1", usage=None)) as server:
        report = probe_engine(connect("openai/fake", server.url), SMALL, QUESTIONS)
    assert report.honours["usage"] is False
    assert (report.tokens_per_second, report.concurrency) == ({}, None)
    assert report.not_measured["speed"] == "the engine does not report usage"
    assert report.figures["adapters"]["plain"]["tokens_out"] is None


def test_a_context_limit_is_found_in_the_refusal() -> None:
    def script(call: ScriptedCall) -> object:
        if (call.request.config.max_tokens or 0) > 9_000:
            return InvalidRequestError("max_tokens is too large: this model's maximum context length is 8192 tokens")
        return able(call)

    report, _ = probed(script)
    assert (report.honours["context_limit"], report.context_limit, report.not_measured) == (True, 8192, {})
    assert report.honours["usage"] is True
    report, _ = probed(able)
    assert (report.honours["context_limit"], report.context_limit) == (False, None)


def test_a_refusal_that_tells_no_limit_is_no_abort() -> None:
    too_many = InvalidRequestError("stop is not supported")
    report, _ = probed(lambda call: too_many if call.request.config.stop else able(call))
    assert report.honours["context_limit"] is None
    assert report.not_measured["context"] == "1 of 1 calls failed"
    assert report.failures["context"].endswith("stop is not supported")


@pytest.mark.parametrize(
    "fault", [None, ServerError("busy"), InvalidRequestError("reasoning_effort: unknown, seed: unknown")]
)
def test_the_plan_is_never_exceeded(fault: Exception | None) -> None:
    def script(call: ScriptedCall) -> object:
        config = call.request.config
        if isinstance(fault, InvalidRequestError):
            return fault if config.reasoning or config.seed is not None else able(call)
        return fault if fault and call.index % 3 == 2 else able(call)

    report, made = probed(script)
    assert report.calls["made"] == len(made.calls) <= report.calls["planned"]


def test_a_question_that_fails_is_a_result() -> None:
    def script(call: ScriptedCall) -> object:
        return InvalidRequestError("I do not speak of 2") if "What is 2" in text_of(call) else able(call)

    report, _ = probed(script)
    assert report.figures["adapters"]["plain"]["readable"]["n"] == 9
    assert report.not_measured["plain"] == "1 of 10 calls failed"
    assert report.failures["plain"].endswith("I do not speak of 2")


def test_a_call_that_fails_in_passing_is_made_again() -> None:
    report, made = probed(lambda call: ServerError("busy") if call.index == 5 else able(call))
    assert report.not_measured == {}
    assert report.calls["made"] == len(made.calls)


def test_a_refused_key_and_a_dead_server_end_the_probe() -> None:
    with pytest.raises(EngineError, match="refuses to work"):
        probed(lambda call: AuthError("wrong key"))
    with pytest.raises(EngineError, match=r"gave no reply: .*gone"):
        probed(lambda call: TransportError("gone"))
    with pytest.raises(EngineError, match=r"has stopped answering: .*gone"):
        probed(lambda call: TransportError("gone") if call.index > 20 else able(call))


def test_what_does_not_fit_into_the_time_is_left_out_and_named() -> None:
    started = time.monotonic()
    report, made = probed(Slow(0.2, at_a_time=8), replace(SMALL, minutes=2.5 / 60))
    assert time.monotonic() - started < 10
    assert "left out for lack of time" in report.not_measured["plain"]
    assert len(made.calls) < report.calls["planned"]


def test_a_call_that_never_comes_back_is_left_behind() -> None:
    never = threading.Event()

    def script(call: ScriptedCall) -> str:
        if call.sample.path != "probe":
            never.wait(20)
        return able(call)

    started = time.monotonic()
    report, _ = probed(script, replace(SMALL, minutes=1 / 60))
    never.set()
    assert time.monotonic() - started < 10
    assert (report.truncation, report.adapter) == (None, "plain")
    with pytest.raises(EngineError, match="nothing came within"):
        probed(lambda call: time.sleep(3) or "late", replace(SMALL, minutes=0.5 / 60))


def test_an_interrupted_probe_goes_on_where_it_stopped(tmp_path: Path) -> None:
    whole, made = probed(able)
    expired = [True]

    def until_expired(call: ScriptedCall) -> object:
        return AuthError("expired") if expired and call.index == len(made.calls) // 2 else able(call)

    second, lm = engine(until_expired)
    with pytest.raises(EngineError, match="expired"):
        probe_engine(lm, SMALL, QUESTIONS, folder=tmp_path)
    before = (tmp_path / "calls.jsonl").read_text()
    assert before.count("\n") > 5
    expired.clear()
    report = probe_engine(lm, SMALL, QUESTIONS, folder=tmp_path)
    assert (tmp_path / "calls.jsonl").read_text().startswith(before)
    assert len(second.calls) <= len(made.calls) + 8  # what was in flight, and the rest of its unit
    assert report.calls["kept"] > 5
    assert report.figures["adapters"] == whole.figures["adapters"]
    assert report.figures["paths"] == whole.figures["paths"]
    assert json.loads((tmp_path / "probe.json").read_text()) == report.describe()
    again = probe_engine(lm, SMALL, QUESTIONS, folder=tmp_path)
    assert (again.calls["made"], again.figures) == (0, report.figures)


def test_another_probe_in_the_folder_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    _, lm = engine(able)
    probe_engine(lm, SMALL, QUESTIONS, folder=tmp_path)
    with pytest.raises(UserError, match="holds a run with another data"):
        probe_engine(lm, SMALL, CHOICES, folder=tmp_path)
    with pytest.raises(UserError, match="holds a run with another probe"):
        probe_engine(lm, replace(SMALL, budget=Budget(max_tokens=77)), QUESTIONS, folder=tmp_path)
    (tmp_path / "calls.jsonl").write_text('{"key": "plain/sum-0"}\n')
    with pytest.raises(UserError, match="holds something else than a probe"):
        probe_engine(lm, SMALL, QUESTIONS, folder=tmp_path)


def test_nothing_of_a_private_question_is_kept(tmp_path: Path) -> None:
    private = [replace(question, private=True) for question in SUMS]
    report, _ = probed(lambda call: f"{able(call)}\nSECRET {text_of(call)}", questions=private, folder=tmp_path)
    assert report.figures["adapters"]["plain"]["readable"]["n"] == 5
    assert "What is" not in (tmp_path / "calls.jsonl").read_text()


def test_bad_plans_and_no_questions_are_refused() -> None:
    with pytest.raises(UserError, match="minutes is 0"):
        ProbePlan(minutes=0)
    with pytest.raises(UserError, match="questions is 0"):
        ProbePlan(questions=0)
    with pytest.raises(UserError, match="no question can be asked here"):
        probed(able, questions=[])


def test_an_engine_that_was_not_connected_here_is_refused() -> None:
    with pytest.raises(UserError, match="an engine that coda_dspy"):
        probe_engine(dspy.LM("openai/fake", api_key="x"), SMALL, QUESTIONS)


def test_the_caller_is_left_as_it_was_but_for_what_was_refused() -> None:
    made, lm = engine(
        lambda call: InvalidRequestError("unknown field: seed") if call.request.config.seed else able(call)
    )
    probe_engine(lm, SMALL, QUESTIONS)
    assert (lm.cache, lm.engine.inner is made, lm.engine.refused) == (True, True, {"seed"})
