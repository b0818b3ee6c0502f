"""Telemetry as the rest of ATC sees it: off, or something that hears of each run. It imports no telemetry library.

What it is made of stands in :mod:`atc.traces.telemetry`, which is loaded where the setting ``otel`` is on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol as Interface

from atc._host.redaction import Redactor
from atc._records.events import Event
from atc._records.outcome import Outcome
from atc.errors import EnvironmentProblem
from atc.models.base import Model
from atc.settings import Settings
from atc.tools.tool import Toolset


class RunTelemetry(Interface):
    """What one run is reported to. Nothing of it raises, or waits for anybody."""

    def heard(self, event: Event) -> None:
        """Take an event of the run, credentials masked. It is called where and when the event happens: in the task that
        goes on with it."""
        ...

    def model(self, model: Model) -> Model:
        """The same model, whose requests are reported."""
        ...


class ProgramTelemetry(Interface):
    """What one program at a sandbox service is reported to."""

    def ended(self, how: str, outcome: Outcome | None) -> None:
        """Take how it ended, in a word."""
        ...


class Telemetry(Interface):
    """Telemetry that is on."""

    @property
    def secrets(self) -> list[str]:
        """What no trace may show of it: credentials for where it is sent to."""
        ...

    def run(self, tools: Toolset, redactor: Redactor) -> AbstractContextManager[RunTelemetry]:
        """Observe one run.

        Args:
            tools: of the agent.
            redactor: of the run.

        Raises:
            SettingsError: the standard variables ask for what cannot be had. Nothing was begun.
        """
        ...

    def program(self, headers: Mapping[str, str]) -> AbstractContextManager[ProgramTelemetry]:
        """Observe one program at a sandbox service.

        Args:
            headers: of its caller's request: the trace that they name goes on.
        """
        ...


_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The standard variable for tasks, prompts, programs, arguments and values in spans."""


def open_telemetry(settings: Settings) -> Telemetry | None:
    """The telemetry that the settings ask for; ``None`` where it is off.

    Raises:
        EnvironmentProblem: it is on, and its libraries are not installed.
        SettingsError: the standard variables (``OTEL_…``) ask for what cannot be had.
    """
    if not settings.otel:
        return None
    try:
        from atc.traces.telemetry.telemetry import OpenTelemetry
    except ImportError as error:
        from atc._host.extras import install_command

        raise EnvironmentProblem(
            f"otel is on, and {error.name} is not installed: {install_command('otel')}, or turn it off (ATC_OTEL)"
        ) from None
    content = os.environ.get(_CONTENT, "").strip().lower() in ("true", "span_only", "span_and_event")
    names = [name.strip() for name in os.environ.get("OTEL_PROPAGATORS", "").split(",")]
    return OpenTelemetry(content=content, baggage="baggage" in names)
