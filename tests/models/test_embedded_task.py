"""One easy task, for real: the embedded model writes, the jail runs, the broker calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from atc import Agent
from atc.atlas import atlas_toolset
from atc.errors import ModelUnavailable
from atc.models.embedded import EmbeddedModel


@pytest.mark.slow
def test_the_embedded_model_solves_or_fails_in_order(tmp_path: Path) -> None:
    model = EmbeddedModel()
    try:
        model.check()
    except ModelUnavailable as missing:
        pytest.skip(f"the embedded model cannot be had here: {missing}")
    tools = atlas_toolset().only("find_cities", "get_city", "sun_times")
    with Agent(tools, model="embedded", runs_dir=tmp_path) as agent:
        result = agent.run("What is the population of Lyon in France? Answer with the number.")
    assert result.program, "a program was written"
    assert result.calls or result.fault, "it ran, or a fault says why not"
    assert result.usage.model_calls >= 1
    if result.status == "answered":
        assert result.value is not None
        assert any(call.succeeded for call in result.calls)
        assert result.isolation in ("process/N", "process/L")
    else:
        assert result.fault is not None
        assert result.fault.message
