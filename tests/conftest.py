"""What all tests share: no test sees the user's settings, or writes into the user's runs."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from atc.models.endpoint_errors import retried
from atc.sandboxes.contract import Limits, Sandbox
from atc.sandboxes.drivers import limits_from, open_sandbox
from atc.settings import Settings
from tests.support import off_loop
from tests.support.inline import Inline
from tests.support.sandbox import adopt_orphans, left_behind

# Where no bytecode is written, each worker rewrites every test module again, and each process of a test compiles ATC.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# the same examples every time, and no limit in seconds: a test fails for what it looks at, not for the machine's mood
settings.register_profile(
    "steady", max_examples=25, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# `make test-slow` names it: others for every day of commits, of a seed that the head of the run says
settings.register_profile(
    "whole", settings.get_profile("steady"), max_examples=300, derandomize=False, database=None, print_blob=True
)
settings.load_profile("steady")
_WORLDS = itertools.count()
os.fsync = lambda descriptor: None  # no power is cut here, and a disk takes its time; processes that are killed keep it


def seed_of_the_day() -> int:
    """Return the day of the commit, so that its author and all others try the same; without git, a drawn number."""
    told = subprocess.run(
        ["git", "log", "-1", "--format=%cs"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return int(told.stdout.replace("-", "")) if told.returncode == 0 else random.SystemRandom().randrange(10**9)


@pytest.hookimpl(tryfirst=True)  # Hypothesis's own reads the seed
def pytest_configure(config: pytest.Config) -> None:
    """Draw and say the seed of fresh examples, also for workers; and let who is started here be interrupted.

    Who was started in the background ignores an interrupt, and so would all whom the tests start to interrupt.
    """
    if config.option.hypothesis_profile == "whole" and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(seed_of_the_day())
        print(f"generated inputs: --hypothesis-profile whole --hypothesis-seed {config.option.hypothesis_seed}")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What only holds slow tests is not imported where those are left out: that would take seconds in each worker."""
    if config.option.markexpr != "not slow" or collection_path.suffix != ".py":
        return None
    return "\npytestmark = pytest.mark.slow" in collection_path.read_text(encoding="utf-8") or None


def pytest_collection() -> None:
    """Nothing is garbage while tests are collected, and to look for it takes a fifth of that time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What pytest has collected stays to the end: no search for garbage goes through it again."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.get_freeze_count = lambda: 1  # ATC asks at each command whether something is frozen: to count it takes 60 ms


@pytest.fixture(autouse=True)
def _own_world(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if "tmp_path" in request.fixturenames:
        own = request.getfixturevalue("tmp_path")
    else:  # it is made by what writes there: most tests write nothing
        own = tmp_path_factory.getbasetemp() / f"world-{next(_WORLDS)}"
    for name in os.environ:
        if name.startswith(("ATC_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ATC_RUNS_DIR", str(own / "runs"))
    monkeypatch.setenv("ATC_CATALOGUE", str(own / "catalogue"))
    monkeypatch.setenv("ATC_RETRIEVAL", "hybrid")  # the default finds by meaning where this machine has an encoder
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own / "config"))
    monkeypatch.setenv("ATC_AUDIT", str(own / "audit.jsonl"))


@pytest.fixture(autouse=True)
def _failures_hold_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """An exception that is a parameter outlives its test, and would hold all that was alive where it was raised."""
    yield
    for value in request.node.callspec.params.values() if hasattr(request.node, "callspec") else ():
        if isinstance(value, BaseException):
            value.__traceback__ = value.__context__ = value.__cause__ = None


CAME_IN = off_loop.watch()


@pytest.fixture(autouse=True)
def _no_store_has_the_loop() -> Iterator[None]:
    """A store may stand for as long as its disk or its database does, and no event loop of ATC's stands with it."""
    yield
    found = sorted({*CAME_IN})
    CAME_IN.clear()
    assert not found, "a store was called in the thread of an event loop: " + "; ".join(found)


class OneSandbox:
    """The sandbox that agents of all tests open: to start one for each would be most of the tests' time."""

    def __init__(self) -> None:
        self.sandbox: Sandbox | None = None

    def open(self, settings: Settings, limits: Limits | None = None) -> Sandbox:
        """As :func:`atc.sandboxes.drivers.open_sandbox`, which is asked where anything about the sandbox is set."""
        about = {name for name in settings.model_fields_set if name.startswith("sandbox")}
        if about or limits is not None or limits_from(settings) != Limits():
            return open_sandbox(settings, limits)
        if self.sandbox is None:
            self.sandbox = open_sandbox(settings)
            self.sandbox.aclose = _stays_open  # type: ignore[method-assign]
        return self.sandbox

    def close(self) -> None:
        """End its processes."""
        if self.sandbox is not None:
            sandbox, self.sandbox = self.sandbox, None
            asyncio.run(type(sandbox).aclose(sandbox))


async def _stays_open() -> None:
    """An agent lets go of it."""


@pytest.fixture(scope="session")
def _sandbox_of_all() -> Iterator[OneSandbox]:
    one = OneSandbox()
    yield one
    one.close()


@pytest.fixture(autouse=True)
def _one_sandbox(request: pytest.FixtureRequest, _sandbox_of_all: OneSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents share a sandbox, but where a test looks at the life of one."""
    if "nothing_left" in request.fixturenames or request.node.get_closest_marker("own_sandbox"):
        _sandbox_of_all.close()  # it is no part of what the test counts
    elif request.node.get_closest_marker("inline"):
        monkeypatch.setattr("atc.run.resources.open_sandbox", lambda *given, **named: Inline())
    else:
        monkeypatch.setattr("atc.run.resources.open_sandbox", _sandbox_of_all.open)


@pytest.fixture
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that is not there is tried again as often, and at once."""
    monkeypatch.setattr("atc.models.openai_compatible.retried", lambda most, backoff_s: retried(most, 0.0))


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """After the test: no sandbox process is left that was not there before it, whoever died how."""
    adopt_orphans()
    before = _processes()
    yield
    deadline = time.monotonic() + 30
    while (left := _processes() - before) and time.monotonic() < deadline:
        gc.collect()  # a sandbox that nobody closed ends its processes when nobody, and no thread, has it any more
        time.sleep(0.02)
    assert left == set()


def _processes() -> set[int]:
    """The sandbox processes, once nobody is starting one (half a minute at most)."""
    for thread in threading.enumerate():
        if thread.name == "atc-sandbox":
            thread.join(30)
    return left_behind()
