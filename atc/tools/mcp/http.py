"""A server over HTTP: the SDK's transport on a client that bounds what is read and sends the kept login along."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata, OAuthToken

from atc.tools.mcp.exchange import BoundedClient, BoundedStream, BoundedTransport, Exchange
from atc.tools.mcp.logins import Login, Logins, LoginStorage, login_of, origin_of
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
    if any(name.lower() == "authorization" for name in spec.headers):
        return None
    return KeptLoginAuth(spec, Logins.of_user())


# -- the kept login is sent along and renewed; nobody is asked to log in here ------------------------------------------

_MAX_ANSWER = 1_000_000
_TIMEOUT_S = 20.0
_LOG = logging.getLogger(__name__)


class KeptLoginAuth(httpx2.Auth):
    """Sends the kept login to the server's own origin, and renews it when it ends.

    The SDK's provider renews and logs in; it does not send the calls, as it lets one request go on at a time and would
    begin a login with nobody there.

    Args:
        spec: the server. What is kept for it becomes one of its secrets.
        logins: where logins are kept.
    """

    def __init__(self, spec: ServerSpec, logins: Logins) -> None:
        self._spec, self._logins = spec, logins
        self._origin = origin_of(spec.url)
        self._by_itself = spec.oauth is not None and spec.oauth.by_itself
        self._lock = asyncio.Lock()
        self._stamp = 0
        self._login: Login | None = None

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if origin_of(str(request.url)) != self._origin:  # a redirect led away: it gets no token
            yield request
            return
        login = await self._current()
        if login is not None:
            request.headers["Authorization"] = f"Bearer {login.token.access_token}"
        response = yield request
        if response.status_code != 401 or login is None or not self._renews(login):
            return
        renewed = await self._renewed(login)
        if renewed is not None and renewed.token != login.token:
            if isinstance(response.stream, httpx2.AsyncByteStream):  # the client reads it before it sends again
                response.stream = BoundedStream(response.stream, _MAX_ANSWER, False, Exchange())
            request.headers["Authorization"] = f"Bearer {renewed.token.access_token}"
            yield request

    def _renews(self, login: Login | None) -> bool:
        return self._by_itself or (login is not None and login.renewable)

    async def _current(self) -> Login | None:
        async with self._lock:
            if (stamp := self._logins.stamp(self._spec.url)) != self._stamp:
                self._know(self._logins.read(self._spec.url), stamp)
        if (self._login is None or self._login.ended) and self._renews(self._login):
            return await self._renewed(self._login)
        return self._login

    def _know(self, login: Login | None, stamp: int) -> None:
        self._login, self._stamp = login, stamp
        if login is not None:
            self._spec.secrets.add(login.secrets)

    async def _renewed(self, old: Login | None) -> Login | None:
        """The login after ``old``; ``old`` itself where it cannot be renewed just now, nothing where never."""
        url = self._spec.url
        async with self._lock, self._logins.held(url):
            now = self._logins.read(url)
            if (now and now.token) != (old and old.token):  # another process was quicker, or logged out
                self._know(now, self._logins.stamp(url))
                return now
            made, lost = await self._by_credentials() if self._by_itself or old is None else await renew(old)
            if lost:
                self._logins.forget(url)
                self._know(None, 0)
            elif made is not None:
                self._kept(made)
            return self._login

    async def _by_credentials(self) -> tuple[Login | None, bool]:
        """A login with the client's own credentials: nobody need be asked."""
        from atc.tools.mcp.login import LoginFailed, log_in_by_credentials

        try:
            return await log_in_by_credentials(self._spec), False
        except LoginFailed as error:
            _LOG.warning("%s: %s", self._spec.location, error)
            return None, False

    def _kept(self, login: Login) -> None:
        try:
            self._logins.write(login)
        except OSError as error:
            _LOG.warning("a renewed login cannot be kept: %s", error.strerror or type(error).__name__)
        self._know(login, self._logins.stamp(login.url))


async def renew(login: Login) -> tuple[Login | None, bool]:
    """Ask for a new access token where the old one came from (RFC 6749 §6).

    Returns:
        The new login, if there is one; and whether the old one is lost: the user must log in again.
    """
    storage = LoginStorage(login.client, login.token)
    provider = OAuthClientProvider(login.url, OAuthClientMetadata(redirect_uris=None), storage)
    provider.context.oauth_metadata, provider.context.protected_resource_metadata = login.issuer, login.resource
    provider.context.token_expiry_time = 1.0  # it has ended, whatever was said
    to_server = httpx2.Request("GET", login.url)  # comes after the renewal, and is not sent
    flow, status = provider.async_auth_flow(to_server), 0
    try:
        async with (
            asyncio.timeout(_TIMEOUT_S),
            httpx2.AsyncClient(transport=BoundedTransport(_MAX_ANSWER), timeout=_TIMEOUT_S) as client,
        ):
            request = await anext(flow)
            while request is not to_server:
                response = await client.send(request)
                status = response.status_code
                if status == 200:
                    OAuthToken.model_validate_json(await response.aread())  # the SDK would log a wrong one, tokens too
                request = await flow.asend(response)
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OAuthFlowError, TimeoutError, ValueError):
        return None, False
    finally:
        await flow.aclose()
    if status in (400, 401, 403):
        return None, True
    return login_of(login.url, provider.context, login.subject), False
