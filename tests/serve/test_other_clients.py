"""Clients of others at our server: the official SDK's over real pipes, FastMCP's, and the inspector's command line."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import jsonschema_rs
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from atc.serve.mcp.gateway import Options
from tests.support.mcp_face import LEGACY, MODERN, Book, User, connected, gateway_of

ROOT = Path(__file__).resolve().parents[2]
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
OSLO = 'found = find_cities(name="Oslo", country_code="NO")\nanswer = found["cities"][0]["country_code"]\n'


def environment(folder: Path) -> dict[str, str]:
    """Of a server that keeps everything in a folder of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "ATC_CATALOGUE": f"{folder}/catalogue", "ATC_RUNS_DIR": f"{folder}/runs"}


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


# Structured content ---------------------------------------------------------------------------------------------------

PROGRAMS = {
    "answered": "answer = append_line(text='one')",
    "rejected": "answer = append_lines(text='one')",
    "raises": "append_line(text='one')\nanswer = [][1]",
    "no python": "answer = (",
    "prints": "print('x' * 9000)\nanswer = append_line(text='one')",
    "long": "append_line(text='one')\nanswer = ['x' * 50] * 5000",
    "bytes": "append_line(text='one')\nanswer = b'\\x00\\x01'",
    "null": "append_line(text='one')\nanswer = None",
}


@pytest.mark.parametrize("mode", [pytest.param(LEGACY, marks=pytest.mark.slow), MODERN])
def test_structured_content_fits_the_declared_schemas(mode: str, tmp_path: Path) -> None:
    """A client may validate reports of failures, too."""

    async def check() -> None:
        async with gateway_of(Book().tool, runs_dir=tmp_path) as gateway, connected(gateway, mode, User()) as client:
            declared = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
            schema = jsonschema_rs.validator_for(declared["run_program"])
            for name, source in PROGRAMS.items():
                result = await client.call_tool("run_program", {"source": source})
                found = [error.message for error in schema.iter_errors(result.structured_content)]
                assert not found, (name, found, result.structured_content)
                assert result.content, name

    run(check)


REFUSED: dict[str, dict[str, Any]] = {
    "search_tools": {},
    "tool_docs": {"names": ["nothing_is_called_so"]},
    "run_program": {"run": "20261127-000000-000000"},
    "resume": {"run": "20261127-000000-000000"},
    "run_task": {},
    "keep": {"run": "20261127-000000-000000", "name": "again"},
    "probe": {"tool": "nothing_is_called_so"},
}


def test_an_error_fits_the_declared_schemas_too(tmp_path: Path) -> None:
    """The client of the TypeScript SDK validates errors, and shows nothing of one that does not fit."""

    async def check() -> None:
        options = Options(stub_tokens=0, extras=("resume", "run_task", "keep", "probe"))
        made = gateway_of(Book().tool, runs_dir=tmp_path, options=options)
        async with made as gateway, connected(gateway, MODERN, User()) as client:
            declared = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
            assert set(declared) == set(REFUSED)
            for name, arguments in REFUSED.items():
                result = await client.call_tool(name, arguments)
                assert (name, result.is_error) == (name, True)
                schema = jsonschema_rs.validator_for(declared[name])
                found = [error.message for error in schema.iter_errors(result.structured_content)]
                assert not found, (name, found, result.structured_content)

    run(check)


# Over real pipes ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def piped(folder: Path, mode: str, user: User | None = None, *options: str) -> AsyncIterator[Client]:
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "atc", "mcp", "--tools", "atlas", *options],
        env=environment(folder),
        cwd=ROOT,
    )
    async with Client(stdio_client(command), mode=mode, elicitation_callback=user, cache=None) as client:
        yield client


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("mode", [LEGACY, "auto"])
def test_the_sdks_client_looks_up_runs_and_is_asked(mode: str, tmp_path: Path) -> None:
    user = User()

    async def check() -> None:
        async with piped(tmp_path, mode, user) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert {"search_tools", "tool_docs", "run_program"} <= set(names)
            found = await client.call_tool("search_tools", {"query": "when does the sun rise in a city"})
            assert found.structured_content is not None
            assert "sun_times" in {each["name"] for each in found.structured_content["tools"]}
            docs = await client.call_tool("tool_docs", {"names": ["find_cities", "save_trip"]})
            assert "def find_cities(" in docs.content[0].text  # type: ignore[union-attr]
            done = await client.call_tool("run_program", {"source": OSLO})
            assert done.structured_content is not None
            assert (done.is_error, done.structured_content["value"]) == (False, "NO")
            missing = await client.call_tool("run_program", {"source": "answer = find_towns(name='Oslo')"})
            assert missing.is_error
            assert missing.structured_content is not None
            assert missing.structured_content["status"] == "rejected"

    run(check)
    assert not user.seen  # reading asks nobody


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
def test_a_client_that_leaves_in_a_program_leaves_nothing_behind(tmp_path: Path) -> None:
    async def check() -> None:
        async with piped(tmp_path, "auto") as client:
            endless = "while True:\n    find_cities(name='Oslo')\n"
            asked = asyncio.create_task(client.call_tool("run_program", {"source": endless}))
            await asyncio.sleep(0.5)
            asked.cancel()
            await asyncio.wait([asked])

    run(check)


