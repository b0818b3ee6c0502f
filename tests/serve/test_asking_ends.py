"""However a client of `atc mcp` goes away, at whatever moment: nothing goes on, and the process ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from mcp import Client

from atc.result import Effect
from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.http import HttpFace, HttpSettings, Lock, make_app
from benchmarks.kills import clients as codemode_kills
from tests.support.mcp import entry, raw_server, reading
from tests.support.mcp_face import ACCEPT, TEXT, Book, User, gateway_of, run
from tests.support.tools import make_tool

pytestmark = pytest.mark.slow

TOOLS = """
import os, time
from atc import tool

@tool(effect="read")
def hang(n: int) -> int:
    print("hangs")
    open(os.environ["HANGS"], "w").close()
    time.sleep(120)

@tool(effect="write")
def write(text: str) -> int:
    with open(os.environ["WROTE"], "a") as file:
        file.write(text + "\\n")
    return 1

tools = [hang, write]
"""
LOOP = "hang\nopen_ended = True\nwhile open_ended:\n    pass\nanswer = hang(n=1)\n"


class Server:
    """`atc mcp`, with messages written by hand."""

    def __init__(self, folder: Path, tools: str = "end_tools:tools") -> None:
        (folder / "end_tools.py").write_text(TOOLS)
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parents[2])]),
            "HANGS": str(folder / "hangs"),
            "WROTE": str(folder / "wrote"),
        }
        self.folder = folder
        command = [sys.executable, "-m", "atc", "mcp", "--tools", tools]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=folder)
        client = {"name": "raw", "version": "1"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": client}
        self.send({"id": 1, "method": "initialize", "params": hello})
        assert self.read()["id"] == 1
        self.send({"method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def program(self, number: int, source: str, **more: Any) -> None:
        params = {"name": "run_program", "arguments": {"source": source, **more}}
        self.send({"id": number, "method": "tools/call", "params": params})

    def ended(self) -> int:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return self.process.wait(60)


def wait_until(true: Callable[[], object]) -> None:
    while not true():
        time.sleep(0.01)


def going_on(server: Server, what: str) -> None:
    """Bring the server to where this goes on."""
    if what == "a program in a loop":
        server.program(2, LOOP)
        traces = (server.folder / "runs").glob
        wait_until(lambda: any("program_started" in each.read_text() for each in traces("*/trace.jsonl")))
    elif what == "a function that hangs":
        server.program(2, "answer = hang(n=1)")
        wait_until((server.folder / "hangs").exists)
    elif what == "a question":
        server.program(2, "answer = write(text='a')")
        assert server.read()["method"] == "elicitation/create"


@pytest.mark.parametrize("what", ["nothing", "a program in a loop", "a function that hangs", "a question"])
@pytest.mark.parametrize(
    ("way", "code"), [("end of input", 0), (signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGKILL, -9)]
)
def test_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_left: None, what: str, way: Any, code: int
) -> None:
    monkeypatch.setenv("ATC_RUNS_DIR", str(tmp_path / "runs"))
    server = Server(tmp_path)
    going_on(server, what)
    if isinstance(way, signal.Signals):
        server.process.send_signal(way)
    else:
        assert server.process.stdin is not None
        server.process.stdin.close()
    assert server.process.wait(60) == code
    server.ended()
    assert not (tmp_path / "wrote").exists()


def test_it_ends_with_a_server_of_its_own_that_is_stubborn(tmp_path: Path, nothing_left: None) -> None:
    calls = {"wait": {"sleep": 120}}
    command = raw_server(tmp_path, [reading("wait"), entry("change")], calls=calls, stubborn=True, calls_file="called")
    servers = tmp_path / "servers.json"
    servers.write_text(json.dumps({"mcpServers": {"own": {"command": command[0], "args": command[1:]}}}))
    server = Server(tmp_path, str(servers))
    server.program(2, "answer = own_wait()")
    below = codemode_kills.descendants(server.process.pid)
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert server.process.wait(60) == 0
    server.ended()
    assert below
    assert not codemode_kills.alive() & set(below)


def test_a_call_that_the_client_cancels_ends_and_the_server_goes_on(tmp_path: Path, nothing_left: None) -> None:
    server = Server(tmp_path)
    going_on(server, "a function that hangs")
    server.send({"method": "notifications/cancelled", "params": {"requestId": 2}})
    server.program(3, "answer = write(text='a')")
    asked = server.read()
    assert asked["method"] == "elicitation/create"
    answer = {"id": asked["id"], "result": {"action": "accept", "content": {}}}
    server.send(answer)
    server.send(answer)  # the second time it is for nothing
    report = server.read()["result"]["structuredContent"]
    assert (report["status"], report["value"]) == ("answered", 1)
    assert server.ended() == 0
    assert (tmp_path / "wrote").read_text() == "a\n"


def test_a_large_program_is_refused_with_its_size(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.program(2, "x" * 10_000_000)
    assert "10,000,000 characters" in str(server.read()["result"])
    server.program(3, "x" * 20_000_000)
    refused = server.read()
    assert refused["id"] == 3
    assert "at most 16,000,000" in refused["error"]["message"]
    assert server.ended() == 0


def test_clients_that_are_killed_leave_nothing_and_nothing_is_done_twice() -> None:
    command = [sys.executable, "-m", "benchmarks.kills.clients", "--kills", "4", "--seed", "7", "--json"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout)
    assert figures["lines done twice"] == 0
    assert figures["left running"] == 0


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_client_over_http_that_goes_away_has_its_run_ended(tmp_path: Path, mode: str) -> None:
    """Up to 2025-11-25 by ending its session, as a client may resume a stream; later by closing the response."""
    book, user = Book(), User([ACCEPT])
    begun = asyncio.Event()

    async def send(arguments: dict[str, Any]) -> int:
        begun.set()
        await asyncio.sleep(3600)
        return 1

    tool = make_tool("send", send, Effect.WRITE, required=("text",), text=TEXT)

    async def main() -> None:
        async with gateway_of(book.tool, tool) as gateway, over_http(gateway) as address:
            async with Client(address, mode=mode, elicitation_callback=user) as client:
                sending = asyncio.create_task(run(client, "answer = send(text='a')"))
                beginning = asyncio.create_task(begun.wait())
                await asyncio.wait({beginning, sending}, return_when=asyncio.FIRST_COMPLETED)
                assert begun.is_set(), sending.result()
                sending.cancel()
            while len(gateway.running):  # noqa: ASYNC110 - its task ends by itself
                await asyncio.sleep(0.01)
            stored = [*gateway.store.find("last").events()]
            assert [each["data"]["status"] for each in stored if each["kind"] == "call_ended"] == ["in_doubt"]
            assert stored[-1]["data"]["status"] == "failed"
            async with Client(address, mode=mode, elicitation_callback=user) as client:
                assert (await run(client, "answer = append_line(text='b')"))["status"] == "answered"

    asyncio.run(main())
    assert book.lines == ["b"]


@asynccontextmanager
async def over_http(gateway: Gateway) -> AsyncIterator[str]:
    application = make_app(HttpFace(gateway, 5.0), HttpSettings(Lock()))  # everyone is one principal
    server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        await serving
