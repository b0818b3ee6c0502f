"""The MCP server over ASGI in this process, or on loopback in a thread, and requests to it by hand."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from mcp.server.auth.provider import TokenVerifier as Verifier

from atc import Toolset
from atc.serve.accepting import listen
from atc.serve.http import DrainingServer
from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.http import PATH, HttpFace, HttpSettings, Lock, Names, make_app, make_server
from atc.serve.mcp.tokens import TokenVerifier
from atc.serve.tokens import Tenants
from atc.tools.functions import tool

ANN, BOB = "token-of-ann-0123456789", "token-of-bob-0123456789"
LEGACY, MODERN = "2025-11-25", "2026-07-28"


@tool(effect="read")
def double(number: int) -> int:
    """Return twice the number."""
    return 2 * number


def two_owners() -> Verifier:
    return TokenVerifier(Tenants({"ann": ANN, "bob": BOB}))


def locked(**more: Any) -> HttpSettings:
    """Settings with tokens of Ann and Bob."""
    return HttpSettings(Lock([two_owners()]), **more)


def gateway(*functions: Callable[..., Any]) -> Gateway:
    return Gateway(Toolset.from_functions(*(functions or (double,))))


@dataclass
class Caller:
    """Sends requests by hand."""

    http: httpx2.AsyncClient
    face: HttpFace

    async def send(
        self, method: str = "POST", token: str | None = ANN, path: str = PATH, body: Any = None, **headers: str
    ) -> httpx2.Response:
        given = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            given["authorization"] = f"Bearer {token}"
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        return await self.http.request(method, path, content=content, headers=given)

    async def open(self, token: str = ANN) -> str:
        """The id of a new session of the older protocol."""
        opened = await self.send(token=token, body=opening())
        assert opened.status_code == 200, opened.text
        return opened.headers["mcp-session-id"]

    async def call(
        self, name: str, arguments: Mapping[str, Any], token: str = ANN, session: str = ""
    ) -> httpx2.Response:
        """Call a tool within a session, or by a single request of the newer protocol."""
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if session:
            return await self.send(
                token=token, body=message("tools/call", params), mcp_session_id=session, mcp_protocol_version=LEGACY
            )
        return await self.modern("tools/call", params, token, mcp_name=name)

    async def modern(
        self, method: str, params: Mapping[str, Any] | None = None, token: str | None = ANN, **headers: str
    ) -> httpx2.Response:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        body = message(method, {**(params or {}), "_meta": meta})
        return await self.send(token=token, body=body, mcp_protocol_version=MODERN, mcp_method=method, **headers)


def message(method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}


def opening() -> dict[str, Any]:
    client = {"name": "test", "version": "1"}
    return message("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client})


def result_of(answered: httpx2.Response) -> dict[str, Any]:
    """The result of a call over HTTP: of the older protocol it comes as the last message of a stream."""
    text = answered.text
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
    return dict(json.loads(lines[-1] if lines else text)["result"])


@asynccontextmanager
async def calling(
    settings: HttpSettings | None = None, base: str = "http://127.0.0.1:8790", behind: Gateway | None = None
) -> AsyncIterator[Caller]:
    """A caller of a server in this process, without a socket."""
    settings = settings or locked()
    face = HttpFace(behind or gateway(), settings.drain_s)
    app = make_app(face, settings)
    try:
        async with app.router.lifespan_context(app):
            transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
            async with httpx2.AsyncClient(transport=transport, base_url=base) as http:
                yield Caller(http, face)
    finally:
        await face.aclose()


@dataclass
class Listening:
    """A server on loopback, in a thread of this process."""

    port: int
    server: DrainingServer
    face: HttpFace
    thread: threading.Thread

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{PATH}"


@contextmanager
def listening(
    given: HttpSettings | Callable[[int], HttpSettings] | None = None, behind: Gateway | None = None
) -> Iterator[Listening]:
    """A server on a real socket, with settings that may depend on its port; it has ended when this returns."""
    ready = threading.Event()
    made: list[Any] = []
    sock = listen("127.0.0.1", 0)
    port = sock.getsockname()[1]
    settings = given(port) if callable(given) else given or locked(names=Names(local_pages=True))

    async def serve() -> None:
        face = HttpFace(behind or gateway(), settings.drain_s)
        server = make_server(face, settings)
        made.extend((server, face))
        ready.set()
        await server.serve([sock])

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield Listening(port, made[0], made[1], thread)
    finally:
        made[0].end()
        thread.join(60)
        sock.close()
        assert not thread.is_alive()
