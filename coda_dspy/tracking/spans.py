"""A recorded trace as MLflow has them."""

import json
from collections.abc import Mapping
from typing import Any

_LONGEST_PREVIEW = 1000


def store_trace(uri: str, experiment: str, run: str, trace: Mapping[str, Any]) -> None:
    """Store a trace under the id that it was recorded with.

    Args:
        uri: MLflow tracking URI.
        experiment: Id of the experiment.
        run: Id of the run that it belongs to.
        trace: What `Trace.content` gave.
    """
    from mlflow.entities import Span
    from mlflow.tracing.client import TracingClient

    name = f"tr-{trace['id']}"
    client = TracingClient(uri)
    client.start_trace(_info(name, experiment, run, trace))
    client.log_spans(experiment, [Span.from_dict(_span(name, span)) for span in trace["spans"]])


def _info(name: str, experiment: str, run: str, trace: Mapping[str, Any]) -> Any:
    from mlflow.entities import TraceInfo, TraceLocation, TraceState
    from mlflow.tracing.constant import TraceMetadataKey, TraceTagKey

    root = trace["spans"][0]
    return TraceInfo(
        trace_id=name,
        trace_location=TraceLocation.from_experiment_id(experiment),
        request_time=root["start"] // 1_000_000,
        execution_duration=(root["end"] - root["start"]) // 1_000_000,
        state=TraceState.ERROR if root["error"] else TraceState.OK,
        request_preview=trace["text"][:_LONGEST_PREVIEW],
        response_preview=str(trace["answer"])[:_LONGEST_PREVIEW],
        trace_metadata={
            TraceMetadataKey.SOURCE_RUN: run,
            TraceMetadataKey.TOKEN_USAGE: json.dumps(_usage(trace["spans"])),
        },
        tags={TraceTagKey.TRACE_NAME: trace["question"]},
        assessments=_assessments(name, trace),
    )


def _assessments(name: str, trace: Mapping[str, Any]) -> list[Any]:
    """Whether the answer is right, where that is known; its id is the trace's, so that it is there once."""
    from mlflow.entities import AssessmentSource, Feedback

    if trace["correct"] is None:
        return []
    verdict = Feedback(name="correct", value=trace["correct"], source=AssessmentSource("CODE", "grade"), trace_id=name)
    verdict.assessment_id = f"a-{trace['id']}"
    return [verdict]


def _span(name: str, span: Mapping[str, Any]) -> dict[str, Any]:
    from mlflow.tracing.constant import SpanAttributeKey

    attributes = {
        **span["attributes"],
        SpanAttributeKey.REQUEST_ID: name,
        SpanAttributeKey.SPAN_TYPE: span["kind"],
        SpanAttributeKey.INPUTS: span["inputs"],
        SpanAttributeKey.OUTPUTS: span["outputs"],
    }
    usage = _usage([span])
    if usage:
        attributes[SpanAttributeKey.CHAT_USAGE] = usage
    return {
        "trace_id": name,
        "span_id": span["id"],
        "parent_span_id": span["parent"],
        "name": span["name"],
        "start_time_unix_nano": span["start"],
        "end_time_unix_nano": span["end"],
        "status": {"code": "ERROR" if span["error"] else "OK", "message": span["error"] or ""},
        "attributes": {key: json.dumps(value) for key, value in attributes.items()},
    }


def _usage(spans: list[Any]) -> dict[str, int]:
    """Tokens of the calls among the spans whose usage is known."""
    known = [span["attributes"] for span in spans if isinstance(span["attributes"].get("tokens_in"), int)]
    known = [attributes for attributes in known if isinstance(attributes["tokens_out"], int)]
    if not known:
        return {}
    asked, answered = (sum(attributes[name] for attributes in known) for name in ("tokens_in", "tokens_out"))
    return {"input_tokens": asked, "output_tokens": answered, "total_tokens": asked + answered}
