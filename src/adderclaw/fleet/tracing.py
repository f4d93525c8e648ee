"""One trace from the submission to the last tool call: spans of the submitter and of workers around those of a run."""

import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from adderclaw import __version__

if TYPE_CHECKING:
    from adderclaw.config.schema import Config

VARIABLE = "TRACEPARENT"
"""The span that another program started, in the format of the W3C's Trace Context."""
_PARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")
SECONDS = 2.0
"""How long a program waits at its end for remaining spans to be sent."""


def given() -> str:
    """The span that this program was started in; empty if there is none."""
    traceparent = os.environ.get(VARIABLE, "")
    return traceparent if _PARENT.fullmatch(traceparent) else ""


class Span:
    """A running span. `parent` is passed to the spans below it."""

    def __init__(self, span: Any, above: str) -> None:
        self._span = span
        if span is None:  # not exported, but the trace needs an id that connects its parts
            match = _PARENT.fullmatch(above)
            self.parent = above if match else f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
            return
        known = span.get_span_context()
        self.parent = f"00-{known.trace_id:032x}-{known.span_id:016x}-01"

    def end(self, attributes: Mapping[str, Any] | None = None) -> None:
        """Ends the span; later calls have no effect."""
        span, self._span = self._span, None
        if span is not None:
            for name, value in (attributes or {}).items():
                span.set_attribute(name, value)
            span.end()


class Tracing:
    """Exports spans to the OTLP endpoint of this home's configuration, if there is one."""

    def __init__(self, config: "Config") -> None:
        settings = config.telemetry
        self._provider: Any = None
        if not settings.enabled or settings.protocol != "otlp":
            return
        import logging

        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # an unavailable service only loses spans
        base = (settings.endpoint or "").rstrip("/").removesuffix("/v1/traces")
        about = {"service.name": "adderclaw-fleet", "service.version": __version__}
        self._provider = TracerProvider(resource=Resource(about), shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=f"{base}/v1/traces", timeout=SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1_000))

    def begin(self, name: str, above: str, attributes: Mapping[str, Any]) -> Span:
        if self._provider is None:
            return Span(None, above)
        from opentelemetry import trace

        context: Any = None
        if match := _PARENT.fullmatch(above):
            known = trace.SpanContext(
                int(match[1], 16), int(match[2], 16), is_remote=True, trace_flags=trace.TraceFlags(1)
            )
            context = trace.set_span_in_context(trace.NonRecordingSpan(known))
        tracer = self._provider.get_tracer("adderclaw.fleet", __version__)
        return Span(tracer.start_span(name, context, attributes=dict(attributes)), above)

    def close(self) -> None:
        if self._provider is not None:
            with suppress(Exception):
                self._provider.force_flush(int(SECONDS * 1000))
                self._provider.shutdown()
