"""Telemetry that is on (:class:`atc.traces.telemetry.seam.Telemetry`), and where its spans and metrics go.

They go to what the user's program has set up, else to what the standard variables name. A run waits for none of it.
Ours are sent by threads of their own, out of bounded queues; what does not fit, or cannot be sent, is dropped. At the
end of the process they get :data:`FLUSH_S` seconds.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.metadata
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import unquote

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider as AnyMeterProvider
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, StatusCode, Tracer
from opentelemetry.trace import TracerProvider as AnyTracerProvider

from atc._host.redaction import Redactor
from atc._records.outcome import Outcome
from atc.errors import SettingsError
from atc.tools.tool import Toolset
from atc.traces.telemetry import conventions as names
from atc.traces.telemetry.calls import caller_of
from atc.traces.telemetry.conventions import Content, Metrics
from atc.traces.telemetry.run import RunSpans

SCOPE = "atc"
_HEADERS = (
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
)
_LOCK = threading.Lock()


class OpenTelemetry:
    """Makes the spans and metrics of runs.

    Args:
        content: record tasks, prompts, programs, arguments and values, too.
        baggage: pass the caller's baggage on.

    Raises:
        SettingsError: the standard variables ask for what cannot be had.
    """

    def __init__(self, *, content: bool, baggage: bool) -> None:
        self._content, self._baggage = content, baggage
        check_variables()

    @property
    def secrets(self) -> list[str]:
        """The values of the headers that go to the collector: its keys."""
        pairs = [pair for name in _HEADERS for pair in os.environ.get(name, "").split(",")]
        values = [value.strip() for _, _, value in (pair.partition("=") for pair in pairs)]
        return [form for value in values if value for form in {value, unquote(value)}]

    def run(self, tools: Toolset, redactor: Redactor) -> RunSpans:
        """Observe one run."""
        tracer, metrics = _instruments()
        return RunSpans(tracer, metrics, tools, Content(redactor) if self._content else None, baggage=self._baggage)

    @contextmanager
    def program(self, headers: Mapping[str, str]) -> Iterator[ServedProgram]:
        """Observe one program at a sandbox service: the span goes on with its caller's trace."""
        tracer, _ = _instruments()
        served = ServedProgram(tracer, headers)
        try:
            yield served
        finally:
            served.close()


class ServedProgram:
    """The span of one program at a service. It holds nothing that the program says."""

    def __init__(self, tracer: Tracer, headers: Mapping[str, str]) -> None:
        self._span = tracer.start_span("execute_program", caller_of(headers), SpanKind.SERVER)
        self._how = ""

    def ended(self, how: str, outcome: Outcome | None) -> None:
        """Take how it ended."""
        self._how = how
        self._span.set_attribute("atc.program.outcome", how)
        if outcome is not None:
            self._span.set_attribute("atc.program.isolation", outcome.isolation)
            self._span.set_attribute("atc.program.cpu_s", outcome.cpu_s)
            self._span.set_attribute("atc.program.memory_bytes", outcome.memory_bytes)
        if how != "finished":
            self._span.set_status(StatusCode.ERROR)
            self._span.set_attribute(names.ERROR_TYPE, how)

    def close(self) -> None:
        """End the span."""
        if not self._how:
            self.ended("failed", None)
        self._span.end()


def _instruments() -> tuple[Tracer, Metrics]:
    with _LOCK:
        made = providers()
        return _tracer(made), _metrics(made)


@cache
def _tracer(made: Providers) -> Tracer:
    return made.tracer.get_tracer(SCOPE)


@cache
def _metrics(made: Providers) -> Metrics:
    return Metrics(made.meter.get_meter(SCOPE))


FLUSH_S = 3.0
"""Seconds at the end of the process in which what is left is sent."""
SERVICE = "atc"
HTTP = "http/protobuf"


@dataclass(frozen=True)
class Providers:
    """What makes tracers and meters."""

    tracer: AnyTracerProvider
    meter: AnyMeterProvider


def providers() -> Providers:
    """Those that the user's program has set up for the whole process, as they are now; our own without any.

    A program that has set up one of the two has decided for both: the other one stays off.

    Raises:
        SettingsError: as :func:`check_variables`.
    """
    tracer, meter = trace.get_tracer_provider(), metrics.get_meter_provider()
    unset = type(meter).__name__ == "_ProxyMeterProvider"  # the library has no public name for it
    if isinstance(tracer, trace.ProxyTracerProvider) and unset:
        return _own()
    return Providers(tracer, meter)


