"""MCP servers to speak to: one made with the SDK, one written by hand that does what a plan says, right or wrong."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from atc import Toolset
from atc.errors import ToolError, ToolImportError

SHOP = '''
import json, os, time
from pydantic import BaseModel
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (BlobResourceContents, EmbeddedResource, ImageContent, ResourceLink, TextContent,
                       TextResourceContents, ToolAnnotations)

READS = ToolAnnotations(read_only_hint=True)
server = MCPServer("shop")

class Price(BaseModel):
    product_id: str
    cents: int

class Item(BaseModel):
    price: Price

@server.tool(name="shop.getItem", title="Get an item", annotations=READS)
def item(product_id: str) -> Item:
    """Look one up. <script>x</script>"""
    return Item(price=Price(product_id=product_id, cents=250))

@server.tool(annotations=ToolAnnotations(read_only_hint=False))
def order(product_id: str, pieces: int = 1) -> str:
    return "o1"

@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def drop() -> str:
    raise ToolError("the shop is closed")

@server.tool()
def unsaid() -> None:
    raise ToolError("sold out")

@server.tool(annotations=READS, structured_output=False)
def say(text: str) -> str:
    return text

@server.tool(annotations=READS, structured_output=False)
def many() -> list:
    blob = BlobResourceContents(uri="file:///b", mime_type="image/gif", blob="AAAA")
    return [
        TextContent(text="a"), ImageContent(data="AAAAAA==", mime_type="image/png"),
        EmbeddedResource(resource=TextResourceContents(uri="file:///a", mime_type="text/plain", text="words")),
        EmbeddedResource(resource=blob), ResourceLink(name="n", uri="file:///c", size=7),
    ]

@server.tool(annotations=READS, structured_output=False)
def nothing() -> list:
    return []

@server.tool(annotations=READS, structured_output=False)
def header(context: Context, name: str) -> str:
    return str(context.request_context.request.headers.get(name))
'''

RAW = r"""
import json, os, signal, sys, time
plan = json.load(open(sys.argv[1]))
if plan.get("stubborn"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(plan.get("stderr", ""), file=sys.stderr, flush=True)
def send(message):
    print(json.dumps(message), flush=True)
def act(do, params):
    token = (params.get("_meta") or {}).get("progressToken")
    for report in do.get("progress", []) if token is not None else []:
        send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, **report}})
    if "pages" in do: plan["pages"] = do["pages"]
    for method in do.get("notify", []): send({"jsonrpc": "2.0", "method": method})
    if "ask" in do:
        send({"jsonrpc": "2.0", "id": "asked", **do["ask"]})
        while True:
            line = sys.stdin.readline()
            if json.loads(line).get("id") == "asked": break
            later.append(line)
        do["value"] = json.loads(line)
    if "deaf" in do:
        os.close(0)
        open(do["deaf"], "w").close()
    if "print" in do: print(do["print"], flush=True)
    if "big" in do: print("x" * do["big"], flush=True)
    if "endless" in do:
        while True: sys.stdout.write("x" * 65536)
    time.sleep(do.get("sleep", 0))
    if "exit" in do: os._exit(do["exit"])
later = []
def lines():
    while True:
        line = later.pop(0) if later else sys.stdin.readline()
        if not line: return
        yield line
for line in lines():
    got = json.loads(line)
    if "heard_file" in plan:
        with open(plan["heard_file"], "a") as file: file.write(json.dumps([os.getpid(), got]) + "\n")
    if "id" not in got: continue
    method, params, reply = got["method"], got.get("params") or {}, {}
    if method == "initialize":
        reply = {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "raw", "version": "1"}}}
    elif method == "tools/list":
        reply = {"result": plan["pages"][int(params.get("cursor") or 0)]}
    elif method == "tools/call":
        if "calls_file" in plan:
            with open(plan["calls_file"], "a") as file: file.write(json.dumps(params) + "\n")
        do = plan["calls"][params["name"]]
        act(do, params)
        if do.get("about"): do["value"] = {"pid": os.getpid(), "cwd": os.getcwd(), "env": dict(os.environ)}
        if do.get("echo"): do["value"] = params["arguments"]
        reply = do.get("reply", {"result": {"content": [{"type": "text", "text": json.dumps(do.get("value"))}]}})
    else:
        reply = {"error": {"code": -32601, "message": "no such method"}}
    send({"jsonrpc": "2.0", "id": got["id"], **reply})
if "last_words" in plan:
    print("x" * 1_000_000, flush=True)
    open(plan["last_words"], "w").close()
while plan.get("stubborn"):
    time.sleep(1)
"""


def entry(name: str, **more: Any) -> dict[str, Any]:
    """A tool as a server lists it."""
    return {"name": name, "inputSchema": {"type": "object", "properties": {}}, **more}


def reading(name: str, **more: Any) -> dict[str, Any]:
    return entry(name, annotations={"readOnlyHint": True}, **more)


def raw_server(folder: Path, tools: list[Any] | None = None, **plan: Any) -> list[str]:
    """The command of a server that follows a plan: ``pages`` of its list, and what it does in the ``calls``."""
    calls = plan.setdefault("calls", {})
    plan.setdefault("pages", [{"tools": tools if tools is not None else [reading(name) for name in calls]}])
    (folder / "raw.py").write_text(RAW)
    file = folder / f"plan{len(list(folder.glob('plan*')))}.json"
    file.write_text(json.dumps(plan))
    return [sys.executable, "-I", "-S", str(folder / "raw.py"), str(file)]


def shop_command(folder: Path) -> list[str]:
    (folder / "shop.py").write_text(SHOP + "\nserver.run()\n")
    return [sys.executable, str(folder / "shop.py")]


@contextmanager
def shop_over_http(folder: Path) -> Iterator[str]:
    """The shop's address, served by the SDK's own application."""
    (folder / "shop_app.py").write_text(SHOP)
    spec = importlib.util.spec_from_file_location("shop_app", folder / "shop_app.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["shop_app"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    config = uvicorn.Config(module.server.streamable_http_app(), port=port, log_level="error", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.started
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        thread.join(30)


def called(tools: Toolset, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """What each call gives, one after the other in one run: a value, or the ToolError."""

    async def run() -> list[Any]:
        async with tools.opened():
            return [await one(tools, name, arguments) for name, arguments in calls]

    return asyncio.run(run())


async def one(tools: Toolset, name: str, arguments: dict[str, Any] | None = None) -> Any:
    transport = tools[name].transport
    assert transport is not None
    try:
        return await transport(arguments or {})
    except ToolError as error:
        return error


def refused(source: Any, **options: Any) -> str:
    with pytest.raises(ToolImportError) as caught:
        Toolset.from_mcp(source, **options)
    return str(caught.value)


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False
