"""Where spans and metrics go: to what the user's program has set up, else to what the standard variables name.

A run waits for none of it. Ours are sent by threads of their own, out of bounded queues; what does not fit, or cannot
be sent, is dropped. At the end of the process they get :data:`FLUSH_S` seconds.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.metadata
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider as AnyMeterProvider
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import TracerProvider as AnyTracerProvider

from atc.errors import SettingsError
from atc.faces.otel.quiet import QuietMetricExporter, QuietSpanExporter, mute

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
    if isinstance(tracer, trace.ProxyTracerProvider) and _is_unset(meter):
        return _own()
    return Providers(tracer, meter)


def check_variables() -> None:
    """Look whether the standard variables can be followed.

    Raises:
        SettingsError: they name an exporter, or a protocol, that is not there.
    """
    _exporters("OTEL_TRACES_EXPORTER", "opentelemetry_traces_exporter", _span_exporter)
    _exporters("OTEL_METRICS_EXPORTER", "opentelemetry_metrics_exporter", _metric_exporter)


def _is_unset(meter: AnyMeterProvider) -> bool:
    return type(meter).__name__ == "_ProxyMeterProvider"  # the library has no public name for it


@cache
def _own() -> Providers:
    """Our own, made once. They are not set up for the process: that is its program's business."""
    resource = Resource.create({} if _names_service() else {SERVICE_NAME: SERVICE})
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


def _names_service() -> bool:
    return bool(os.environ.get("OTEL_SERVICE_NAME")) or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )


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
    """What makes the exporters that a variable names, ``otlp`` by default.

    Raises:
        SettingsError: there is no such exporter.
    """
    named = [name.strip() for name in (os.environ.get(variable) or "otlp").split(",")]
    return [_maker(variable, group, name, of_otlp) for name in named if name not in ("", "none")]


def _maker(variable: str, group: str, name: str, of_otlp: Callable[[], Any]) -> Callable[[], Any]:
    if name == "console":
        return _span_console if "TRACES" in variable else _metric_console
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


def _span_console() -> SpanExporter:
    return ConsoleSpanExporter(out=sys.stderr)  # standard output is for answers, and for messages of `atc mcp`


def _metric_console() -> MetricExporter:
    return ConsoleMetricExporter(out=sys.stderr)


def _span_exporter() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _metric_exporter() -> MetricExporter:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter()
