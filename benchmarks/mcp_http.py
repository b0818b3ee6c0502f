"""What a request to the MCP server over HTTP costs the server, let in and refused, alone and behind a silent crowd.

``python -m benchmarks.mcp_http [--json] [--requests N] [--crowd N]``: `atc mcp --http` is started on loopback with the
bundled tools. Costs are processor microseconds of its process for each request, from ``/proc``; requests go over one
connection that is kept. The crowd are connections that say nothing. Exit code 1 where an answer has the wrong status.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from benchmarks.common import print_json, show

TOKEN = secrets.token_urlsafe(32)
MODERN = "2026-07-28"
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Connection:
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port))
        self._file = self._sock.makefile("rb")

    def send(self, said: bytes) -> int:
        """The status of the answer, once all of it is there."""
        self._sock.sendall(said)
        status = int(self._file.readline().split()[1])
        length = 0
        while (line := self._file.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        self._file.read(length)
        return status


def request(token: str | None, tool: str = "") -> bytes:
    """A call of a tool, or a question for the list of tools."""
    method = "tools/call" if tool else "tools/list"
    params: dict[str, Any] = {"_meta": _META}
    if tool:
        params |= {"name": tool, "arguments": {"query": "sunrise in a city"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    lines = ["POST /mcp HTTP/1.1", "Host: 127.0.0.1", "Accept: application/json, text/event-stream"]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", f"MCP-Protocol-Version: {MODERN}"]
    lines += [f"Mcp-Method: {method}"] + ([f"Mcp-Name: {tool}"] if tool else [])
    lines += [f"Authorization: Bearer {token}"] if token else []
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextmanager
def served(port: int) -> Iterator[int]:
    """The process of a server that listens there."""
    command = [sys.executable, "-m", "atc", "mcp", "--tools", "atlas", "--http", "--port", str(port)]
    process = subprocess.Popen(command, env=os.environ | {"ATC_MCP_TOKEN": TOKEN}, stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            try:
                if Connection(port).send(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") == 200:
                    break
            except (OSError, IndexError):
                time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)


def spent(pid: int) -> float:
    """Processor seconds of a process."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--crowd", type=int, default=600)
    given = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    forged = ".".join(("eyJhbGciOiJSUzI1NiJ9", "e30", secrets.token_urlsafe(256)))
    kinds = {
        "list of tools": (request(TOKEN), 200),
        "search": (request(TOKEN, "search_tools"), 200),
        "no token": (request(None), 401),
        "wrong token": (request(secrets.token_urlsafe(32)), 401),
        "forged JWT": (request(forged), 401),
        "foreign host": (request(TOKEN).replace(b"Host: 127.0.0.1", b"Host: evil.example"), 421),
        "health": (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 200),
    }
    rows: list[dict[str, Any]] = []
    good = True
    with served(port) as pid, ExitStack() as stack:
        for crowd in (0, given.crowd):
            for _ in range(crowd):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            for kind, (said, status) in kinds.items():
                connection = Connection(port)
                good &= connection.send(said) == status
                before = spent(pid)
                good &= all(connection.send(said) == status for _ in range(given.requests))
                cost = (spent(pid) - before) / given.requests * 1e6
                rows.append({"request": kind, "status": status, "silent": crowd, "µs": round(cost)})
    if given.json:
        print_json({"rows": rows, "good": good})
    else:
        columns = ("request", "status", "silent", "µs")
        show("processor time of the server for a request", columns, [[row[name] for name in columns] for row in rows])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
