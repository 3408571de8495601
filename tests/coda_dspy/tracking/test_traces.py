"""One trace a question, with a span and its tokens for every call, also where questions run side by side."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import dspy
import pytest
from dspy.lm15 import ServerError
from scripts import engine

from coda_dspy import AdaptiveCoda, Budget
from coda_dspy.data import Question
from coda_dspy.engines.secrets import remember_secret
from coda_dspy.evaluation import Result, evaluate
from coda_dspy.testing import Reply, ScriptedCall
from coda_dspy.tracking import Run, Tracker, sync
from coda_dspy.tracking.traces import Traces

QUESTIONS = [Question(f"q{i}", f"What is {i} + 1?", str(i + 1)) for i in range(6)]
SECRET = "sk-sentinel-trace-0123"
# Step 1 never agrees, so that plans, executions and reflections are called for as well.
BUDGET = Budget(num_attempts_baseline=2, num_attempts_coding=0, num_attempts_coda=1, best_of_n=2, n_plans=2)


def answer(call: ScriptedCall) -> str:
    if call.stage == "plan":
        return f"1. Add one. {SECRET}"
    return "Answer: 0" if call.stage == "direct" and call.sample.attempt else f"Answer: {_number(call.prompt) + 1}"


def _number(prompt: str) -> int:
    return int(prompt.split("What is ")[1].split()[0])


def traced(uri: str, spool: Path, share: float = 1.0, questions: list[Any] | None = None) -> list[Result]:
    remember_secret(SECRET)
    _, lm = engine(answer)
    tracker = Tracker(uri, "e", "run", spool=spool)
    with dspy.context(lm=lm):
        program = AdaptiveCoda(BUDGET)
        results = evaluate(program, questions or QUESTIONS, workers=4, traces=Traces(tracker, share))
    tracker.close()
    return results


def traces_in(uri: str) -> dict[str, Any]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("e")
    assert experiment is not None
    found = client.search_traces(locations=[experiment.experiment_id])
    named = {trace.info.tags["mlflow.traceName"]: trace for trace in found}
    assert len(named) == len(found)
    return named


def calls_of(trace: Any) -> list[Any]:
    return [span for span in trace.data.spans if span.span_type == "CHAT_MODEL"]


def test_each_question_has_one_trace_with_tokens_on_every_call(tmp_path: Path, mlflow_uri: str) -> None:
    results = {result.id: result for result in traced(mlflow_uri, tmp_path / "spool")}
    traces = traces_in(mlflow_uri)
    assert set(traces) == set(results)
    for name, trace in traces.items():
        spans = {span.span_id: span for span in trace.data.spans}
        roots = [span for span in spans.values() if span.parent_id is None]
        assert [root.name for root in roots] == [name]
        assert all(span.parent_id in spans for span in spans.values() if span is not roots[0])
        calls = calls_of(trace)
        assert {call.name for call in calls} == {"direct", "plan", "execute", "reflect"}
        assert len(calls) == results[name].calls
        tokens = [call.attributes["tokens_in"] + call.attributes["tokens_out"] for call in calls]
        assert all(tokens) and sum(tokens) == results[name].tokens
        assert trace.info.token_usage["total_tokens"] == results[name].tokens
        # Each call carries its own question, and lies below the role that made it.
        assert all(f"What is {name[1:]} + 1?" in str(call.inputs) for call in calls)
        plan = next(call for call in calls if call.name == "plan")
        assert spans[plan.parent_id].name == "Planner"
        assert plan.start_time_ns >= roots[0].start_time_ns and plan.end_time_ns <= roots[0].end_time_ns
        (verdict,) = trace.info.assessments
        assert (verdict.name, verdict.feedback.value) == ("correct", results[name].correct)
    assert SECRET.encode() not in (tmp_path / "tracking.db").read_bytes()


def test_tokens_of_calls_that_the_cache_answered_say_what_they_would_have_cost(tmp_path: Path, mlflow_uri: str) -> None:
    _, lm = engine(answer)
    tracker = Tracker(mlflow_uri, "e", "run", spool=tmp_path / "spool")
    with dspy.context(lm=lm):
        program = AdaptiveCoda(BUDGET)
        evaluate(program, QUESTIONS[:1])
        (again,) = evaluate(program, QUESTIONS[:1], traces=Traces(tracker, 1))
    tracker.close()
    assert again.billed_tokens == 0
    (trace,) = traces_in(mlflow_uri).values()
    assert all(call.attributes["cached"] for call in calls_of(trace))
    assert sum(call.attributes["tokens_in"] + call.attributes["tokens_out"] for call in calls_of(trace)) == again.tokens


def test_a_call_that_failed_and_one_that_was_tried_again_are_told_apart(tmp_path: Path, mlflow_uri: str) -> None:
    def script(call: ScriptedCall) -> Any:
        if call.stage == "plan" and not call.sample.attempt:
            return ServerError("out of order")
        return Reply.cut("and so on") if call.stage == "reflect" and not call.sample.retry else answer(call)

    _, lm = engine(script)
    tracker = Tracker(mlflow_uri, "e", "run", spool=tmp_path / "spool")
    with dspy.context(lm=lm):
        evaluate(AdaptiveCoda(BUDGET), QUESTIONS[:1], traces=Traces(tracker, 1))
    tracker.close()
    (trace,) = traces_in(mlflow_uri).values()
    broken = [call for call in calls_of(trace) if call.status.status_code.value == "ERROR"]
    assert {call.name for call in broken} == {"plan"} and "out of order" in broken[0].status.description
    assert {call.attributes["finish"] for call in calls_of(trace) if call.name == "reflect"} == {"length"}


def test_a_share_traces_the_same_questions_every_time() -> None:
    def chosen(share: float) -> set[str]:
        traces = Traces(Mock(spec=Run), share)
        many = [Question(f"q{i}", "What is 1 + 1?", "2") for i in range(400)]
        opened = {}
        for question in many:
            with traces.question(question) as trace:
                opened[question.id] = trace is not None
        return {name for name, traced in opened.items() if traced}

    quarter = chosen(0.25)
    assert 60 <= len(quarter) <= 140
    assert chosen(0.25) == quarter and chosen(0) == set()
    assert quarter < chosen(0.5) < chosen(1)


@dataclass(frozen=True)
class PrivateQuestion(Question):
    private: bool = True


def test_a_question_whose_text_must_not_be_kept_is_not_traced(tmp_path: Path, mlflow_uri: str) -> None:
    private = PrivateQuestion("hidden", "What is 41 + 1?", "42")
    traced(mlflow_uri, tmp_path / "spool", 1, [private, *QUESTIONS[:1]])
    assert set(traces_in(mlflow_uri)) == {"q0"}


def test_traces_that_a_dead_store_did_not_take_arrive_later_and_once(tmp_path: Path, mlflow_uri: str) -> None:
    results = traced("http://127.0.0.1:9", tmp_path / "spool")
    shutil.copytree(tmp_path / "spool", tmp_path / "again")
    sync(tmp_path / "spool", mlflow_uri)
    sync(tmp_path / "again", mlflow_uri)
    traces = traces_in(mlflow_uri)
    assert {name: len(calls_of(trace)) for name, trace in traces.items()} == {r.id: r.calls for r in results}
    assert all(len(trace.info.assessments) == 1 for trace in traces.values())


def test_a_question_that_breaks_off_leaves_a_trace_that_says_so(tmp_path: Path, mlflow_uri: str) -> None:
    tracker = Tracker(mlflow_uri, "e", "run", spool=tmp_path / "spool")
    with pytest.raises(KeyboardInterrupt), Traces(tracker, 1).question(QUESTIONS[0]):
        raise KeyboardInterrupt
    tracker.close()
    (trace,) = traces_in(mlflow_uri).values()
    assert trace.info.state.value == "ERROR"
    assert trace.data.spans[0].status.description == "broken off"
