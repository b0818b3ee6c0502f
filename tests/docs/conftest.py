"""What a document sets up for its process is gone after it."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.util._once import Once


@pytest.fixture(autouse=True)
def _no_tracing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
