"""The ten tool sets as ATC has them and as plain Python has them, and one program run both ways."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import validate_call
from pydantic_core import to_jsonable_python

from atc import ToolError, Toolset

SETS = ("library", "fleet", "clinic", "bank", "cinema", "tracker", "weather", "notes", "warehouse", "calendar")
PROGRAMS = Path(__file__).parent / "programs"
_MARK = re.compile(r"^# ---- (\d+)\n", re.M)
Functions = Mapping[str, Callable[..., Any]]


def tool_set(name: str) -> ModuleType:
    """The module of a tool set."""
    return importlib.import_module(f"tests.right_programs.sets.{name}")


def programs(name: str) -> list[str]:
    """The programs of a tool set, in the order of its tasks; ``# ---- N`` stands before each in their file."""
    parts = _MARK.split((PROGRAMS / f"{name}.txt").read_text())[1:]
    numbered = zip(parts[::2], parts[1::2], strict=True)
    return [text for _, text in sorted(numbered, key=lambda each: int(each[0]))]


def functions_of(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The functions behind a set's tools, with a state of their own."""
    return {function.__name__: function for function in module.functions()}


def in_plain_python(module: ModuleType, source: str) -> Any:
    """What a program answers in plain CPython, as JSON. Its functions give JSON there, as tools do in a program."""

    def plain(function: Callable[..., Any]) -> Callable[..., Any]:
        made = validate_call(getattr(function, "__wrapped__", function)) if module.KIND == "functions" else function
        names = [p.name for p in inspect.signature(function).parameters.values()]

        def call(*given: Any, **named: Any) -> Any:
            arguments = {**dict(zip(names, given, strict=False)), **named}
            return _json(made(**{name: _json(value) for name, value in arguments.items()}))

        return call

    scope: dict[str, Any] = {name: plain(function) for name, function in functions_of(module).items()}
    scope |= {"__name__": "__main__", "ToolError": ToolError, "parallel": lambda *calls: [call() for call in calls]}
    exec(compile(source, "program", "exec"), scope)  # noqa: S102 - it is one of the programs beside this file
    return _json(scope["answer"])


def _json(value: Any) -> Any:
    """The JSON of a value as pydantic has it: no code of ATC decides what is right."""
    return to_jsonable_python(value)


@contextmanager
def tools_of(module: ModuleType) -> Iterator[Callable[[], Toolset]]:
    """Gives what makes the tools of a set, each time with a state of their own."""
    if module.KIND == "functions":
        yield lambda: Toolset.from_functions(*module.functions())
    elif module.KIND == "mcp":
        name = module.__name__.rpartition(".")[2]
        command = [sys.executable, "-m", "tests.right_programs.support", name]
        tools = Toolset.from_mcp({"mcpServers": {name: {"command": command[0], "args": command[1:], "env": _PATH}}})
        yield lambda: tools
    else:
        with _served(module) as (url, renew):

            def opened() -> Toolset:
                renew()
                return Toolset.from_openapi({**module.DOCUMENT, "servers": [{"url": url}]})

            yield opened


_PATH = {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}


@contextmanager
def _served(module: ModuleType) -> Iterator[tuple[str, Callable[[], None]]]:
    """The service of a document, over HTTP, and what gives it a new state."""
    routes = [
        (method.upper(), re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path) + "$"), operation)
        for path, operations in module.DOCUMENT["paths"].items()
        for method, operation in operations.items()
    ]
    state: dict[str, Functions] = {}

    def renew() -> None:
        state["functions"] = functions_of(module)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Log nothing."""

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            for method, path, operation in routes:
                if method == self.command and (found := path.match(unquote(parts.path))):
                    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
                    given = {**found.groupdict(), **query}
                    kinds = {p["name"]: p["schema"].get("type") for p in operation.get("parameters", ())}
                    arguments = {n: int(v) if kinds.get(n) == "integer" else v for n, v in given.items()}
                    arguments |= json.loads(body) if body else {}
                    try:
                        value = state["functions"][operation["operationId"]](**arguments)
                        self._send(200 if method != "POST" else 201, value)
                    except ToolError as error:
                        self._send(cast(int, error.status), {"detail": str(error)})
                    return
            self._send(404, {"detail": "no such path"})

        do_GET = do_POST = do_PATCH = _answer

        def _send(self, status: int, value: Any) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", renew
    finally:
        server.shutdown()
        server.server_close()


def serve_mcp(name: str) -> None:
    """Serve a set over stdin and stdout, as an MCP server that was written by hand."""
    module = tool_set(name)
    functions = functions_of(module)

    def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            value = functions[tool](**arguments)
        except Exception as error:
            return {"content": [{"type": "text", "text": f"{type(error).__name__}: {error}"}], "isError": True}
        text = value if isinstance(value, str) else json.dumps(value)
        structured = {"structuredContent": value} if "outputSchema" in module.MCP[tool] else {}
        return {"content": [{"type": "text", "text": text}], **structured}

    def respond(method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            server = {"name": name, "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}
        if method == "tools/list":
            return {"tools": [{"name": tool, **document} for tool, document in module.MCP.items()]}
        return call(params["name"], params.get("arguments") or {}) if method == "tools/call" else {}

    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            result = respond(request["method"], request.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


if __name__ == "__main__":
    serve_mcp(sys.argv[1])
