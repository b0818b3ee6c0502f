"""Which driver a name means, and drivers that come from other packages."""

from __future__ import annotations

import asyncio
import importlib.metadata
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from atc.errors import SettingsError
from atc.parts import SANDBOXES
from atc.sandboxes import drivers
from atc.sandboxes.contract import Limits, Sandbox
from atc.sandboxes.docker.driver import DockerSandbox
from atc.sandboxes.process.driver import ProcessSandbox
from atc.sandboxes.remote.client import ServiceSandbox
from atc.settings import Settings

MODULE = """
from atc._records.outcome import Outcome
from atc.sandboxes.contract import Sandbox

class Nowhere(Sandbox):
    name = "nowhere"

    def __init__(self, spec, limits):
        self.spec, self.limits = spec, limits

    async def prepare(self): pass

    async def run(self, job, call):
        return Outcome("finished", answered=True, value=job.program, isolation="F")

    async def aclose(self): pass

def opened(settings, limits):
    return Nowhere(settings.sandbox, limits)

def wrong(settings, limits):
    return "no sandbox"

number = 7
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Have another package's drivers: name → object of its module."""
    (tmp_path / "other_sandboxes.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "other_sandboxes", raising=False)

    def install(**points: str) -> None:
        made = [EntryPoint(name.replace("_", "-"), value, SANDBOXES.group) for name, value in points.items()]
        real = importlib.metadata.entry_points
        entry_points: Any = lambda group: made if group == SANDBOXES.group else real(group=group)  # noqa: E731
        monkeypatch.setattr("importlib.metadata.entry_points", entry_points)

    return install


def opened(spec: str, **settings: Any) -> Sandbox:
    return drivers.open_sandbox(Settings.load(sandbox=spec, **settings))


@pytest.mark.parametrize(
    ("spec", "kind"), [("process", ProcessSandbox), ("docker", DockerSandbox), ("docker:strict", DockerSandbox)]
)
def test_the_drivers_of_atc_have_names(spec: str, kind: type[Sandbox]) -> None:
    assert type(opened(spec)) is kind


@pytest.mark.parametrize("spec", ["http://127.0.0.1:8700", "https://sandboxes.example"])
def test_an_address_is_a_service(spec: str) -> None:
    assert type(opened(spec, sandbox_token="a-token-of-the-tests-0123456789")) is ServiceSandbox


def test_another_package_s_driver_is_loaded_when_its_name_is_given_and_no_sooner(install: Install) -> None:
    install(nowhere="other_sandboxes:opened", broken="no_such_module:x")
    opened("process")
    assert "other_sandboxes" not in sys.modules
    sandbox = drivers.open_sandbox(Settings.load(sandbox="nowhere"), Limits(wall_s=3.0))
    assert (sandbox.name, sandbox.limits.wall_s) == ("nowhere", 3.0)
    assert getattr(opened("nowhere:fast"), "spec", "") == "nowhere:fast"


def test_a_driver_that_says_nothing_of_its_isolation_is_asked_by_an_empty_program(install: Install) -> None:
    install(nowhere="other_sandboxes:opened")
    sandbox = opened("nowhere")
    assert asyncio.run(sandbox.isolation()) == "F"


def test_no_other_package_takes_the_name_of_a_driver_of_ours(install: Install) -> None:
    install(process="other_sandboxes:opened", docker="other_sandboxes:opened")
    assert type(opened("process")) is ProcessSandbox
    assert type(opened("docker:strict")) is DockerSandbox


def test_an_unknown_driver_is_an_error_that_names_the_known_ones(install: Install) -> None:
    install(nowhere="other_sandboxes:opened")
    with pytest.raises(
        SettingsError, match=r"no sandbox driver is named 'podman': there are process, .*http, https, nowhere"
    ):
        opened("podman")
    assert "other_sandboxes" not in sys.modules


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("no_such_module:x", "cannot be imported: ModuleNotFoundError"),
        ("other_sandboxes:missing", "cannot be imported: AttributeError"),
        ("other_sandboxes:number", "is no function"),
        ("other_sandboxes:wrong", "made a str"),
    ],
)
def test_a_driver_that_cannot_be_used_is_an_error_that_names_it(install: Install, value: str, words: str) -> None:
    install(nowhere=value)
    with pytest.raises(SettingsError, match=f"sandbox driver 'nowhere' .*{words}"):
        opened("nowhere")
