"""Telemetry as OpenTelemetry spans and metrics, by the GenAI conventions, over OTLP/HTTP.

A run is the root span; sessions, goals, model calls, tool calls, hooks and approvals are its descendants.
"""

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from adderclaw import __version__
from adderclaw.core.events import EventRecord
from adderclaw.core.provider_kinds import BY_NAME

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

SECONDS = 5
"""Timeout of one export."""
TOKENS = [4**power for power in range(14)]
LATENCIES = [0.01 * 2**power for power in range(14)]
"""Histogram bounds that the conventions advise: the library's default bounds are too small for model calls."""


class Otlp:
    """Turns events into spans as they arrive."""

    def __init__(
        self,
        endpoint: str,
        agent_id: str,
        providers: Mapping[str, str],
        say: Callable[[str], None],
        *,
        include_content: bool,
        keep_all: bool = False,
    ) -> None:
        """`providers`: kind of each configured provider. `keep_all`: export traces even if TRACEPARENT is unsampled."""
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON

        _redirect_library_log(say, endpoint)
        base = endpoint.rstrip("/").removesuffix("/v1/traces")
        resource = Resource(
            {
                "service.name": "adderclaw",
                "service.version": __version__,
                "service.instance.id": agent_id or "adderclaw",
            }
        )
        self._traces = TracerProvider(
            sampler=ALWAYS_ON if keep_all else None, resource=resource, shutdown_on_exit=False
        )
        self._traces.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{base}/v1/traces", timeout=SECONDS))
        )
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(endpoint=f"{base}/v1/metrics", timeout=SECONDS), export_interval_millis=60_000
        )
        self._metrics = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        meter = self._metrics.get_meter("adderclaw", __version__)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", explicit_bucket_boundaries_advisory=TOKENS
        )
        self._latency = meter.create_histogram(
            "gen_ai.client.operation.duration", "s", explicit_bucket_boundaries_advisory=LATENCIES
        )
        self._tracer = self._traces.get_tracer("adderclaw", __version__)
        self._content = include_content
        self._providers = providers
        self._asked: dict[str, tuple[float, str]] = {}
        """Session → time and model of its last request."""
        self._open: dict[str, Span] = {}
        """Key of an open span → the span."""

    def send(self, events: list[EventRecord]) -> None:
        for event in events:
            handler = _HANDLERS.get(event.event_type)
            if handler is not None:
                handler(self, event)

    def close(self) -> None:
        for key in list(self._open):
            self._open.pop(key).end()
        self._traces.shutdown()
        self._metrics.shutdown(timeout_millis=SECONDS * 1000)

    # -------------------------------------------------------------- spans

    def _begin(self, key: str, name: str, event: EventRecord, above: str, attributes: Mapping[str, Any]) -> None:
        from opentelemetry.trace import SpanKind, set_span_in_context

        parent = self._open.get(above) or self._open.get("run")
        context = set_span_in_context(parent) if parent is not None else _parent_context()
        known = {name: value for name, value in attributes.items() if value not in (None, "")}
        span = self._tracer.start_span(
            name,
            context,
            kind=SpanKind.CLIENT if key.startswith("model:") else SpanKind.INTERNAL,
            attributes=known,
            start_time=_nanoseconds(event.timestamp),
        )
        self._open[key] = span

    def _end(self, key: str, event: EventRecord, attributes: Mapping[str, Any], error: str = "") -> None:
        from opentelemetry.trace import StatusCode

        span = self._open.pop(key, None)
        if span is None:
            return
        for name, value in attributes.items():
            if value not in (None, ""):
                span.set_attribute(name, value)
        if error:
            span.set_status(StatusCode.ERROR, error)
        span.end(_nanoseconds(event.timestamp))

    # -------------------------------------------------------------- events

    def run_started(self, event: EventRecord) -> None:
        about = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "adderclaw",
            "gen_ai.conversation.id": event.conversation_id,
            "adderclaw.run.id": event.run_id,
            "adderclaw.run.kind": event.payload["mode"],
        }
        self._begin("run", "invoke_agent adderclaw", event, "", about)

    def run_ended(self, event: EventRecord) -> None:
        outcome = event.payload["outcome"]
        failed = "" if event.event_type == "run_finished" else outcome
        self._end("goal", event, {"error.type": failed}, failed)  # a goal that is still open was interrupted
        self._end("run", event, {"adderclaw.run.outcome": outcome, "error.type": failed}, failed)

    def session_started(self, event: EventRecord) -> None:
        about = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": event.payload["agent_type"],
            "gen_ai.agent.id": event.session_id,
        }
        above = f"turn:{event.payload['parent_session_id']}"
        above = above if above in self._open else "goal"
        self._begin(f"session:{event.session_id}", f"invoke_agent {event.payload['agent_type']}", event, above, about)

    def session_ended(self, event: EventRecord) -> None:
        outcome = event.payload["outcome"]
        failed = "" if outcome == "completed" else outcome
        self._end(f"session:{event.session_id}", event, {"adderclaw.run.outcome": outcome}, failed)

    def goal_started(self, event: EventRecord) -> None:
        """Begin the span of a goal: goals are sequential, and the sessions of a goal are its children."""
        payload = event.payload
        about = {
            "adderclaw.workflow": payload["workflow"],
            "adderclaw.goal": payload["goal"],
            "adderclaw.iteration": payload.get("iteration"),
        }
        if (run := self._open.get("run")) is not None:
            run.update_name(f"invoke_workflow {payload['workflow']}")
            run.set_attributes(
                {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": payload["workflow"]}
            )
        self._begin("goal", f"goal {payload['goal']}", event, "run", about)

    def goal_ended(self, event: EventRecord) -> None:
        outcome = event.payload["outcome"]
        failed = "" if outcome == "achieved" else outcome
        self._end("goal", event, {"adderclaw.goal.outcome": outcome, "error.type": failed}, failed)

    def turn_started(self, event: EventRecord) -> None:
        self._begin(f"turn:{event.session_id}", "turn", event, f"session:{event.session_id}", {})

    def turn_ended(self, event: EventRecord) -> None:
        outcome = event.payload["outcome"]
        failed = "" if outcome in ("completed", "") else outcome
        self._end(f"turn:{event.session_id}", event, {"adderclaw.turn.outcome": outcome}, failed)

    def model_asked(self, event: EventRecord) -> None:
        payload = event.payload
        about = {
            **self._labels(payload),
            "gen_ai.conversation.id": event.conversation_id,
            "adderclaw.provider": payload["provider"],
            "adderclaw.attempt": payload["attempt"],
        }
        self._asked[event.session_id] = event.timestamp, payload["model"]
        self._begin(_model_key(event), f"chat {payload['model']}", event, f"turn:{event.session_id}", about)

    def _provider(self, name: str) -> str:
        """The provider's name in the conventions, or its configured name if its kind does not identify it."""
        kind = BY_NAME.get(self._providers.get(name, ""))
        return (kind.telemetry_name if kind else "") or name

    def _labels(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes of a model call, both for its request and for its end, which may name another provider."""
        provider = self._provider(payload["provider"])
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": payload["model"],
        }

    def model_answered(self, event: EventRecord) -> None:
        payload = event.payload
        _, model = self._asked.get(event.session_id, (0.0, payload["model"]))
        labels = {**self._labels(payload), "gen_ai.request.model": model, "gen_ai.response.model": payload["model"]}
        about: dict[str, Any] = {
            **labels,
            "gen_ai.response.finish_reasons": [payload["stop_reason"]],
            "gen_ai.usage.input_tokens": payload["input_tokens"],
            "gen_ai.usage.output_tokens": payload["output_tokens"],
            "adderclaw.cost_usd": payload["cost"],
        }
        if self._content:
            # the format of OpenTelemetry's conventions
            parts = [{"type": "text", "content": payload["text"]}]
            about["gen_ai.output.messages"] = json.dumps(
                [{"role": "assistant", "parts": parts, "finish_reason": payload["stop_reason"]}]
            )
        self._end(_model_key(event), event, about)
        self._tokens.record(payload["input_tokens"], {**labels, "gen_ai.token.type": "input"})
        self._tokens.record(payload["output_tokens"], {**labels, "gen_ai.token.type": "output"})
        self._latency.record(payload["latency_ms"] / 1000, labels)

    def model_failed(self, event: EventRecord) -> None:
        error = event.payload["error"]
        self._end(_model_key(event), event, {"error.type": error}, error)
        began, model = self._asked.get(event.session_id, (event.timestamp, event.payload["model"]))
        labels = {**self._labels(event.payload), "gen_ai.request.model": model, "error.type": error}
        self._latency.record(event.timestamp - began, labels)

    def tool_asked(self, event: EventRecord) -> None:
        payload = event.payload
        about = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": payload["tool"],
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": payload["tool_use_id"],
        }
        if self._content:
            about["gen_ai.tool.call.arguments"] = payload["summary"]
        above = f"turn:{event.session_id}"
        self._begin(f"tool:{payload['tool_use_id']}", f"execute_tool {payload['tool']}", event, above, about)

    def tool_ended(self, event: EventRecord) -> None:
        payload = event.payload
        error = {"tool_failed": payload.get("error_class", ""), "tool_denied": "denied"}.get(event.event_type, "")
        about = {"error.type": error, "adderclaw.decision.by": payload.get("by", "")}
        if (code := payload.get("exit_code")) is not None:
            about["process.exit.code"] = code
        self._end(f"tool:{payload['tool_use_id']}", event, about, error)

    def approval_asked(self, event: EventRecord) -> None:
        payload = event.payload
        about = {"gen_ai.tool.name": payload["tool"], "adderclaw.risk": payload["risk"]}
        above = f"tool:{payload['tool_use_id']}"
        self._begin(f"approval:{payload['approval_id']}", f"approval {payload['tool']}", event, above, about)

    def approval_ended(self, event: EventRecord) -> None:
        payload = event.payload
        approved = bool(payload.get("approved", False))
        about = {"adderclaw.approved": approved, "adderclaw.decision.by": payload.get("by", "timeout")}
        self._end(f"approval:{payload['approval_id']}", event, about)

    def hook_ended(self, event: EventRecord) -> None:
        """Add the span of a hook, whose only event comes at its end: the start is computed from the duration."""
        payload = event.payload
        took = float(payload.get("duration_ms", 0.0)) / 1000
        began = event._replace(timestamp=event.timestamp - took)
        about = {"adderclaw.hook.event": payload["hook_event"], "adderclaw.hook.exit_code": payload["exit_code"]}
        name = f"hook {payload['hook_event']}"
        self._begin("hook", name, began, f"turn:{event.session_id}", about)
        self._end("hook", event, {})


def _parent_context() -> "Context | None":
    """The span of the parent program, such as a fleet or a CI step, if TRACEPARENT names it."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    parent = os.environ.get("TRACEPARENT", "")
    return TraceContextTextMapPropagator().extract({"traceparent": parent}) if parent else None


def _redirect_library_log(say: Callable[[str], None], endpoint: str) -> None:
    """Pass the library's warnings about the service to `say` instead of the log."""
    import logging

    class Redirect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say(f"{endpoint}: {record.getMessage()}")

    logger = logging.getLogger("opentelemetry")
    logger.propagate = False
    logger.handlers = [Redirect(logging.WARNING)]


_HANDLERS = {
    "run_started": Otlp.run_started,
    "run_finished": Otlp.run_ended,
    "run_failed": Otlp.run_ended,
    "subagent_started": Otlp.session_started,
    "subagent_finished": Otlp.session_ended,
    "goal_started": Otlp.goal_started,
    "goal_complete": Otlp.goal_ended,
    "turn_started": Otlp.turn_started,
    "turn_finished": Otlp.turn_ended,
    "llm_request_sent": Otlp.model_asked,
    "llm_response_received": Otlp.model_answered,
    "llm_request_failed": Otlp.model_failed,
    "tool_requested": Otlp.tool_asked,
    "tool_completed": Otlp.tool_ended,
    "tool_failed": Otlp.tool_ended,
    "tool_denied": Otlp.tool_ended,
    "approval_requested": Otlp.approval_asked,
    "approval_answered": Otlp.approval_ended,
    "approval_expired": Otlp.approval_ended,
    "hook_finished": Otlp.hook_ended,
}


def _model_key(event: EventRecord) -> str:
    """The key of a model call: a session makes one at a time."""
    return f"model:{event.session_id}"


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
