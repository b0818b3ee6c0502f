"""The page on which the owner of an authorization server lets a client in, and the addresses of the server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcp.server.auth.provider import construct_redirect_uri
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from atc.serve.mcp.oauth_own import OwnServer
from atc.serve.mcp.tokens import exact_url
from atc.serve.pages.kit import page_of

_TEMPLATE = Path(__file__).with_name("consent.html.jinja")
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "same-origin",  # with none at all, browsers hide the origin of the form
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_GONE = "This request is not there any more: start again in the client.\n"


def routes_of(own: OwnServer) -> list[BaseRoute]:
    """The addresses of the authorization server: its metadata, registration, tokens, and the owner's page."""
    page = _Page(own)
    return [
        *create_auth_routes(
            own,
            exact_url(own.url),
            client_registration_options=ClientRegistrationOptions(
                enabled=True, valid_scopes=own.scopes or None, default_scopes=own.scopes or None
            ),
            revocation_options=RevocationOptions(enabled=True),
        ),
        Route("/consent", page.show),
        Route("/consent", page.decide, methods=["POST"]),
    ]


class _Page:
    def __init__(self, own: OwnServer) -> None:
        self._own = own

    async def show(self, request: Request) -> Response:
        name = request.query_params.get("request", "")
        asked = self._own.waiting(name)
        return _gone() if asked is None else _shown(name, asked)

    async def decide(self, request: Request) -> Response:
        form = await request.form()
        fields = {key: "" if isinstance(value, UploadFile) else value for key, value in form.items()}
        name = fields.get("request", "")
        asked = self._own.waiting(name)
        if asked is None:
            return _gone()
        back, state = asked["redirect_uri"], asked["state"]
        if fields.get("decision") != "allow":
            self._own.deny(name)
            return _sent(construct_redirect_uri(back, error="access_denied", state=state, iss=self._own.url))
        code = self._own.allow(name, fields.get("phrase", ""))
        if code is not None:
            return _sent(construct_redirect_uri(back, code=code, state=state, iss=self._own.url))
        return _gone() if self._own.waiting(name) is None else _shown(name, asked, wrong=True)


def _shown(name: str, asked: Mapping[str, Any], wrong: bool = False) -> Response:
    parts = urlsplit(asked["redirect_uri"])
    web = parts.scheme in ("http", "https")
    origin = f"{parts.scheme}://{parts.netloc}" if web else f"{parts.scheme}:"
    target = origin if web else f"the application behind {origin}"
    page = page_of(
        _TEMPLATE,
        title="Let a client in",
        client=asked["name"],
        target=target,
        request=name,
        wrong=wrong,
        forms=("'self'", origin),
    )
    return HTMLResponse(page, 403 if wrong else 200, _HEADERS)


def _sent(where: str) -> Response:
    return RedirectResponse(where, 303, _HEADERS)


def _gone() -> Response:
    return PlainTextResponse(_GONE, 410, _HEADERS)
