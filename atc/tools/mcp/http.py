"""A server over HTTP: the SDK's transport on a client that bounds what is read and sends the kept login along."""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthToken
from pydantic import ValidationError

from atc.tools.mcp.exchange import BoundedClient, BoundedStream, Exchange
from atc.tools.mcp.logins import Login, Logins, origin_of
from atc.tools.mcp.spec import ServerSpec

_CONNECT_S = 10.0
_SILENCE_S = 300.0


@asynccontextmanager
async def http_transport(spec: ServerSpec, max_bytes: int) -> AsyncIterator[tuple[Any, Any]]:
    """Speak streamable HTTP to a server. No cookie is kept from one request to the next but what the user gave."""
    client = BoundedClient(
        max_bytes,
        auth=_login(spec),
        headers={"User-Agent": "atc", **spec.headers, "Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(_SILENCE_S, connect=_CONNECT_S),
    )
    async with client, streamable_http_client(spec.url, http_client=client, max_sse_event_size=max_bytes) as streams:
        yield streams


def _login(spec: ServerSpec) -> httpx2.Auth | None:
    """The user's login at the server, now or later; nothing where the user gives a credential in headers."""
    if any(name.lower() == "authorization" for name in spec.headers):
        return None
    return KeptLoginAuth(spec, Logins.of_user())


# -- the kept login is sent along and renewed; nobody is asked to log in here ------------------------------------------

_MAX_ANSWER = 1_000_000
_TIMEOUT_S = 20.0
_LOG = logging.getLogger(__name__)


class KeptLoginAuth(httpx2.Auth):
    """Sends the kept login to the server's own origin, and renews it when it ends.

    Args:
        spec: the server. What is kept for it becomes one of its secrets.
        logins: where logins are kept.
    """

    def __init__(self, spec: ServerSpec, logins: Logins) -> None:
        self._spec, self._logins = spec, logins
        self._origin = origin_of(spec.url)
        self._lock = asyncio.Lock()
        self._stamp = 0
        self._login: Login | None = None

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if origin_of(str(request.url)) != self._origin:  # a redirect led away: it gets no token
            yield request
            return
        login = await self._current()
        if login is not None:
            request.headers["Authorization"] = f"Bearer {login.access_token}"
        response = yield request
        if response.status_code != 401 or login is None or not login.renewable:
            return
        renewed = await self._renewed(login)
        if renewed is not None and renewed.access_token != login.access_token:
            if isinstance(response.stream, httpx2.AsyncByteStream):  # the client reads it before it sends again
                response.stream = BoundedStream(response.stream, _MAX_ANSWER, False, Exchange())
            request.headers["Authorization"] = f"Bearer {renewed.access_token}"
            yield request

    async def _current(self) -> Login | None:
        async with self._lock:
            if (stamp := self._logins.stamp(self._spec.url)) != self._stamp:
                self._know(self._logins.read(self._spec.url), stamp)
        if self._login is None and self._spec.oauth is not None and self._spec.oauth.by_itself:
            return await self._obtained()
        if self._login is not None and self._login.ended and self._login.renewable:
            return await self._renewed(self._login)
        return self._login

    def _know(self, login: Login | None, stamp: int) -> None:
        self._login, self._stamp = login, stamp
        if login is not None:
            self._spec.secrets.add(login.secrets)

    async def _obtained(self) -> Login | None:
        """A first login of a server that takes the client's own credentials: nobody need be asked."""
        from atc.tools.mcp.login import LoginFailed, log_in_by_credentials

        async with self._lock:
            if self._login is None:
                try:
                    login = await log_in_by_credentials(self._spec)
                except LoginFailed as error:
                    _LOG.warning("%s: %s", self._spec.location, error)
                    return None
                self._kept(login)
        return self._login

    async def _renewed(self, old: Login) -> Login | None:
        """The login after ``old``; ``old`` itself where it cannot be renewed just now, nothing where never."""
        async with self._lock, self._logins.held(old.url):
            now = self._logins.read(old.url)
            if now is None or now.access_token != old.access_token:  # another process was quicker, or logged out
                self._know(now, self._logins.stamp(old.url))
                return now
            made, lost = await renew(old)
            if lost:
                self._logins.forget(old.url)
                self._know(None, 0)
            elif made is not None:
                self._kept(made)
            return self._login

    def _kept(self, login: Login) -> None:
        try:
            self._logins.write(login)
        except OSError as error:
            _LOG.warning("a renewed login cannot be kept: %s", error.strerror or type(error).__name__)
        self._know(login, self._logins.stamp(login.url))


async def renew(login: Login) -> tuple[Login | None, bool]:
    """Ask for a new access token where the old one came from (RFC 6749 §6, §4.4).

    Returns:
        The new login, if there is one; and whether the old one is lost: the user must log in again.
    """
    data = {"client_id": login.client_id}
    if login.refresh_token:
        data |= {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
    else:
        data |= {"grant_type": "client_credentials", **({"scope": login.scope} if login.scope else {})}
    if login.resource:
        data["resource"] = login.resource
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if login.client_secret and login.client_auth == "client_secret_basic":
        pair = f"{quote(login.client_id, safe='')}:{quote(login.client_secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif login.client_secret:
        data["client_secret"] = login.client_secret
    try:
        async with (
            httpx2.AsyncClient(timeout=_TIMEOUT_S, follow_redirects=False) as client,
            client.stream("POST", login.token_endpoint, data=data, headers=headers) as response,
        ):
            body = await _bounded(response)
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ValueError):
        return None, False
    if response.status_code in (400, 401, 403):
        return None, True
    try:
        token = OAuthToken.model_validate_json(body) if response.status_code in (200, 201) else None
    except ValidationError:
        token = None
    return (after(login, token), False) if token is not None else (None, False)


def after(login: Login, token: OAuthToken) -> Login:
    """A login with a new token; what the token does not say stays as it was (RFC 6749 §6)."""
    changes: dict[str, Any] = {
        "access_token": token.access_token,
        "expires_at": time.time() + token.expires_in if token.expires_in is not None else None,
        "refresh_token": token.refresh_token or login.refresh_token,
        "scope": token.scope or login.scope,
    }
    return login.model_copy(update=changes)


async def _bounded(response: httpx2.Response) -> bytes:
    body = b""
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > _MAX_ANSWER:
            raise ValueError("too long")
    return body
