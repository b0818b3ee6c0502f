"""What a tool call costs on the whole path of ``agent.run_program``, beside a pipe and pydantic-ai's code mode.

``python -m benchmarks.call_path [--calls 300] [--rounds 5] [--only function,async,http,mcp] [--json]``

A program makes one call, then many, one after another or in ``parallel``; the difference is what the others cost: wall
clock, and the processor of this process. In turns, so that what else the machine does falls on all of them:

* **pipe**: two processes that hand each other a line of the same size: the floor of any sandbox of its own process;
* **httpx alone**, **mcp's client alone**: the same servers without ATC, one by one and as many at once as a program's
  ``parallel`` makes: the floor of HTTP and MCP tools;
* **ATC**: a function, an async function, an HTTP tool and an MCP tool on loopback; with a run folder and without;
* **pydantic-ai's code mode** in its agent (a scripted model writes the program), where it is installed: `make
  frameworks` has an environment with both.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx
import typer
from mcp import Client, StdioServerParameters
from mcp.server.stdio import stdio_server

from atc.agent import Agent
from atc.cli.console import guarded
from atc.tools.functions import tool_from_function
from atc.tools.tool import Toolset
from benchmarks.codemode.plain import plain_server
from benchmarks.common import AsJson, listed, machine, median, print_json, show

TEXT = "x" * 100
ONE_BY_ONE = "for n in range({calls}):\n    echo(text={text!r} + str(n))\nanswer = 1"
AT_ONCE = "parallel(*[lambda n=n: echo(text={text!r} + str(n)) for n in range({calls})])\nanswer = 1"
KINDS = ("function", "async", "http", "mcp")
SERVER = [sys.executable, "-m", "benchmarks.call_path", "--serve"]
AT_A_TIME = 16
"""Threads of a program's ``parallel``."""

Way = Callable[[int], Awaitable[Any]]
"""Makes so many calls."""


class NotThere(Exception):
    """Something that stands beside ATC cannot be measured here: its row is left out, with the reason."""


def echo(text: str) -> str:
    """Return the text."""
    return text


async def echo_async(text: str) -> str:
    """Return the text."""
    return text


# -- what stands beside it ---------------------------------------------------------------------------------------------


def _other_end(pipe: Connection) -> None:
    while (line := pipe.recv_bytes()) != b"":
        pipe.send_bytes(json.dumps({"value": json.loads(line)["args"]["text"]}).encode())


@asynccontextmanager
async def pipe() -> AsyncIterator[Way]:
    """Two processes that hand each other a line, in JSON, and do nothing else."""
    here, there = multiprocessing.get_context("fork").Pipe()
    process = multiprocessing.get_context("fork").Process(target=_other_end, args=(there,), daemon=True)
    process.start()

    async def make(calls: int) -> None:
        for number in range(calls):
            here.send_bytes(json.dumps({"id": number, "tool": "echo", "args": {"text": TEXT + str(number)}}).encode())
            json.loads(here.recv_bytes())

    yield make
    here.send_bytes(b"")
    process.join(5)


@asynccontextmanager
async def code_mode() -> AsyncIterator[Way]:
    """pydantic-ai's agent with its harness's code mode, and a scripted model that writes the program.

    Raises:
        ImportError: it is not installed.
        NotThere: its programs make no calls here.
    """
    from pydantic_ai import Agent as PeerAgent
    from pydantic_ai import Tool
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel
    from pydantic_ai_harness import CodeMode

    wanted = made = 0

    def counted(text: str) -> str:
        """Return the text."""
        nonlocal made
        made += 1
        return text

    def writes(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart("done")])
        source = f"for n in range({wanted}):\n    await echo(text={TEXT!r} + str(n))\n1"
        return ModelResponse(parts=[ToolCallPart("run_code", {"code": source})])

    agent = PeerAgent(
        FunctionModel(writes), tools=[Tool(counted, name="echo")], capabilities=[CodeMode(max_tool_calls=100_000)]
    )

    async def make(calls: int) -> None:
        nonlocal wanted, made
        wanted, made = calls, 0
        result = await agent.run("go")
        if made != calls:  # a program that failed is an answer to the model, no exception
            raise RuntimeError(f"{made} of {calls} calls were made: {result.all_messages()[-2]}"[:1_000])

    try:
        await make(1)
    except RuntimeError as error:
        raise NotThere(f"its code mode makes no calls here (MONTY_BIN names monty's binary): {error}") from None
    yield make