def check_variables() -> None:
    """Look whether the standard variables can be followed.

    Raises:
        SettingsError: they name an exporter, or a protocol, that is not there.
    """
    _exporters("OTEL_TRACES_EXPORTER", "opentelemetry_traces_exporter", _span_exporter)
    _exporters("OTEL_METRICS_EXPORTER", "opentelemetry_metrics_exporter", _metric_exporter)


@cache
def _own() -> Providers:
    """Our own, made once. They are not set up for the process: that is its program's business."""
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({} if named else {SERVICE_NAME: SERVICE})
    spans = _exporters("OTEL_TRACES_EXPORTER", "opentelemetry_traces_exporter", _span_exporter)
    figures = _exporters("OTEL_METRICS_EXPORTER", "opentelemetry_metrics_exporter", _metric_exporter)
    mute()
    try:
        readers = [PeriodicExportingMetricReader(QuietMetricExporter(make())) for make in figures]
        meter: Any = NoOpMeterProvider()
        if readers:
            meter = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        tracer = TracerProvider(resource=resource, shutdown_on_exit=False, meter_provider=NoOpMeterProvider())
        for make in spans:
            tracer.add_span_processor(BatchSpanProcessor(QuietSpanExporter(make()), meter_provider=NoOpMeterProvider()))
    except Exception as error:  # whatever an exporter raises as it is made: nothing has begun
        raise SettingsError(f"otel: the OTEL_* variables cannot be followed: {type(error).__name__}: {error}") from None
    _flushed_at_exit([tracer.shutdown, *([meter.shutdown] if readers else [])])
    return Providers(tracer, meter)


def _flushed_at_exit(closes: Sequence[Callable[[], object]]) -> None:
    """Have the last spans sent when the process ends: by a thread that stands ready, for none can be started then."""
    ending, ended = threading.Event(), threading.Event()

    def serve() -> None:
        ending.wait()
        for close in closes:
            try:
                close()
            except Exception:
                logging.getLogger("atc.otel").debug("the end of telemetry", exc_info=True)
        ended.set()

    threading.Thread(target=serve, name="atc-otel", daemon=True).start()
    pid = os.getpid()

    def flush() -> None:
        if os.getpid() == pid:  # a forked child has neither the thread nor anything to send
            ending.set()
            with contextlib.suppress(KeyboardInterrupt):  # who does not want to wait need not
                ended.wait(FLUSH_S)

    atexit.register(flush)


# -- exporters -------------------------------------------------------------------------------------------------------


def _exporters(variable: str, group: str, of_otlp: Callable[[], Any]) -> list[Callable[[], Any]]:
    named = [name.strip() for name in (os.environ.get(variable) or "otlp").split(",")]
    return [_maker(variable, group, name, of_otlp) for name in named if name not in ("", "none")]


def _maker(variable: str, group: str, name: str, of_otlp: Callable[[], Any]) -> Callable[[], Any]:
    if name == "console":
        exporter = ConsoleSpanExporter if "TRACES" in variable else ConsoleMetricExporter
        return lambda: exporter(out=sys.stderr)  # standard output is for answers, and for messages of `atc mcp`
    if name == "otlp":
        kind = "TRACES" if "TRACES" in variable else "METRICS"
        protocol = os.environ.get(f"OTEL_EXPORTER_OTLP_{kind}_PROTOCOL") or os.environ.get(
            "OTEL_EXPORTER_OTLP_PROTOCOL"
        )
        if protocol in (None, "", HTTP):
            return of_otlp
        name = {"grpc": "otlp_proto_grpc"}.get(protocol, protocol)
    found = list(importlib.metadata.entry_points(group=group, name=name))
    if not found:
        raise SettingsError(
            f"otel: there is no exporter {name!r} for {variable}: install the package that brings it, or use otlp over "
            f"{HTTP} (OTEL_EXPORTER_OTLP_PROTOCOL), console or none"
        )
    return lambda: found[0].load()()


def _span_exporter() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _metric_exporter() -> MetricExporter:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter()


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
