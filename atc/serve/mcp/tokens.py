"""The tokens that callers show: those that the server's owner gives out, and those of an authorization server."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlsplit

import anyio
import httpx
import jwt
from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.provider import TokenVerifier as Verifier
from pydantic import AnyHttpUrl, ConfigDict, TypeAdapter
from starlette.authentication import AuthenticationError

from atc._host.addresses import is_safe_address
from atc._host.files import make_private
from atc._host.http_body import ENCODINGS, TooLarge, read_body
from atc.errors import EnvironmentProblem, ToolError, UsageError
from atc.serve.mcp.client import TOKEN
from atc.serve.tokens import Tenants, read_token


class TokenVerifier:
    """Verifies tokens of the owner (:class:`mcp.server.auth.provider.TokenVerifier`); each has all ``scopes``."""

    def __init__(self, tenants: Tenants, scopes: Sequence[str] = ()) -> None:
        self._tenants = tenants
        self._scopes = list(scopes)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return who showed it; None where nobody has this token."""
        name = self._tenants.of_token(token)
        return None if name is None else AccessToken(token="", client_id=f"{TOKEN}{name}", scopes=self._scopes)


def kept_token(path: Path) -> str:
    """The token of a file that only its owner reads; it is made where there is none.

    Raises:
        EnvironmentProblem: it cannot be made.
        UsageError: it cannot be read.
    """
    try:
        make_private(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return read_token(path)
    except OSError as error:
        raise EnvironmentProblem(
            f"the token cannot be kept in {path}: {error.strerror}. Give one by --token-file or ATC_MCP_TOKEN"
        ) from None
    with os.fdopen(descriptor, "w") as file:
        token = secrets.token_urlsafe(32)
        file.write(f"{token}\n")
    return token


_EXACT = TypeAdapter(AnyHttpUrl, config=ConfigDict(url_preserve_empty_path=True))


def exact_url(url: str) -> AnyHttpUrl:
    """Return the URL, without a slash that it did not have.

    Raises:
        pydantic.ValidationError: it is none.
    """
    return _EXACT.validate_python(url)


# -- an authorization server as the operator named it: its metadata, and the keys that it signs with -------------------

MAX_DOCUMENT = 512 * 1024
"""Bytes of a document of the issuer."""
ASK_S = 5.0
"""Seconds that the issuer has for one answer."""
FRESH_S, STALE_S = 3600.0, 24 * 3600.0
"""Seconds after which keys are asked for again, and after which older ones no longer count."""
AGAIN_S = 60.0
"""Seconds between two askings for keys, whatever key a token names."""
FAILED_S = 5.0
"""The same, where the last asking failed."""
MIN_RSA = 2048
_ALGORITHMS = frozenset("RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA".split())
_TEXTS = ("kty", "kid", "alg", "crv", "use")

Fetch = Callable[[str], Awaitable[Mapping[str, Any]]]


class IssuerUnreachable(AuthenticationError):
    """The authorization server could not be asked: nobody knows whether a token is good. The caller may try again."""


class Issuer:
    """What is known of an authorization server; asked for when it is needed, seldom, and by one request at a time.

    Args:
        url: the issuer, as its tokens have it in ``iss``.
        fetch: gets a JSON document of it.
        clock: seconds.

    Raises:
        UsageError: the URL is not https, or has parts that an issuer has not.
    """

    def __init__(self, url: str, fetch: Fetch | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        parts = urlsplit(url)
        if not is_safe_address(url) or parts.query or parts.fragment or parts.username is not None:
            raise UsageError(f"--oauth-issuer takes https://HOST (http:// on this machine alone), not {url!r}")
        self.url = url
        self._fetch = fetch or fetched
        self._clock = clock
        self._metadata: Mapping[str, Any] | None = None
        self._next_discovery = float("-inf")

    async def keys(self) -> dict[str, Any]:
        """Its public keys, as it publishes them (RFC 7517), but for what cannot be one to sign with.

        Raises:
            IssuerUnreachable: it cannot be asked.
        """
        listed = (await self._fetch(await self.endpoint("jwks_uri"))).get("keys")
        keys = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        whole = [each for each in keys if all(isinstance(each.get(name, ""), str) for name in _TEXTS)]
        good = [each for each in whole if each.get("use", "sig") == "sig" and each.get("alg", "RS256") in _ALGORITHMS]
        return {"keys": [{"kid": "the only one", **each} for each in good]}  # PyJWT drops a key without a name

    async def endpoint(self, name: str) -> str:
        """An address from the issuer's metadata (RFC 8414, or OpenID Connect's discovery).

        Raises:
            IssuerUnreachable: there is no such metadata, it is another issuer's, or it has no such address.
        """
        metadata = self._metadata
        if metadata is None:
            metadata = await self._discover()
        found = metadata.get(name)
        if not isinstance(found, str) or not is_safe_address(found):
            raise IssuerUnreachable(f"the metadata of the authorization server has no {name} that can be used")
        return found

    async def _discover(self) -> Mapping[str, Any]:
        if self._clock() < self._next_discovery:
            raise IssuerUnreachable("the authorization server could not be reached: try again in a few seconds")
        self._next_discovery = self._clock() + FAILED_S
        for address in build_oauth_authorization_server_metadata_discovery_urls(self.url, self.url):
            try:
                metadata = await self._fetch(address)
            except IssuerUnreachable:
                continue
            if metadata.get("issuer") == self.url:  # RFC 8414 §3.3: else somebody else's
                self._metadata = metadata
                return metadata
        raise IssuerUnreachable("the authorization server has no metadata in which it calls itself as configured")


class Keys(jwt.PyJWKClient):
    """Public keys of an issuer, who is asked seldom, whatever key a token names; older ones serve while it is down.

    A key is not cached by itself (``cache_keys``): one that was taken back would count for ever.
    """

    def __init__(self, issuer: Issuer) -> None:
        super().__init__(issuer.url, lifespan=FRESH_S)
        self._issuer = issuer
        self._known: dict[str, Any] = {}
        self._got = self._next = float("-inf")
        self._turn = anyio.CapacityLimiter(1)

    async def named(self, name: str | None) -> jwt.PyJWK | None:
        """The key with this id, or the only one where a token names none; None where the issuer has no such key.

        Raises:
            IssuerUnreachable: no keys are known that are young enough.
        """
        assert self.jwk_set_cache is not None
        if time.monotonic() - self._got > FRESH_S:
            self.jwk_set_cache.put(None)  # PyJWT takes older ones that served for fresh ones
        cached = self.jwk_set_cache.get()
        key = self.match_kid(cached.keys, name) if cached is not None and name is not None else None
        try:
            if key is None:
                key = await anyio.to_thread.run_sync(self._found, name, limiter=self._turn)
        except jwt.PyJWKClientConnectionError as error:
            raise IssuerUnreachable(str(error)) from None
        except jwt.PyJWTError:
            return None
        short = key.key_type == "RSA" and key.key.key_size < MIN_RSA
        return key if key.algorithm_name in _ALGORITHMS and not short else None

    def _found(self, name: str | None) -> jwt.PyJWK:
        if name is not None:
            return self.get_signing_key(name)
        keys = self.get_signing_keys()
        if len(keys) > 1:
            raise jwt.PyJWKClientError("the token names none of several keys")
        return keys[0]

    def fetch_data(self) -> Any:
        """The issuer's keys, in a thread of its server's: by the server's own way of asking, which is bounded."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + FAILED_S
            with suppress(IssuerUnreachable):
                self._known = anyio.from_thread.run(self._issuer.keys)
                self._got = time.monotonic()
                self._next = self._got + AGAIN_S
        if time.monotonic() - self._got > STALE_S:
            raise jwt.PyJWKClientConnectionError("the authorization server cannot be reached: try again in a minute")
        return self._known


async def fetched(url: str, form: Mapping[str, str] | None = None, auth: tuple[str, str] | None = None) -> Any:
    """A JSON object of the issuer, bounded in size and time, to which a form is posted; no redirect is followed.

    Raises:
        IssuerUnreachable: there is none.
    """
    method = "GET" if form is None else "POST"
    try:
        async with asyncio.timeout(ASK_S), httpx.AsyncClient(timeout=ASK_S, follow_redirects=False) as client:
            headers = {"Accept": "application/json", "Accept-Encoding": ENCODINGS}
            async with client.stream(method, url, data=form, auth=auth, headers=headers) as response:
                if response.status_code != 200:
                    raise IssuerUnreachable(f"the authorization server answered {response.status_code}")
                document = json.loads(await read_body(response, MAX_DOCUMENT))
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, TooLarge, ToolError, ValueError, RecursionError) as error:
        raise IssuerUnreachable(f"the authorization server cannot be asked: {type(error).__name__}") from None
    if not isinstance(document, dict):
        raise IssuerUnreachable("the authorization server answered no JSON object")
    return document


# -- signed tokens (RFC 9068), and any that the issuer is asked about (RFC 7662) ---------------------------------------

MAX_TOKEN = 8192
"""Characters of a token."""
MAX_NAME = 255
"""Characters of a subject, a client or a key's id."""
MAX_TIME = 2**53
"""Seconds of an expiry: no clock has more."""
LEEWAY_S = 30
"""Seconds by which the issuer's clock may be ahead."""
KNOWN_S = 30.0
"""Seconds for which the issuer's word on a token counts: so long does a token that was revoked still open."""
MAX_KNOWN, MAX_ASKING, MAX_QUEUE = 1024, 8, 64
"""Tokens whose state is kept; questions to the issuer at once; and those that wait for their turn."""
_TYPES = ("at+jwt", "application/at+jwt", "jwt")

Ask = Callable[[str, Mapping[str, str], tuple[str, str]], Awaitable[Mapping[str, Any]]]


def verifier_of(issuer: str, audiences: Sequence[str], *, client: str = "", secret: str = "") -> Verifier:
    """The verifier of an issuer's tokens: by its keys, or by asking it where a client is given.

    Args:
        issuer: its URL.
        audiences: names of this server; a token must be for one of them.
        client: this server's name at the issuer.
        secret: of it.

    Raises:
        UsageError: the URL is no issuer's, or a client has no secret.
    """
    if bool(client) != bool(secret):
        raise UsageError("oauth_client (--set) and its secret in ATC_MCP_OAUTH_SECRET go together")
    known = Issuer(issuer)
    return AskingVerifier(known, audiences, client, secret) if client else JwtVerifier(known, audiences)


class JwtVerifier:
    """Verifies signed tokens by the issuer's published keys; one of the audiences must stand in ``aud``."""

    def __init__(self, issuer: Issuer, audiences: Sequence[str]) -> None:
        self._issuer, self._keys = issuer, Keys(issuer)
        self._audiences = list(audiences)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Whose token it is; None where it is not good.

        Raises:
            IssuerUnreachable: the issuer's keys are not known.
        """
        if len(token) > MAX_TOKEN or token.count(".") != 2:
            return None
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None
        name = header.get("kid")
        kind = header.get("typ", "jwt")
        if "crit" in header or not isinstance(kind, str) or kind.lower() not in _TYPES:
            return None
        if name is not None and not (isinstance(name, str) and len(name) <= MAX_NAME):
            return None
        key = await self._keys.named(name)
        if key is None:
            return None
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm_name],
                audience=self._audiences,
                issuer=self._issuer.url,
                leeway=LEEWAY_S,
                options={"require": ["aud", "exp", "iss"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None
        return _access(claims, self._issuer.url)


class AskingVerifier:
    """Verifies tokens by asking the issuer (introspection); its word is kept for a short while.

    Args:
        issuer: whose tokens are taken.
        audiences: one of them must stand in ``aud``.
        client: this server's name at the issuer. ``secret``: proves it.
    """

    def __init__(
        self,
        issuer: Issuer,
        audiences: Sequence[str],
        client: str,
        secret: str,
        ask: Ask = fetched,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._audiences = set(audiences)
        self._auth = quote_plus(client), quote_plus(secret)  # RFC 6749 §2.3.1
        self._ask = ask
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[AccessToken | None, float]] = OrderedDict()
        self._turn = asyncio.Semaphore(MAX_ASKING)
        self._queue = 0

    async def verify_token(self, token: str) -> AccessToken | None:
        """Whose token it is; None where it is not good.

        Raises:
            IssuerUnreachable: the issuer cannot be asked, or too much is asked of it.
        """
        if not token or len(token) > MAX_TOKEN or not token.isascii():
            return None
        digest = hashlib.sha256(token.encode()).digest()
        known, until = self._known.get(digest, (None, float("-inf")))
        if self._clock() < until:
            return known
        if self._queue >= MAX_QUEUE:
            raise IssuerUnreachable("too many tokens wait to be verified: try again")
        self._queue += 1
        try:
            async with self._turn:
                address = await self._issuer.endpoint("introspection_endpoint")
                said = await self._ask(address, {"token": token, "token_type_hint": "access_token"}, self._auth)
        finally:
            self._queue -= 1
        found = self._judged(said)
        self._known[digest] = found, self._clock() + KNOWN_S
        self._known.move_to_end(digest)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return found

    def _judged(self, said: Mapping[str, Any]) -> AccessToken | None:
        audience = said.get("aud")
        named = [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
        good = (
            said.get("active") is True
            and said.get("iss", self._issuer.url) == self._issuer.url
            and any(isinstance(each, str) and each in self._audiences for each in named)
            and isinstance(said.get("nbf", 0), int | float)
            and said.get("nbf", 0) <= time.time() + LEEWAY_S
        )
        return _access(said, self._issuer.url) if good else None


def _access(claims: Mapping[str, Any], issuer: str) -> AccessToken | None:
    """What the server keeps of good claims; None where they name nobody."""
    client = claims.get("client_id", claims.get("azp", ""))
    subject = claims.get("sub", "")
    names = (client, subject)
    if not any(names) or not all(isinstance(each, str) and len(each) <= MAX_NAME for each in names):
        return None
    if not all(each.isprintable() for each in names):  # half a letter has no bytes, so it can be no principal's name
        return None
    expires = claims.get("exp")
    if expires is not None and (isinstance(expires, bool) or not isinstance(expires, int | float)):
        return None
    if expires is not None and not 0 <= expires <= MAX_TIME:
        return None
    return AccessToken(
        token="",  # it is not kept
        client_id=client,
        scopes=_scopes(claims),
        expires_at=None if expires is None else int(expires),
        subject=subject or None,
        claims={"iss": issuer},
    )


def _scopes(claims: Mapping[str, Any]) -> list[str]:
    said = claims.get("scope", claims.get("scp", ""))
    words = said.split() if isinstance(said, str) else said if isinstance(said, list) else []
    return [each for each in words if isinstance(each, str)]
