"""What the README's two commands do, as far as it shows without installing anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *words, "VENV=nowhere"],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_demo_names_its_model_whatever_the_environment_has() -> None:
    (run,) = [line for line in make("-n", "demo", OPENAI_API_KEY="x").stdout.splitlines() if "atc run" in line]
    assert "--model embedded" in run
    assert "--sandbox" not in run


def test_the_demo_in_a_container_builds_a_missing_image_first() -> None:
    planned = make("-n", "demo", "SANDBOX=docker", "IMAGE=mine").stdout
    order = [planned.index(words) for words in ("docker version", "docker image inspect mine", "atc run")]
    assert order == sorted(order)
    assert "docker build" in planned
    assert "ATC_SANDBOX_IMAGE=mine nowhere/bin/atc run" in planned
    assert "--model embedded --sandbox docker" in planned


def test_the_tests_have_the_strategies_of_research_beside_atc() -> None:
    planned = make("-n", "test").stdout
    assert planned.index("-e ./research") < planned.index("-m pytest")


def test_without_an_engine_the_demo_says_so_before_it_installs_anything() -> None:
    ran = make("demo", "SANDBOX=docker", DOCKER_HOST="unix:///nowhere/docker.sock")
    assert ran.returncode != 0
    assert "no Docker engine answers: start Docker" in ran.stdout
    assert not (ROOT / "nowhere").exists()
