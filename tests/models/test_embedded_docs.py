"""What the page of installing shows, for real: its first command, answered by the embedded model."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

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
