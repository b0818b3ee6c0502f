"""An MCP server that wants a login, and the authorization server that gives it; both on this machine."""

from __future__ import annotations

import base64
import hashlib
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route


@dataclass
class Vault:
    """The server, as a test sees it.

    Attributes:
        issuer: the authorization server that the resource names; its own origin when empty.
        valid: access tokens that are let in.
        refreshable: refresh tokens that work, each once.
        asked: the forms that came to the token endpoint.
    """

    port: int
    issuer: str = ""
    expires_in: int | None = 3600
    valid: set[str] = field(default_factory=set)
    refreshable: set[str] = field(default_factory=set)
    asked: list[dict[str, str]] = field(default_factory=list)
    registered: list[dict[str, Any]] = field(default_factory=list)
    codes: dict[str, str] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def token(self) -> dict[str, Any]:
        """A new pair of tokens, which works."""
        access, refresh = f"access-{secrets.token_hex(8)}", f"refresh-{secrets.token_hex(8)}"
        self.valid.add(access)
        self.refreshable.add(refresh)
        made: dict[str, Any] = {"access_token": access, "token_type": "Bearer", "refresh_token": refresh}
        return made | ({"expires_in": self.expires_in} if self.expires_in is not None else {})

    # -- the authorization server --------------------------------------------------------------------------------------

    async def resource(self, request: Request) -> Response:
        return JSONResponse({"resource": self.url, "authorization_servers": [self.issuer or self.origin]})

    async def metadata(self, request: Request) -> Response:
        names = {name: f"{self.origin}/{name}" for name in ("authorize", "token", "register")}
        return JSONResponse(
            {
                "issuer": self.issuer or self.origin,
                "authorization_endpoint": names["authorize"],
                "token_endpoint": names["token"],
                "registration_endpoint": names["register"],
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def register(self, request: Request) -> Response:
        given = await request.json()
        self.registered.append(given)
        return JSONResponse({**given, "client_id": "c1", "token_endpoint_auth_method": "none"}, status_code=201)

    async def authorize(self, request: Request) -> Response:
        """What the user agrees to in their browser."""
        given = request.query_params
        code = secrets.token_hex(8)
        self.codes[code] = given["code_challenge"]
        answer = {"code": code, "state": given["state"]}
        return RedirectResponse(f"{given['redirect_uri']}?{urlencode(answer)}", 302)

    async def tokens(self, request: Request) -> Response:
        given = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        self.asked.append(given)
        if given["grant_type"] == "authorization_code":
            digest = hashlib.sha256(given["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            if self.codes.pop(given["code"], None) != challenge:
                return JSONResponse({"error": "invalid_grant"}, status_code=400)
        elif given["grant_type"] == "refresh_token":
            if given["refresh_token"] not in self.refreshable:
                return JSONResponse({"error": "invalid_grant"}, status_code=400)
            self.refreshable.remove(given["refresh_token"])
        elif "authorization" not in request.headers:
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        return JSONResponse(self.token())


class _Guarded:
    """Lets only valid tokens pass to the server behind it."""

    def __init__(self, vault: Vault, app: Any) -> None:
        self._vault, self._app = vault, app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"").decode()
            if given.removeprefix("Bearer ") not in self._vault.valid:
                metadata = f"{self._vault.origin}/.well-known/oauth-protected-resource/mcp"
                headers = {"WWW-Authenticate": f'Bearer resource_metadata="{metadata}"'}
                await JSONResponse({"error": "invalid_token"}, 401, headers=headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)


@contextmanager
def vault() -> Iterator[Vault]:
    """Serve both. The MCP server has one tool, ``secret``, which reads."""
    server = MCPServer("vault")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
    def secret() -> str:
        return "42"

    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    made = Vault(taken.getsockname()[1])
    inner = server.streamable_http_app()
    app = Starlette(
        routes=[
            Route("/.well-known/oauth-protected-resource/mcp", made.resource),
            Route("/.well-known/oauth-authorization-server", made.metadata),
            Route("/register", made.register, methods=["POST"]),
            Route("/authorize", made.authorize),
            Route("/token", made.tokens, methods=["POST"]),
            Mount("/", _Guarded(made, inner)),
        ],
    )
    app.router.lifespan_context = inner.router.lifespan_context
    serving = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not serving.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield made
    finally:
        serving.should_exit = True
        thread.join(30)
        taken.close()
