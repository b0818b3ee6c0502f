"""What the server costs before the first program: definitions in context, time until ready, and one search."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from atc.errors import EnvironmentProblem
from atc.faces.mcp_server.client import ClientId
from atc.faces.mcp_server.gateway import Gateway
from atc.faces.mcp_server.server import Face
from atc.settings import Settings
from atc.tools.protocol import Protocol
from atc.tools.tool import Tool, Toolset
from benchmarks.codemode_desk import as_shown, listed
from benchmarks.codemode_latency import own_folders, tree_cpu
from benchmarks.codemode_plain import definition, made_tools
from benchmarks.codemode_tokens import Tokenizer
from benchmarks.common import median, percentile
from benchmarks.retrieval_data import ALL, Catalogues

POLLS = 3_000
"""Of a tenth of a second each, until the tools of all servers must be there."""
COUNTS = (5, 20, 100, 1_000, 5_000, 50_000)
QUERIES = (
    "weather forecast for a city next week",
    "list the open invoices of a customer",
    "translate a text into another language",
    "current price of a share",
    "find flights between two airports",
    "who won the match yesterday",
    "send a message to a channel",
    "count the words of a document",
)


def real_tools(data: Path | None, count: int) -> Toolset:
    """So many tools of real services, each with a name of its own; made ones where no data is at hand.

    Raises:
        EnvironmentProblem: the data has fewer.
    """
    if data is None:
        return made_tools(count)
    protocols = [protocol for _, (_, protocol) in zip(range(count), Catalogues(data).pool(ALL), strict=False)]
    if len(protocols) < count:
        raise EnvironmentProblem(f"{data} has {len(protocols)} tools, not {count}")
    return Toolset(
        Tool(protocol.model_copy(update={"name": name}))
        for protocol, name in zip(protocols, _names(protocols), strict=True)
    )


def _names(protocols: Sequence[Protocol]) -> Iterator[str]:
    taken: set[str] = set()
    for protocol in protocols:
        name, number = protocol.name, 1
        while name in taken:
            number += 1
            name = f"{protocol.name}_{number}"
        taken.add(name)
        yield name


async def footprint(tools: Toolset, tokenizer: Tokenizer, folder: Path) -> dict[str, Any]:
    """Tokens of the definitions, ours and those of plain MCP, for these tools."""
    gateway = Gateway(tools, _settings(folder))
    try:
        async with Client(Face(gateway).server) as client:
            own = await listed(client)
    finally:
        await gateway.aclose()
    plain = [as_shown(definition(tool.protocol)) for tool in tools.values()]
    return {
        "tools": len(tools),
        "offered": ", ".join(tool.name for tool in own),
        "atc": tokenizer.count("\n".join(map(as_shown, own))),
        "atc, with output schemas": tokenizer.count("\n".join(as_shown(tool, output=True) for tool in own)),
        "plain": sum(tokenizer.count("\n".join(plain[at : at + 1000])) for at in range(0, len(plain), 1000)),
    }


async def in_process(tools: Toolset, rounds: int, folder: Path) -> dict[str, Any]:
    """Milliseconds until the tools are listed, and of searches; the first search makes the index."""
    began, cpu = time.perf_counter(), _cpu()
    gateway = Gateway(tools, _settings(folder))
    try:
        async with Client(Face(gateway).server) as client:
            await listed(client)
            ready, ready_cpu = time.perf_counter() - began, _cpu() - cpu
            who = gateway.client(ClientId("local", "bench"))
            began = time.perf_counter()
            await gateway.search(who, QUERIES[0])
            first = time.perf_counter() - began
            times, cpu = [], _cpu()
            for number in range(rounds):
                began = time.perf_counter()
                await gateway.search(who, QUERIES[number % len(QUERIES)])
                times.append(1000 * (time.perf_counter() - began))
            spent = _cpu() - cpu
    finally:
        await gateway.aclose()
    return {
        "tools": len(tools),
        "ready_ms": round(1000 * ready, 1),
        "ready_cpu_ms": round(1000 * ready_cpu, 1),
        "first_search_ms": round(1000 * first, 1),
        "search_ms": round(median(times), 2),
        "search_p95_ms": round(percentile(times, 95), 2),
        "search_cpu_ms": round(1000 * spent / rounds, 2),
    }


def servers_config(servers: int, each: int, python: str = sys.executable) -> dict[str, Any]:
    """So many servers with so many tools each, as clients configure them."""

    def entry(number: int) -> dict[str, Any]:
        made = ["--made", str(each), "--first", str(number * each)]
        return {"command": python, "args": ["-m", "benchmarks.codemode_plain", *made]}

    return {"mcpServers": {f"server{number}": entry(number) for number in range(servers)}}


async def as_process(servers: int, each: int, starts: int, rounds: int) -> list[dict[str, Any]]:
    """``atc mcp`` in front of servers of their own, started several times: the first start has no kept lists.

    Returns:
        Of each start: milliseconds until the protocol is greeted, until a first list of tools is answered (processor
        time, too), and until a search finds a tool of a server; then of searches.
    """
    found = []
    with TemporaryDirectory(prefix="atc-codemode-") as place:
        config = Path(place) / "servers.json"
        config.write_text(json.dumps(servers_config(servers, each)), encoding="utf-8")
        command = [sys.executable, "-m", "atc", "mcp", "--tools", str(config)]
        for _ in range(starts):
            found.append(await _one_start(command, own_folders(place), rounds))
    return found


async def _one_start(command: Sequence[str], own: dict[str, str], rounds: int) -> dict[str, Any]:
    environment = {**{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}, **own}
    began, cpu = time.perf_counter(), tree_cpu()
    transport = stdio_client(StdioServerParameters(command=command[0], args=list(command[1:]), env=environment))
    async with Client(transport, read_timeout_seconds=600) as client:
        greeted = time.perf_counter() - began
        await listed(client)
        ready, ready_cpu = time.perf_counter() - began, tree_cpu() - cpu
        for _ in range(POLLS):  # without kept lists the servers have to be asked first
            if await _found(client):
                break
            await asyncio.sleep(0.1)
        there = time.perf_counter() - began
        times = []
        for number in range(rounds):
            at = time.perf_counter()
            await client.call_tool("search_tools", {"query": QUERIES[number % len(QUERIES)]})
            times.append(1000 * (time.perf_counter() - at))
    return {
        "greeted_ms": round(1000 * greeted),
        "ready_ms": round(1000 * ready),
        "ready_cpu_ms": round(1000 * ready_cpu),
        "tools_found_ms": round(1000 * there),
        "search_ms": round(median(times), 2),
        "search_p95_ms": round(percentile(times, 95), 2),
    }


async def _found(client: Client) -> bool:
    """Whether a search finds a tool."""
    if "search_tools" not in {tool.name for tool in await listed(client)}:
        return False
    said = await client.call_tool("search_tools", {"query": "count invoices"})
    return bool((said.structured_content or {}).get("tools"))


def _settings(folder: Path) -> Settings:
    return Settings.load().model_copy(update={"runs_dir": folder / "runs", "catalogue": folder / "catalogue"})


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run_footprint(data: Path | None, counts: Sequence[int], tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """The footprint for each number of tools."""
    with TemporaryDirectory(prefix="atc-codemode-") as folder:
        tools = [*real_tools(data, max(counts)).values()]
        return [asyncio.run(footprint(Toolset(tools[:count]), tokenizer, Path(folder))) for count in counts]


def run_in_process(data: Path | None, counts: Sequence[int], rounds: int) -> list[dict[str, Any]]:
    """Times within one process, for each number of tools: with nothing kept, and again with what that left."""
    tools = [*real_tools(data, max(counts)).values()]
    found = []
    for count in counts:
        with TemporaryDirectory(prefix="atc-codemode-") as folder:
            for start in ("first", "again"):
                figures = asyncio.run(in_process(Toolset(tools[:count]), rounds, Path(folder)))
                found.append({"start": start, **figures})
    return found
