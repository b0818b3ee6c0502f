"""Exporters that say once that they cannot send, and not again until they could."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

_log = logging.getLogger("atc.otel")
_here = threading.local()
_TALKERS = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.common.http",
    "opentelemetry.exporter.http.transport",
    "urllib3.connectionpool",
)


class _NotOurs(logging.Filter):
    """Keeps back what is logged while one of our exporters works in this thread; another's exporters log as ever."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(_here, "exporting", False)


_NOT_OURS = _NotOurs()


def mute() -> None:
    """Keep back the libraries' own lines about each failed attempt of our exporters."""
    for name in _TALKERS:
        logging.getLogger(name).addFilter(_NOT_OURS)  # a filter that is there already is not added again


class _Once:
    """One line when sending begins to fail, and one when it works again."""

    def __init__(self, what: str) -> None:
        self._what, self._failing = what, False

    def tried(self, work: Callable[[], Any], succeeded: Any, failed: Any) -> Any:
        """Return what ``work`` returns; ``failed`` where it raises."""
        _here.exporting = True
        try:
            result = work()
            why = ""
        except Exception as error:  # whatever the library raises: the thread goes on
            result, why = failed, f" ({type(error).__name__})"
        finally:
            _here.exporting = False
        if result != succeeded and not self._failing:
            self._failing = True
            _log.warning(
                "%s cannot be sent%s and are dropped: is the collector up (OTEL_EXPORTER_OTLP_ENDPOINT)? Runs go on",
                self._what,
                why,
            )
        elif result == succeeded and self._failing:
            self._failing = False
            _log.warning("%s are sent again", self._what)
        return result


class QuietSpanExporter(SpanExporter):
    """An exporter of spans around another."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner, self._once = inner, _Once("spans")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result: SpanExportResult = self._once.tried(
            lambda: self._inner.export(spans), SpanExportResult.SUCCESS, SpanExportResult.FAILURE
        )
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


class QuietMetricExporter(MetricExporter):
    """An exporter of metrics around another."""

    def __init__(self, inner: MetricExporter) -> None:
        super().__init__(inner._preferred_temporality, inner._preferred_aggregation)
        self._inner, self._once = inner, _Once("metrics")

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        result: MetricExportResult = self._once.tried(
            lambda: self._inner.export(metrics_data, timeout_millis, **kwargs),
            MetricExportResult.SUCCESS,
            MetricExportResult.FAILURE,
        )
        return result

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._inner.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self._inner.shutdown(timeout_millis, **kwargs)
