"""Log in at a server (OAuth 2.1: authorization code with PKCE, or the client's own credentials), with its user's eyes.

The SDK finds the authorization server, registers and exchanges the code. Here the user sees who will give the token and
agrees where that is somebody else than the server; and the code comes back to a door on this machine alone.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.utils import issuers_match
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata
from pydantic import AnyUrl

from atc.errors import AtcError, UsageError
from atc.tools.mcp.exchange import BoundedTransport
from atc.tools.mcp.failures import server_text
from atc.tools.mcp.logins import Login, LoginStorage, login_of, origin_of
from atc.tools.mcp.spec import ServerSpec

MAX_ANSWER = 5_000_000
PATH = "/callback"
_LOCAL = ("127.0.0.1", "::1", "localhost")
_PAGE = "<!doctype html><meta charset=utf-8><title>ATC</title><p>{}</p>"


class LoginFailed(AtcError):
    """A login did not come about. The message says why, and what to do."""


@dataclass(frozen=True)
class Talk:
    """How the user takes part.

    Attributes:
        show: shows a line.
        agree: asks whether to go on.
        open: opens an address in the user's browser; ``None``: it is only shown.
    """

    show: Callable[[str], None]
    agree: Callable[[str], bool]
    open: Callable[[str], Any] | None = None


class _Provider(OAuthClientProvider):
    """The SDK's, with the user's consent to who gives the token, before anything is sent there."""

    guard: _Guard

    def _select_authorization_server(self, advertised: list[str]) -> str:
        chosen = self.guard.chosen(advertised)
        self.guard.ensure_agreed(chosen)
        return chosen


class _Guard:
    def __init__(self, spec: ServerSpec, talk: Talk) -> None:
        self._talk = talk
        self._issuer = spec.oauth.issuer if spec.oauth is not None else ""
        self._server = urlsplit(spec.url).hostname or ""
        self._agreed = {origin_of(spec.url)[:2]}

    def chosen(self, advertised: list[str]) -> str:
        """The authorization server of those that the server names: the configured one, where one is configured.

        Raises:
            LoginFailed: the server does not name that one; what belongs to it is sent to no other.
        """
        if not self._issuer:
            return advertised[0]
        found = next((each for each in advertised if issuers_match(each, self._issuer)), None)
        if found is None:
            named = urlsplit(advertised[0]).hostname or advertised[0][:100]
            raise LoginFailed(f"the server leaves the login to {named}, not to the issuer of its configuration")
        return found

    def ensure_agreed(self, url: str) -> None:
        """Raise LoginFailed unless the user agrees to this address."""
        scheme, host, _ = origin_of(url)
        if scheme != "https" and host not in _LOCAL:
            raise LoginFailed(f"the authorization server {host or url[:100]} is not reached over https: no login there")
        if (scheme, host) in self._agreed:
            return
        named = bool(self._issuer) and origin_of(self._issuer)[:2] == (scheme, host)
        question = f"{self._server} leaves the login to another host, {host}. Log in there?"
        if not named and not self._talk.agree(question):
            raise LoginFailed(f"you did not agree to log in at {host}")
        self._agreed.add((scheme, host))


async def log_in(spec: ServerSpec, talk: Talk, *, timeout_s: float = 300.0) -> Login | None:
    """Log in at a server; the user takes part where the server wants them to.

    Args:
        spec: a server over HTTP.
        talk: with the user.
        timeout_s: seconds that it may take in all.

    Returns:
        The login; ``None`` where the server wants none.

    Raises:
        UsageError: the server is a program.
        LoginFailed: it does not come about.
    """
    if not spec.url:
        raise UsageError(f"{spec.location} is a program: only a server with an address has a login")
    if spec.oauth is not None and spec.oauth.by_itself:
        return await log_in_by_credentials(spec, timeout_s=timeout_s)
    guard = _Guard(spec, talk)
    async with _door(spec.oauth.redirect_port if spec.oauth is not None else 0) as door:
        provider = _provider(spec, door.address, guard)

        async def redirect(url: str) -> None:
            _ensure_endpoints_agreed(provider, guard)
            door.expect(url)
            talk.show(f"The token will come from {urlsplit(_token_endpoint(provider)).hostname}. Open this address:")
            talk.show(url)
            if talk.open is not None:
                talk.open(url)

        provider.context.redirect_handler = redirect
        provider.context.callback_handler = door.answer
        return await _carried_out(spec, provider, timeout_s)


async def log_in_by_credentials(spec: ServerSpec, *, timeout_s: float = 60.0) -> Login:
    """Log in with the client's own credentials, which the configuration has: nobody is asked.

    Raises:
        LoginFailed: it does not come about.
    """
    options = spec.oauth
    assert options is not None
    provider = ClientCredentialsOAuthProvider(
        spec.url,
        LoginStorage(),
        options.client_id,
        options.client_secret,
        scope=options.scope or None,
        issuer=options.issuer,
    )
    made = await _carried_out(spec, provider, timeout_s)
    if made is None:
        raise LoginFailed("the server wants no login: take `oauth` out of its configuration")
    return made


def _provider(spec: ServerSpec, address: str, guard: _Guard) -> _Provider:
    if not hasattr(OAuthClientProvider, "_select_authorization_server"):  # it is the SDK's own: one day it may go
        raise LoginFailed(
            "the installed package `mcp` gives no say in which host gives the token, so nobody could be asked about "
            "another one: install mcp 2.3"
        )
    options = spec.oauth
    metadata = OAuthClientMetadata(
        client_name="ATC",
        redirect_uris=[AnyUrl(address)],
        grant_types=["authorization_code", "refresh_token"],
        scope=options.scope or None if options is not None else None,
    )
    known = None
    if options is not None and options.client_id:
        known = OAuthClientInformationFull(
            client_id=options.client_id,
            client_secret=options.client_secret or None,
            issuer=options.issuer or None,
            redirect_uris=[AnyUrl(address)],
            token_endpoint_auth_method="client_secret_basic" if options.client_secret else "none",
        )
    made = _Provider(spec.url, metadata, LoginStorage(known))
    made.guard = guard
    return made


def _ensure_endpoints_agreed(provider: OAuthClientProvider, guard: _Guard) -> None:
    metadata = provider.context.oauth_metadata
    if metadata is not None:
        guard.ensure_agreed(str(metadata.authorization_endpoint))
    guard.ensure_agreed(_token_endpoint(provider))


def _token_endpoint(provider: OAuthClientProvider) -> str:
    metadata = provider.context.oauth_metadata
    if metadata is not None and metadata.token_endpoint:
        return str(metadata.token_endpoint)
    return urljoin(provider.context.get_authorization_base_url(provider.context.server_url), "/token")


async def _carried_out(spec: ServerSpec, provider: OAuthClientProvider, timeout_s: float) -> Login | None:
    """Greet the server, which has the SDK log in where the server wants that."""
    spec.secrets.add([spec.oauth.client_secret] if spec.oauth is not None else [])
    headers = {"User-Agent": "atc", **spec.headers, "Accept-Encoding": "identity"}
    http = httpx2.AsyncClient(transport=BoundedTransport(MAX_ANSWER), auth=provider, headers=headers, timeout=30.0)
    try:
        server = Client(streamable_http_client(spec.url, http_client=http), mode="legacy", cache=None)
        async with asyncio.timeout(timeout_s), http, server:
            pass
    except TimeoutError:
        raise LoginFailed(f"nobody came back within {timeout_s:g} s: try again") from None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit | asyncio.CancelledError):
            raise
        if provider.context.current_tokens is None:
            raise _failure(spec, error) from None
    made = login_of(spec.url, provider.context, secrets.token_hex(8))
    spec.secrets.add(made.secrets if made is not None else [])
    return made


def _failure(spec: ServerSpec, error: BaseException) -> LoginFailed:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, LoginFailed):
        return error
    said = server_text(error, spec)
    if isinstance(error, OAuthRegistrationError):
        return LoginFailed(f"the authorization server registers no clients by itself: give oauth.client_id ({said})")
    if isinstance(error, OAuthTokenError | OAuthFlowError):
        return LoginFailed(f"the login failed: {said}")
    if isinstance(error, httpx2.TransportError):
        return LoginFailed(f"the server or its authorization server cannot be reached ({type(error).__name__})")
    return LoginFailed(f"the server could not be spoken to: {said or type(error).__name__}")


# -- the door through which the code comes back ------------------------------------------------------------------------


class _Door:
    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}{PATH}"
        self._state = ""
        self._come: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()

    def expect(self, url: str) -> None:
        """Only an answer to this address is let in."""
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]

    async def answer(self) -> AuthorizationCodeResult:
        return await self._come

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                line = await reader.readuntil(b"\r\n")
            status, words = self._take(line.decode("latin-1"))
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            status, words = "400 Bad Request", "This was no answer."
        body = _PAGE.format(words).encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"Cache-Control: no-store\r\nConnection: close\r\n\r\n" + body)
        writer.close()

    def _take(self, line: str) -> tuple[str, str]:
        method, _, rest = line.partition(" ")
        parts = urlsplit(rest.partition(" ")[0])
        if method != "GET" or parts.path != PATH:
            return "404 Not Found", "There is nothing here."
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if not self._state or not hmac.compare_digest(given.get("state", "").encode(), self._state.encode()):
            return "400 Bad Request", "This is no answer to the login that goes on."
        if self._come.done():
            return "400 Bad Request", "The login is over."
        if "code" not in given:
            why = " ".join(given.get("error", "no code came back").split())[:100]
            self._come.set_exception(LoginFailed(f"the authorization server refused: {why!r}"))
            return "200 OK", "The login was refused. You can close this window."
        code, state, iss = given["code"], given["state"], given.get("iss")
        self._come.set_result(AuthorizationCodeResult(code=code, state=state, iss=iss))
        return "200 OK", "You are logged in. You can close this window."


@asynccontextmanager
async def _door(port: int) -> AsyncIterator[_Door]:
    made: list[_Door] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made[0].serve(reader, writer)

    try:
        server = await asyncio.start_server(serve, "127.0.0.1", port, limit=16_384)
    except OSError as error:
        raise LoginFailed(f"port {port} of this machine cannot be listened at: {error.strerror}") from None
    async with server:
        made.append(_Door(server.sockets[0].getsockname()[1]))
        yield made[0]
