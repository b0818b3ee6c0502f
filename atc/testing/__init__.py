"""Replay recorded runs in your tests: a pytest plugin.

``atc runs record RUN`` writes ``test_NAME.py`` and ``test_NAME.json``. The test names this plugin itself, so ``pytest``
runs it; with ``pytest -p atc.testing`` your own tests have its fixtures and its option, too:

* ``atc_replay(file)`` replays a recording in ATC's sandbox, fails the test where the run differs, and returns the
  answer. Nothing is called: no tool, no model, no service.
* ``atc_tools``: the tools that you have now, so that their schemas are held against the recorded ones. It is ``None``
  without ``--atc-tools``; define a fixture of that name in your ``conftest.py`` to give them from Python.
* ``atc_sandbox``: where programs run, for the whole session, by the settings (``ATC_SANDBOX``).

Nothing here is loaded unless pytest is told to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from atc._host.blocking import wait_for
from atc._records.recording import Difference, Recording
from atc.errors import AtcError, SandboxUnavailable
from atc.run.recorded_file import read_recording
from atc.run.recording import recorded_tool
from atc.run.replay import replay, tool_changes
from atc.sandboxes.contract import Sandbox
from atc.sandboxes.drivers import open_sandbox
from atc.settings import Settings
from atc.tools.sources import open_tools
from atc.tools.tool import Toolset
from atc.wording import replays

__all__ = ["AtcReplay", "atc_replay", "atc_sandbox", "atc_tools"]


class AtcReplay(Protocol):
    """Replays a recording: what the fixture ``atc_replay`` is."""

    def __call__(self, file: str | Path, *, program: str | None = None, inputs: Mapping[str, Any] | None = None) -> Any:
        """Replay a recording and return the answer, as JSON values and bytes.

        Args:
            file: ``test_NAME.json``, or the test beside it: ``__file__``.
            program: another program over the same tools, in place of the recorded one: it must make the same calls and
                give the same answer.
            inputs: the values in its scope, in place of the recorded ones.
        """


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's option."""
    parser.getgroup("atc", "recorded runs of ATC").addoption(
        "--atc-tools",
        action="append",
        metavar="SOURCE",
        help="hold the recorded tools against those that SOURCE has now, as `atc run --tools` reads it",
    )


@pytest.fixture(scope="session")
def atc_tools(request: pytest.FixtureRequest) -> Toolset | Iterable[Callable[..., Any]] | None:
    """Return the tools of ``--atc-tools``; ``None`` without it. Yours in its place returns a toolset, or functions."""
    sources = request.config.getoption("--atc-tools", None)
    return open_tools(sources) if sources else None


@pytest.fixture(scope="session")
def atc_sandbox() -> Iterator[Sandbox]:
    """Open the sandbox of the settings, once for all tests of the session."""
    failure = ""
    try:
        sandbox = open_sandbox(Settings.load())
    except AtcError as error:
        failure = f"no recorded run can be replayed: {error}"
    if failure:
        pytest.fail(failure, pytrace=False)
    yield sandbox
    with contextlib.suppress(AtcError):
        wait_for(sandbox.aclose())


@pytest.fixture
def atc_replay(atc_sandbox: Sandbox, atc_tools: Toolset | Iterable[Callable[..., Any]] | None) -> AtcReplay:
    """Return what replays a recording: the test fails where its calls, its answer or its tools are others."""

    def replayed(file: str | Path, *, program: str | None = None, inputs: Mapping[str, Any] | None = None) -> Any:
        __tracebackhide__ = True
        failure = ""  # a test fails behind the exception, which else would stand there, too
        try:
            recorded = read_recording(Path(file))
            made = wait_for(replay(recorded, sandbox=atc_sandbox, program=program, inputs=inputs))
            drifted = _drift(recorded, atc_tools)
        except SandboxUnavailable as error:
            failure = f"the recorded run cannot be replayed here, for there is no sandbox: {error}"
        except AtcError as error:
            failure = str(error)
        if failure:
            pytest.fail(failure, pytrace=False)
        if found := (*drifted, *made.differences):
            pytest.fail(_failure(recorded, Path(file), found, made.left_out), pytrace=False)
        return made.value

    return replayed


def _drift(recorded: Recording, tools: Toolset | Iterable[Callable[..., Any]] | None) -> list[Difference]:
    """Return which of the recorded tools are others now; nothing where the tools are not given."""
    if tools is None:
        return []
    there = tools if isinstance(tools, Toolset) else Toolset.from_functions(*tools)
    keys = there.source_keys
    return tool_changes(recorded.tools, {name: recorded_tool(t.protocol, keys.get(name)) for name, t in there.items()})


def _failure(recorded: Recording, file: Path, found: Iterable[Difference], left_out: int) -> str:
    """Return the whole message of a replay that differs."""
    return (
        f"run {recorded.run} ({file.with_suffix('.json').name}) is not replayed as it was recorded:\n"
        f"{replays.differences([*found], left_out)}\n"
        "If that is meant, run the task again and record the new run: atc runs record RUN --force"
    )