@asynccontextmanager
async def httpx_alone(at_once: int = 1) -> AsyncIterator[Way]:
    """The client that HTTP tools use, on the same server.

    Args:
        at_once: calls that are under way at a time.
    """
    with _http_server() as address:
        async with httpx.AsyncClient() as client:

            async def call(text: str) -> None:
                (await client.get(address + "/echo", params={"text": text})).json()

            yield partial(_made, call, at_once)


@asynccontextmanager
async def mcp_alone(at_once: int = 1) -> AsyncIterator[Way]:
    """The SDK's own client over its own pipes, on the same server.

    Args:
        at_once: calls that are under way at a time.
    """
    server = StdioServerParameters(command=SERVER[0], args=SERVER[1:], cwd=str(Path.cwd()))
    async with Client(server) as client:

        async def call(text: str) -> None:
            await client.session.call_tool("echo", {"text": text})

        yield partial(_made, call, at_once)


async def _made(call: Callable[[str], Awaitable[None]], at_once: int, calls: int) -> None:
    texts = (TEXT + str(number) for number in range(calls))

    async def work() -> None:
        for text in texts:  # each is taken by one of the workers
            await call(text)

    await asyncio.gather(*(work() for _ in range(at_once)))


# -- ATC's own path ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def atc(kind: str, *, kept: bool, at_once: bool = False) -> AsyncIterator[Way]:
    """An agent over one tool of a kind; the program is given.

    Args:
        kept: the run has a folder, with a trace and a journal.
        at_once: the calls are made by ``parallel``.
    """
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="atc-call-path-"))
        tools = await stack.enter_async_context(_tools(kind))
        await stack.enter_async_context(tools.opened())  # the start of a server is no price of a call
        agent = await stack.enter_async_context(
            Agent(tools, keep_runs=kept, runs_dir=folder, learn=False, max_calls=100_000)
        )

        async def make(calls: int) -> None:
            result = await agent.arun_program((AT_ONCE if at_once else ONE_BY_ONE).format(calls=calls, text=TEXT))
            if result.status != "answered" or len(result.calls) != calls:
                raise RuntimeError(f"{kind}: {result.status}, {len(result.calls)} calls: {result.value}")

        yield make


