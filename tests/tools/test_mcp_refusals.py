"""MCP servers that cannot be used, and wrong words about them: every one is told, and nothing secret is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from atc import Toolset
from atc.errors import EnvironmentProblem, UsageError
from atc.tools.mcp.exchange import Exchange
from atc.tools.mcp.failures import Unreachable
from tests.support.mcp import refused
from tests.support.openapi import Answer, Server, running_server

SECRET = "sk-very-secret-0001"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.tools.mcp.stdio.GRACE_S", 0.3)


@pytest.fixture
def http() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("no-such-command-here x", "there is no command 'no-such-command-here'"),
        ([sys.executable, "-c", "import sys; sys.exit('no licence')"], "ended before it answered; it said: no licence"),
        ("/etc/passwd", "cannot be started: Permission denied"),
        ("python 'x", "cannot be split into words"),
        ("", "no MCP server is named"),
        ([], "no MCP server is named"),
        ("http://", "no http(s):// URL"),
        ("missing.json", "missing.json cannot be read"),
        ({"mcpServers": {}}, "names no server"),
        ({"mcpServers": {"a": {"command": "x", "url": "y"}}}, "mcpServers['a'] must have either"),
        ({"mcpServers": {"a": {"type": "sse", "url": "http://x"}}}, "streamable HTTP"),
        ({"mcpServers": {"a": {"command": "x", "args": "y"}}}, "args is a str"),
        ({"mcpServers": {"a": {"command": "x", "disabled": True}}}, "is disabled"),
        ({"command": "x", "cwd": "/no/such/folder"}, "there is no folder /no/such/folder"),
        ("http://127.0.0.1:9/mcp", "http://127.0.0.1:9/mcp cannot be reached (ConnectError)"),
    ],
)
def test_a_wrong_server_is_told(source: Any, words: str) -> None:
    assert words in refused(source, start_timeout_s=60)


def test_a_program_that_is_no_server_is_told_with_what_it_said() -> None:
    source = [sys.executable, "-uc", "print('usage: x'); import time; time.sleep(90)"]
    for seconds in (0.5, 5, 50):  # a busy machine may not come to its words in the first of them
        told = refused(source, start_timeout_s=seconds)
        if "usage" in told:
            break
    assert f"did not answer within {seconds:g} s; it said: usage: x" in told


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(status=401), "status 401: it wants a credential"),
        (Answer(status=404), "status 404: there is no MCP server at this address"),
        (Answer(status=302, headers={"Location": "http://elsewhere.example/"}), "status 302"),
        (Answer(b"<html>", kind="text/html"), "does not speak MCP: it answered with text/html"),
        (Answer(b'{"hello": 1}'), "could not be spoken to"),
        (Answer(b"x", headers={"Content-Encoding": "gzip"}), "cannot be reached (Unreadable)"),
    ],
)
def test_an_address_without_a_server_is_told(
    http: Server, answer: Answer, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    http.answer = answer
    with caplog.at_level("INFO"):
        said = refused(f"{http.url}/mcp?key={SECRET}", headers={"Authorization": f"Bearer {SECRET}2"})
    assert "HTTP Request" in caplog.text
    assert SECRET not in caplog.text
    assert words in said
    assert SECRET not in said
    assert http.seen[0].headers["authorization"] == f"Bearer {SECRET}2"


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("http://x", {"env": {"A": "b"}}),
        ("python x", {"headers": {"A": "b"}}),
        ({"command": "x"}, {"cwd": "/"}),
        ("http://x", {"headers": {"A": "b\r\nC: d"}}),
        ("python x", {"env": {"A=": "b"}}),
        ("x", {"timeout_s": 0}),
        ({"url": "http://x", "headers": {"A": "${ATC_NO_SUCH_VARIABLE}"}}, {}),
    ],
)
def test_an_option_that_does_not_fit_is_told(source: Any, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Toolset.from_mcp(source, **options)


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(EnvironmentProblem, match=r"pip install .*\[mcp\]'"):
        Toolset.from_mcp("python x")


def test_a_server_that_wants_a_credential_is_not_merely_unreachable() -> None:
    causes = {status: Unreachable("is closed", Exchange(status=status)).cause for status in (401, 403, 404, None)}
    assert causes == {401: "credential", 403: "credential", 404: "unreachable", None: "unreachable"}
    assert Unreachable("is closed").cause == "unreachable"
