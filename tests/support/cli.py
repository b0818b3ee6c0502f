"""A folder with tools to run `atc` in, and endpoints of a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner
from typer.testing import Result as Ran

from atc.calls import question
from atc.cli import app
from tests.support.fake_openai_server import Server, Step, serving

TOOLS = '''
import time
from atc import ToolError, tool

@tool(effect="read")
def double(n: int) -> int:
    """Twice a number."""
    return 2 * n

@tool(effect="write")
def book(n: int) -> str:
    """Book it."""
    return "booked \\x1b[31m[bold]red\\x07"

@tool(effect="read")
def evil(n: int) -> str:
    """Says what steers a terminal: \\x1b[2J."""
    return "\\x1b]0;title\\x07\\u202e[red]x[/red]"

@tool(effect="write")
def slow(n: int) -> int:
    """Takes its time: half as many seconds."""
    time.sleep(n / 2)
    return n
'''
GOOD = "```python\nanswer = double(n=21)\n```"


def settle(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in a folder that has ``tools.py``, with settings for an endpoint."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ATC_API_KEY", "sk-1234567890")
    monkeypatch.setenv("ATC_MODEL", "tiny")
    monkeypatch.setenv("ATC_SENTENCE", "false")
    Path("tools.py").write_text(TOOLS)


def atc(*arguments: str, stdin: str | None = None) -> Ran:
    return CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Answer what is asked from here on with these lines, as at a terminal."""
    typed = iter(lines)

    async def line(*_: int) -> str:
        return next(typed)

    monkeypatch.setattr(question, "has_terminal", lambda: True)
    monkeypatch.setattr(question, "_line", line)


@contextmanager
def endpoints(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    """A function that starts an endpoint with these steps, and makes it the one of the settings."""
    with ExitStack() as servers:

        def start(*steps: Step) -> Server:
            server = servers.enter_context(serving(*steps))
            monkeypatch.setenv("ATC_BASE_URL", server.url)
            return server

        yield start
