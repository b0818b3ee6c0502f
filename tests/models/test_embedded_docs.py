"""The embedded model for real: the first command of the page of installing, and one easy task."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from atc import Agent
from atc.atlas import atlas_toolset
from atc.errors import ModelUnavailable
from atc.models.embedded import EmbeddedModel
from tests.support.docs import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _model() -> None:
    try:
        EmbeddedModel().check()
    except ModelUnavailable as missing:
        pytest.skip(f"the embedded model cannot be had here: {missing}")


def test_the_first_command_after_installing_answers_rightly(tmp_path: Path) -> None:
    shown = (ROOT / "docs" / "install.md").read_text().splitlines()
    line = next(line for line in shown if line.startswith("atc run "))
    command = [sys.executable, "-m", *shlex.split(line), "--json"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    result = json.loads(ran.stdout)
    assert (result["status"], result["value"]) == ("answered", 520774), result["program"]


def test_the_embedded_model_solves_or_fails_in_order(tmp_path: Path) -> None:
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
