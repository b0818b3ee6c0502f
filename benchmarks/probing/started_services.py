"""Services of others that are started on this machine's loopback, and a proxy that counts what reaches one."""

from __future__ import annotations

import http.client
import os
import re
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

_START_S = 60.0
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"})


@dataclass(frozen=True)
class Other:
    """A service of others.

    Attributes:
        reads: its paths, all that its router or document lists; names of the query's arguments follow after ``?``.
        command: how it is started, given a folder of its own and a port.
        prepare: fills it, given its address.
        prefix: of all its paths.
        changes: paths that change something though ``GET`` reaches them, written as ``reads``. They are told, too.
        own_document: where its OpenAPI document is. The reads are all of it that answer JSON, if ``reads`` is empty.
    """

    name: str
    reads: tuple[str, ...]
    command: Callable[[Path, int], list[str]]
    prepare: Callable[[str], None] = lambda _: None
    prefix: str = ""
    changes: tuple[str, ...] = ()
    own_document: str = ""


def truth_of(other: Other, base: str) -> dict[str, Any]:
    """A service's own OpenAPI document; empty where it has none."""
    return httpx.get(f"{base}{other.own_document}", trust_env=False, timeout=60).json() if other.own_document else {}


def reads_of(other: Other, base: str) -> tuple[str, ...]:
    """The reads of a running service, as :attr:`Other.reads` has them."""
    if other.reads:
        return other.reads
    found = []
    for path, methods in truth_of(other, base)["paths"].items():
        answers = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        if any("json" in kind for kind in answers):
            query = [p["name"] for p in methods["get"].get("parameters", ()) if p["in"] == "query"]
            found.append(f"{path}?{'&'.join(query)}" if query else path)
    return tuple(found)


def document(name: str, base: str, listed: tuple[str, ...]) -> dict[str, Any]:
    """An OpenAPI document that has the names of paths and of what stands in them and after them, and nothing else."""
    paths: dict[str, Any] = {}
    for each in listed:
        path, _, query = each.partition("?")
        parameters: list[dict[str, Any]] = [
            {"name": name, "in": "path", "required": True, "schema": {}} for name in re.findall(r"{(\w+)}", path)
        ]
        parameters += [{"name": name, "in": "query", "schema": {}} for name in query.split("&") if name]
        paths[path] = {"get": {"parameters": parameters, "responses": {"200": {"description": ""}}}}
    return {"openapi": "3.0.3", "info": {"title": name, "version": "1"}, "servers": [{"url": base}], "paths": paths}


@contextmanager
def running(other: Other) -> Iterator[str]:
    """Start a service on a free port of this machine, fill it, and yield its address.

    Raises:
        FileNotFoundError: it is not installed.
        RuntimeError: it did not come up.
    """
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = other.command(Path(folder), port)
        quiet = {**os.environ, "PYTHONWARNINGS": "ignore"}
        process = subprocess.Popen(command, cwd=folder, env=quiet, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        base = f"http://127.0.0.1:{port}{other.prefix}"
        try:
            _await(process, base, other.name)
            other.prepare(base)
            yield base
        finally:
            process.terminate()
            process.wait(10)


def _await(process: subprocess.Popen[bytes], base: str, name: str) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            httpx.get(f"{base}/", trust_env=False)
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise RuntimeError(f"{name} did not come up within {_START_S:g} s")


@dataclass
class Counted:
    """What reached a service through the proxy: the method and path of each request."""

    base: str
    requests: list[tuple[str, str]] = field(default_factory=list)

    def writes(self, other: Other) -> list[tuple[str, str]]:
        """Requests that change something: by another method than ``GET``, or to a path that does so by ``GET``."""
        changing = {other.prefix + path.partition("?")[0] for path in other.changes}
        return [each for each in self.requests if each[0] not in ("GET", "HEAD", "OPTIONS") or each[1] in changing]


@contextmanager
def counted(base: str) -> Iterator[Counted]:
    """A proxy before a service, which passes on every request as it is and counts it."""
    target = urlsplit(base)
    seen: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            self._pass_on()

        def _pass_on(self) -> None:
            seen.append((self.command, self.path.partition("?")[0]))
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            upstream = http.client.HTTPConnection(target.hostname or "", target.port, timeout=60)
            try:
                upstream.request(self.command, self.path, body or None, dict(self.headers.items()))
                answer = upstream.getresponse()
                content = answer.read()
            finally:
                upstream.close()
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Counted(f"http://127.0.0.1:{server.server_port}{target.path}", seen)
    finally:
        server.shutdown()
        server.server_close()
