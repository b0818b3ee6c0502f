"""The archives that a user gets, built once, and an environment that holds nothing but what they bring."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".venv-release" / "bin"
"""Where `make release-tools` puts what releases are made and checked with."""


def release_tool(name: str) -> str:
    """The path of a release tool; without it the test says that it is skipped."""
    path = TOOLS / name
    if not path.exists():
        pytest.skip(f"{name} is not installed: run `make release-tools`")
    return str(path)


@dataclass(frozen=True)
class Archives:
    """The two archives of a release."""

    wheel: Path
    sdist: Path


def build(folder: Path, source: Path = ROOT) -> Archives:
    """Build both archives: the sdist from a source tree, and the wheel from that sdist, as the index's users would."""
    run(release_tool("python"), "-m", "build", "--no-isolation", "--outdir", str(folder), str(source))
    return Archives(next(folder.glob("*.whl")), next(folder.glob("*.tar.gz")))


@dataclass(frozen=True)
class Installed:
    """An environment outside the repository with the wheel and some extras.

    Attributes:
        folder: of the environment.
        home: an empty home of a user who has never used ATC.
    """

    folder: Path
    home: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def atc(self) -> str:
        return str(self.folder / "bin" / "atc")

    def __call__(self, *command: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command there: in the empty home, with no variable of this process that ATC or Python reads."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ATC_", "OPENAI_", "PYTHON", "XDG_", "VIRTUAL_ENV"))
        }
        kept |= {"HOME": str(self.home), "PATH": f"{self.folder / 'bin'}:{kept.get('PATH', '')}", **environment}
        return subprocess.run(
            command, cwd=self.home, env=kept, capture_output=True, text=True, timeout=timeout, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip


def install(wheel: Path, extras: str, folder: Path) -> Installed:
    """Make an environment with the wheel and extras; the test is skipped where the package index cannot be had."""
    uv, home = release_tool("uv"), folder / "home"
    home.mkdir()
    run(uv, "venv", "--quiet", "--python", sys.executable, str(folder / "env"))
    done = Installed(folder / "env", home)
    run(uv, "pip", "install", "--quiet", "--python", done.python, f"{wheel}[{extras}]")
    return done


def run(*command: str, cwd: Path | None = None) -> str:
    """Run a command that must work, and return what it printed."""
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, f"{command}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}"
    return ran.stdout


@cache
def tracked(*folders: str) -> frozenset[str]:
    """The files under folders that the repository holds."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout: what belongs to the repository cannot be told")
    # what is new is meant as well, so that the tests can be run before a commit
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", *folders, cwd=ROOT).splitlines()
    return frozenset(name for name in listed if (ROOT / name).exists())


def document(ran: subprocess.CompletedProcess[str]) -> Any:
    """The JSON document that a command printed."""
    assert ran.stdout, ran.stderr
    return json.loads(ran.stdout)
