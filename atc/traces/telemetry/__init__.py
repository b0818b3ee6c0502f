"""OpenTelemetry: the user's own tracing shows runs, model calls, programs and tool calls.

Spans and metrics follow the GenAI semantic conventions (:mod:`atc.traces.telemetry.conventions`). Nothing here is
imported unless the setting ``otel`` is on (:func:`atc.traces.telemetry.seam.open_telemetry`).
"""
