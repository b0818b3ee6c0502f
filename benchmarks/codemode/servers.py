"""How soon the tools of many MCP servers are there: tiny servers over pipes, lists that are kept, and a search.

    python -m benchmarks.codemode.servers                 # 50 servers of 100 tools
    python -m benchmarks.codemode.servers --make FOLDER   # makes servers.json and fills the kept lists, and no more

The tools' names and descriptions are made of words, so that a search has something to rank. Processor seconds are
counted: how busy the machine is has no part in them.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import machine

SERVER = r"""
import json, sys
tools = json.load(open(sys.argv[1]))
for line in sys.stdin:
    got = json.loads(line)
    if "id" not in got: continue
    method, reply = got["method"], {"error": {"code": -32601, "message": "no such method"}}
    if method == "initialize":
        reply = {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "tiny", "version": "1"}}}
    elif method == "tools/list":
        reply = {"result": {"tools": tools}}
    elif method == "tools/call":
        text = json.dumps(got["params"].get("arguments", {}))
        reply = {"result": {"content": [{"type": "text", "text": text}]}}
    print(json.dumps({"jsonrpc": "2.0", "id": got["id"], **reply}), flush=True)
"""
VERBS = ("list", "get", "create", "update", "delete", "find", "count", "move", "share", "archive")
THINGS = ("invoice", "ticket", "branch", "page", "calendar", "contact", "order", "shipment", "photo", "backup")
_ASKED = ("archive an invoice", "which shipments are there", "share a photo with a contact", "count open tickets")


def make(folder: Path, servers: int, tools: int) -> Path:
    """Write the servers' script, the list of each, and a configuration of them all.

    Args:
        folder: where to.
        servers: how many.
        tools: of each server; the names of two servers differ.

    Returns:
        The path of the configuration, for ``--tools``.
    """
    script = folder / "tiny_server.py"
    script.write_text(SERVER)
    entries: dict[str, Any] = {}
    for number in range(servers):
        pairs = itertools.islice(itertools.cycle(itertools.product(VERBS, THINGS)), tools)
        listed = [_tool(number, index, verb, thing) for index, (verb, thing) in enumerate(pairs)]
        file = folder / f"tools_{number}.json"
        file.write_text(json.dumps(listed))
        command = [sys.executable, "-I", "-S", str(script), str(file)]
        entries[f"office_{number}"] = {"command": command[0], "args": command[1:]}
    config = folder / "servers.json"
    config.write_text(json.dumps({"mcpServers": entries}))
    return config


def _tool(server: int, index: int, verb: str, thing: str) -> dict[str, Any]:
    properties = {
        "account": {"type": "string", "description": "the account's id"},
        "filter": {"type": "string", "description": f"which {thing}s"},
        "limit": {"type": "integer", "default": 20},
    }
    return {
        "name": f"office_{server}_{verb}_{thing}_{index}",
        "description": f"{verb.capitalize()} {thing}s of office {server}. Kind {index} of this tool.",
        "inputSchema": {"type": "object", "properties": properties, "required": ["account"]},
        "annotations": {"readOnlyHint": verb in ("list", "get", "find", "count")},
    }


async def fill(config: Path, lists: Path) -> int:
    """Start every server once, and keep its list. Returns how many tools there are."""
    from atc.tools.mcp.live import live_tools

    async with live_tools([str(config)], folder=lists) as live:
        await live.settled()
        if live.down:
            raise SystemExit(f"servers are down: {dict(live.down)}")
        return len(live.tools)


_READY = """
import sys, time
import mcp, mcp_types                       # the SDK is there already when a server serves
from pathlib import Path
from atc.tools.mcp.live import live_tools
before = time.process_time()
live = live_tools([sys.argv[1]], folder=Path(sys.argv[2]))
print(len(live.tools), time.process_time() - before)
"""

_SEARCH = """
import asyncio, json, os, sys, time
from pathlib import Path
from atc.serve.mcp.client import ClientId
from atc.serve.mcp.gateway import Gateway
from atc.settings import Settings
from atc.tools.mcp.live import live_tools

async def main():
    live = live_tools([sys.argv[1]], folder=Path(sys.argv[2]))
    gateway = Gateway(live.tools, Settings.load(catalogue=Path(sys.argv[2]), retrieval="lexical"))
    client, asked = gateway.client(ClientId("local", "bench")), json.loads(sys.argv[3])
    before = time.process_time()
    await gateway.search(client, "first of all")
    first, took = time.process_time() - before, []
    for words in asked * 10:
        before = time.process_time()
        await gateway.search(client, words)
        took.append(time.process_time() - before)
    print(first, *took)
    sys.stdout.flush()
    os._exit(0)

asyncio.run(main())
"""


def _child(script: str, *arguments: str) -> list[float]:
    words = [sys.executable, "-c", script, *arguments]
    return [float(word) for word in subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=50)
    parser.add_argument("--tools", type=int, default=100, help="of each server")
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--make", metavar="FOLDER", type=Path, help="leave the servers and their kept lists there")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.make or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        config, lists = make(folder, chosen.servers, chosen.tools), folder / "kept"
        before, cpu = time.perf_counter(), time.process_time()
        tools = asyncio.run(fill(config, lists))
        print(
            f"all {chosen.servers} servers listed, {tools:,} tools: {time.perf_counter() - before:.1f} s on the clock,"
        )
        print(f"  {time.process_time() - cpu:.1f} processor seconds of ours; kept in {lists}")
        if chosen.make:
            print(f"--tools {config}")
            return
        ready = [_child(_READY, str(config), str(lists))[1] for _ in range(chosen.tries)]
        print(
            f"ready from kept lists: median {statistics.median(ready):.3f} processor seconds ({len(ready)} processes)"
        )
        first, *rest = _child(_SEARCH, str(config), str(lists), json.dumps(_ASKED))
        print(f"first search (reads or makes the index): {first:.2f} processor seconds; index made before:", end=" ")
        first, *rest = _child(_SEARCH, str(config), str(lists), json.dumps(_ASKED))
        print(f"{first:.2f}")
        print(
            f"later searches: median {1000 * statistics.median(rest):.1f} ms of processor time ({len(rest)} searches)"
        )
        print(json.dumps({**machine(), "ready_s": ready, "search_s": [first, *rest]}))


if __name__ == "__main__":
    main()
