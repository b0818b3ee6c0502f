"""What telemetry sent: recorded in this process, or received over OTLP/HTTP from another."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from atc.traces.telemetry.telemetry import Providers
from tests.support.http import Handler, served


class Recorded:
    """Providers that keep what they are given, by the SDK's own exporters for tests."""

    def __init__(self) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracer = TracerProvider(shutdown_on_exit=False)
        tracer.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.providers = Providers(tracer, MeterProvider([self._reader], shutdown_on_exit=False))

    @property
    def spans(self) -> list[ReadableSpan]:
        """All spans, as they ended."""
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """The spans of this name, as they began."""
        return sorted((span for span in self.spans if span.name == name), key=lambda span: span.start_time or 0)

    def one(self, name: str) -> ReadableSpan:
        """The only span of this name."""
        (span,) = self.named(name)
        return span

    def tree(self) -> list[tuple[str, str | None]]:
        """Each span's name with that of its parent; ``"?"`` for a parent that was not recorded."""
        known = {span.context.span_id: span.name for span in self.spans}
        parents = [(span, span.parent) for span in sorted(self.spans, key=lambda span: span.start_time or 0)]
        return [(span.name, None if up is None else known.get(up.span_id, "?")) for span, up in parents]

    def metrics(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """The points of each metric: its attributes, and its sum."""
        data = self._reader.get_metrics_data()
        found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = [(dict(point.attributes or {}), _sum(point)) for point in metric.data.data_points]
                    found.setdefault(metric.name, []).extend(points)
        return found


def named(span: ReadableSpan) -> str:
    """How ``traceparent`` names a span; its flags follow."""
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-"


def _sum(point: Any) -> Any:
    return point.sum if hasattr(point, "sum") else point.value


@dataclass
class Received:
    """What came to a receiver of OTLP over HTTP."""

    url: str
    spans: list[Any] = field(default_factory=list)
    metrics: list[Any] = field(default_factory=list)
    resources: list[dict[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)


@contextmanager
def receiving(status: int = 200, answer: bytes = b"", hold: threading.Event | None = None) -> Iterator[Received]:
    """A receiver of OTLP over HTTP, which reads the official messages. It is no collector: it keeps what comes.

    Args:
        status: of each answer.
        answer: the body of each.
        hold: no answer comes before it is set.
    """

    class Receiver(Handler):
        def do_POST(self) -> None:
            body = self.read_body()
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            got.headers.append(dict(self.headers))
            got.bodies.append(body)
            if self.path.endswith("traces"):
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    got.resources.append({each.key: each.value.string_value for each in resource.resource.attributes})
                    got.spans.extend(span for scope in resource.scope_spans for span in scope.spans)
            else:
                for of in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    got.metrics.extend(metric for scope in of.scope_metrics for metric in scope.metrics)
            if hold is not None:
                hold.wait(60)
            self.say(status, answer, "application/x-protobuf")

    got = Received("")
    with served(Receiver) as got.url:
        try:
            yield got
        finally:
            if hold is not None:
                hold.set()
