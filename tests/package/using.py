"""Run by the Python of an environment that has ATC installed, outside the repository: use it as its reader would.

Prints one JSON document: where ATC was imported from, and what each way of giving it tools came to. The programs are
scripted: what is tried is the package, not a model.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypedDict

import atc
from atc import Agent, FakeModel, Toolset, tool


class City(TypedDict):
    name: str
    population: int


@tool(effect="read")
def find_cities(name: str) -> list[City]:
    """Find cities by name."""
    return [{"name": name, "population": 520774}]


class Shop(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"sku": self.path.rpartition("/")[2], "cents": 250}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


def openapi(port: int) -> dict[str, Any]:
    """A document of one operation."""
    item = {"type": "object", "properties": {"sku": {"type": "string"}, "cents": {"type": "integer"}}}
    parameter = {"name": "sku", "in": "path", "required": True, "schema": {"type": "string"}}
    responses = {"200": {"description": "the item", "content": {"application/json": {"schema": item}}}}
    get = {"operationId": "get_item", "summary": "Look an item up", "parameters": [parameter], "responses": responses}
    return {
        "openapi": "3.1.0",
        "info": {"title": "shop", "version": "1"},
        "servers": [{"url": f"http://127.0.0.1:{port}"}],
        "paths": {"/items/{sku}": {"get": get}},
    }


SERVER = """
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("adder")

@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

server.run()
"""


def solved(tools: Any, program: str, **options: Any) -> dict[str, Any]:
    """What a scripted program over tools comes to."""
    with Agent(tools, model=FakeModel([f"```python\n{program}\n```"]), sentence=False, **options) as agent:
        result = agent.run("what the program does")
    return {"status": result.status, "value": result.value, "isolation": result.isolation}


def main() -> dict[str, Any]:
    if "docker" in sys.argv:
        return solved([find_cities], 'answer = find_cities(name="Lyon")[0]["name"]', sandbox="docker")
    found: dict[str, Any] = {"file": atc.__file__, "version": atc.__version__, "path": sys.path}
    found["functions"] = solved([find_cities], 'answer = find_cities(name="Lyon")[0]["population"]')

    shop = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=shop.serve_forever, args=(0.01,), daemon=True).start()
    document = Toolset.from_openapi(openapi(shop.server_port))
    found["openapi"] = solved(document, 'answer = get_item(sku="s1")["cents"]')
    shop.shutdown()

    Path("server.py").write_text(SERVER)
    found["mcp"] = solved(Toolset.from_mcp([sys.executable, "server.py"]), "answer = add(a=40, b=2)")

    from atc.atlas import atlas_toolset

    program = 'answer = find_cities(name="Oslo", country_code="NO")["cities"][0]["country_code"]'
    found["atlas"] = solved(atlas_toolset(), program)
    return found


if __name__ == "__main__":
    print(json.dumps(main()))
