"""Runs that show few of many tools: as prompts without a list do."""

from __future__ import annotations

from typing import Any

import pytest


def few(monkeypatch: pytest.MonkeyPatch, count: int) -> dict[str, Any]:
    """Have so many tools shown at most; return the settings of such a run."""
    monkeypatch.setattr("atc.catalogue.sketch.FEW", count)
    return {"stub_tokens": 1, "list_tokens": 0}