# The inspector's command line -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inspector(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """How to start it. Where npm cannot fetch it, these tests skip."""
    npm, npx = shutil.which("npm"), shutil.which("npx")
    if npm is None or npx is None:
        pytest.skip("npm and npx are not installed: the inspector comes from npm")
    folder = tmp_path_factory.mktemp("inspector")
    fetched = subprocess.run([npm, "pack", INSPECTOR], capture_output=True, text=True, timeout=300, cwd=folder)
    if fetched.returncode != 0:
        pytest.skip(f"npm cannot fetch {INSPECTOR}: {fetched.stderr.strip()[-200:]}")
    command = [npx, "--yes", INSPECTOR, "--cli", "--connect-timeout", "100000"]  # the machine may be busy
    tried = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=300, cwd=folder)
    assert tried.returncode == 0, tried.stderr[-2000:]
    return command


def inspect(command: list[str], folder: Path, *options: str) -> Any:
    """What it prints, as JSON."""
    server = [sys.executable, "-m", "atc", "mcp", "--tools", "atlas"]
    ran = subprocess.run(
        [*command, *server, *options], capture_output=True, text=True, timeout=120, cwd=ROOT, env=environment(folder)
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
def test_the_inspector_finds_no_fault_with_our_schemas(inspector: list[str], tmp_path: Path) -> None:
    listed = inspect(inspector, tmp_path, "--method", "tools/list", "--strict")  # exit 6 where a schema is not portable
    assert {"search_tools", "tool_docs", "run_program"} <= {tool["name"] for tool in listed["tools"]}


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
def test_the_inspector_runs_a_program(inspector: list[str], tmp_path: Path) -> None:
    call = ("--method", "tools/call", "--tool-name", "run_program", "--tool-arg", f"source={OSLO}")
    answered = inspect(inspector, tmp_path, *call)
    assert (answered["isError"], answered["structuredContent"]["value"]) == (False, "NO")
    assert isinstance(types.CallToolResult.model_validate(answered), types.CallToolResult)


# FastMCP's client -----------------------------------------------------------------------------------------------------

FASTMCP = """
import asyncio, json, os, sys
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

asked = []

async def answers(message, response_type, params, context):
    asked.append(message.splitlines()[0])
    return {"approve": True} if "Keep this" in message else {}

async def main():
    server = StdioTransport(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
    async with Client(server, elicitation_handler=answers) as client:
        async def call(name, /, **given):
            return (await client.call_tool(name, given, raise_on_error=False)).structured_content
        names = [tool.name for tool in await client.list_tools()]
        wrong = await call("run_program", source="answer = find_cities(name='Oslo')['cities'][0]['no_such_key']")
        right = "answer = find_cities(name='Oslo')['cities'][0]['name']"
        revised = await call("run_program", source=right, run=wrong["run"])
        kept = await call("keep", run=revised["run"], name="city_called", lift=["Oslo"], about="The name of a city.")
        argument = kept.get("call", "").partition("(")[2].partition(":")[0]
        later = await call("run_program", source=f"answer = city_called({argument}='Bergen')")
        wrote = await call("run_program", source="answer = create_trip(name='a', currency_code='NOK')['status']")
        print(json.dumps([names, wrong, revised, kept, later, wrote, asked]))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def fastmcp(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python of its own that has it. Where pip cannot fetch it, these tests skip."""
    folder = tmp_path_factory.mktemp("fastmcp")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=300)
    python = str(folder / "bin" / "python")
    fetch = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "fastmcp>=4,<5"]
    fetched = subprocess.run(fetch, capture_output=True, text=True, timeout=600)
    if fetched.returncode != 0:
        pytest.skip(f"pip cannot fetch fastmcp: {fetched.stderr.strip()[-200:]}")
    return python


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
def test_the_client_of_fastmcp_revises_keeps_and_is_asked(fastmcp: str, tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text(FASTMCP)
    server = [sys.executable, "-m", "atc", "mcp", "--tools", "atlas", "--with", "keep"]
    ran = subprocess.run(
        [fastmcp, str(tmp_path / "client.py"), *server],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env=environment(tmp_path) | {"PYTHONPATH": ""},
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    names, wrong, revised, kept, later, wrote, asked = json.loads(ran.stdout.splitlines()[-1])
    assert {"run_program", "keep"} <= {*names}
    assert (wrong["status"], revised["status"], revised["value"]) == ("unsolved", "answered", "Oslo")
    assert [call["status"] for call in revised["calls"]] == ["replayed"]
    assert (kept["kept"], later["value"], later["calls"][0]["within"]) == (True, "Bergen", "city_called")
    assert (wrote["value"], len(asked)) == ("draft", 2)
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["city_called.atc"]


# Over real HTTP -------------------------------------------------------------------------------------------------------

TOKEN = "a-token-of-a-test-that-is-long-enough-0123456789"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Of a server of ours on this machine, which asks for a token."""
    port = free_port()
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    options = [
        "--tools",
        "atlas",
        "--http",
        "--port",
        str(port),
        "--token-file",
        str(tmp_path / "token"),
        "--set",
        "drain_s=1",
    ]
    command = [sys.executable, "-m", "atc", "mcp", *options]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(tmp_path), cwd=ROOT
        )
    try:
        while True:
            assert server.poll() is None, (tmp_path / "log").read_text()
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.terminate()
        server.wait(60)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
def test_the_inspector_runs_a_program_over_http(inspector: list[str], address: str, tmp_path: Path) -> None:
    call = ["--method", "tools/call", "--tool-name", "run_program", "--tool-arg", f"source={OSLO}"]
    header = ["--transport", "http", "--header", f"Authorization: Bearer {TOKEN}"]
    ran = subprocess.run(
        [*inspector, address, *header, *call], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout)["structuredContent"]["value"] == "NO"
    stranger = subprocess.run(
        [*inspector, address, "--transport", "http", *call], capture_output=True, text=True, timeout=120
    )
    assert stranger.returncode != 0
    assert "NO" not in stranger.stdout
