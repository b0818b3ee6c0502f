"""On macOS and Windows, as far as it shows on Linux: all can be imported, the rest is refused in words."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.support.package import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["darwin", "win32"])
def found(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.package.elsewhere", request.param],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return request.param, json.loads(ran.stdout)


def test_every_module_is_imported_and_the_command_has_its_help(found: tuple[str, dict[str, Any]]) -> None:
    assert found[1]["broken"] == {}
    assert found[1]["help"]["code"] == 0
    assert "doctor" in found[1]["help"]["out"]


def test_what_needs_linux_is_refused_with_the_reason_and_a_way(found: tuple[str, dict[str, Any]]) -> None:
    platform, facts = found
    name, way = {
        "darwin": ("this is macOS", "--sandbox http://127.0.0.1:8700"),
        "win32": ("this is Windows", "Use ATC in WSL 2"),
    }[platform]
    assert facts["process"].startswith("SandboxUnavailable: the process sandbox locks programs by Landlock and seccomp")
    assert "cannot be done on" in facts["docker"]
    for refusal in (facts["process"], facts["docker"], facts["check"]["out"]):
        assert way in refusal
        assert "Nothing was run" in refusal
    assert name in facts["process"]
    assert facts["check"]["code"] == 3


def test_a_run_asks_no_model_before_it_is_refused(found: tuple[str, dict[str, Any]]) -> None:
    platform, facts = found
    assert facts["run"]["asked"] == 0
    if platform == "win32":
        assert "no flock" in facts["run"]["says"]
        assert "WSL 2" in facts["run"]["says"]
    else:
        assert facts["run"]["says"] == facts["process"].partition(": ")[2]


def test_the_doctor_says_so_as_well(found: tuple[str, dict[str, Any]]) -> None:
    platform, facts = found
    checks = {check["name"]: check for check in json.loads(facts["doctor"]["out"])}
    assert facts["doctor"]["code"] == 3
    assert not checks["sandbox"]["ok"]
    assert checks["system"]["ok"] == (platform != "win32")
    assert ("WSL 2" if platform == "win32" else "http://127.0.0.1:8700") in checks["sandbox"]["fix"]