@asynccontextmanager
async def _tools(kind: str) -> AsyncIterator[Toolset]:
    if kind in ("function", "async"):
        yield Toolset([tool_from_function(echo if kind == "function" else echo_async, name="echo", effect="read")])
    elif kind == "mcp":
        with TemporaryDirectory(prefix="atc-call-path-") as folder:
            servers = {"one": {"command": SERVER[0], "args": SERVER[1:]}}
            config = Path(folder) / "servers.json"
            config.write_text(json.dumps({"mcpServers": servers}))
            yield Toolset.from_mcp(config)
    else:
        with _http_server() as address:
            parameter = {"name": "text", "in": "query", "required": True, "schema": {"type": "string"}}
            response = {"200": {"description": "", "content": {"application/json": {"schema": {"type": "string"}}}}}
            operation = {"operationId": "echo", "parameters": [parameter], "responses": response}
            document = {"openapi": "3.1.0", "info": {"title": "echo", "version": "1"}}
            yield Toolset.from_openapi(document | {"paths": {"/echo": {"get": operation}}}, base_url=address)


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        body = json.dumps(parse_qs(urlsplit(self.path).query)["text"][0]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def _http_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    process = multiprocessing.get_context("fork").Process(target=server.serve_forever, daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        process.terminate()
        process.join(5)
        server.server_close()


def _serve_mcp() -> None:
    async def serve() -> None:
        server = plain_server(Toolset([tool_from_function(echo, effect="read")]))
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(serve)


# -- the figures -------------------------------------------------------------------------------------------------------


def ways(kinds: Sequence[str]) -> dict[str, Callable[[], Any]]:
    """What is measured, by its name in the table."""
    made: dict[str, Callable[[], Any]] = {"a pipe": pipe, "pydantic-ai code mode": code_mode}
    for kind, name, alone in (("http", "httpx", httpx_alone), ("mcp", "mcp's client", mcp_alone)):
        if kind in kinds:
            made[f"{name} alone"] = alone
            made[f"{name} alone, {AT_A_TIME} at once"] = partial(alone, AT_A_TIME)
    for kind in kinds:
        made[f"ATC, {kind}"] = partial(atc, kind, kept=False)
        made[f"ATC, {kind}, run folder"] = partial(atc, kind, kept=True)
        made[f"ATC, {kind}, parallel"] = partial(atc, kind, kept=False, at_once=True)
    return made


async def measure(chosen: Mapping[str, Callable[[], Any]], calls: int, rounds: int) -> dict[str, dict[str, float]]:
    """Microseconds by call: medians over the rounds of wall clock and of this process's processor.

    What is not installed, or not whole, is left out, and said on stderr.
    """
    wall: dict[str, list[float]] = {}
    spent: dict[str, list[float]] = {}
    async with AsyncExitStack() as stack:
        made: dict[str, Way] = {}
        for name, open_way in chosen.items():
            try:
                made[name] = await stack.enter_async_context(open_way())
            except (ImportError, NotThere) as error:
                typer.echo(f"left out: {name}: {error}", err=True)
        for number in range(rounds + 1):
            for name, make in made.items():
                one, many = await _timed(make, 1), await _timed(make, calls + 1)
                if number:  # the first one loads modules
                    wall.setdefault(name, []).append(1e6 * (many[0] - one[0]) / calls)
                    spent.setdefault(name, []).append(1e6 * (many[1] - one[1]) / calls)
    return {name: {"wall_us": median(wall[name]), "processor_us": median(spent[name])} for name in wall}


async def _timed(make: Way, calls: int) -> tuple[float, float]:
    began, spent = time.perf_counter(), time.process_time()
    await make(calls)
    return time.perf_counter() - began, time.process_time() - spent


@guarded
def main(
    calls: Annotated[int, typer.Option(min=10, help="Calls of the long program.")] = 300,
    rounds: Annotated[int, typer.Option(min=1, help="Each way is taken so often, in turns.")] = 5,
    only: Annotated[str, typer.Option(help=f"Some of {', '.join(KINDS)}.")] = ",".join(KINDS),
    serve: Annotated[bool, typer.Option("--serve", hidden=True)] = False,
    as_json: AsJson = False,
) -> None:
    """Measure what a call costs on the whole path."""
    if serve:
        _serve_mcp()
        return
    found = asyncio.run(measure(ways(listed(only, KINDS, "only")), calls, rounds))
    floor = found["a pipe"]
    for each in found.values():
        each["wall"] = each["wall_us"] / floor["wall_us"]
        each["processor"] = each["processor_us"] / floor["processor_us"]
    if as_json:
        print_json({"machine": machine(), "calls": calls, "rounds": rounds, "ways": found})
        return
    rows = [
        (n, *(f"{e[k]:.0f}" for k in ("wall_us", "processor_us")), f"{e['wall']:.1f}", f"{e['processor']:.1f}")
        for n, e in found.items()
    ]
    show(f"a call of {calls}", ("", "wall, µs", "processor, µs", "× pipe", "× pipe's processor"), rows)


if __name__ == "__main__":
    typer.run(main)
