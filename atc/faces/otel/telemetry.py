"""Telemetry that is on (:class:`atc.telemetry.Telemetry`)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from urllib.parse import unquote

from opentelemetry.trace import SpanKind, StatusCode, Tracer

from atc.calls.redact import Redactor
from atc.faces.otel import conventions as names
from atc.faces.otel.content import Content
from atc.faces.otel.metrics import Metrics
from atc.faces.otel.placing import caller_of
from atc.faces.otel.providers import Providers, check_variables, providers
from atc.faces.otel.run import RunSpans
from atc.outcome import Outcome
from atc.tools.tool import Toolset

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
