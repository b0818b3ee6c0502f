"""What the README shows, for real: its example and its first command, answered by the embedded model."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from atc.errors import ModelUnavailable
from atc.models import EmbeddedModel
from tests.support.docs import ROOT, blocks

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _model() -> None:
    try:
        EmbeddedModel().check()
    except ModelUnavailable as missing:
        pytest.skip(f"the embedded model cannot be had here: {missing}")


def test_the_example_of_the_readme_answers_rightly(tmp_path: Path) -> None:
    (source,) = [source for name, source in blocks("python") if name == "README.md-0"]
    (tmp_path / "example.py").write_text(source)
    ran = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
    )
    assert ran.stdout == "answered 7.5\n", ran.stdout + ran.stderr


def test_the_first_command_of_the_readme_answers_rightly(tmp_path: Path) -> None:
    shown = (ROOT / "README.md").read_text().splitlines()
    line = next(line for line in shown if line.startswith("$ atc run "))
    command = [sys.executable, "-m", *shlex.split(line)[1:], "--json"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    result = json.loads(ran.stdout)
    assert (result["status"], result["value"]) == ("answered", 520774), result["program"]
