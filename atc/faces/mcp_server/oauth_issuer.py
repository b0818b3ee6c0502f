"""An OAuth authorization server as this server's operator named it: its metadata, and the keys that it signs with."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import jwt
from starlette.authentication import AuthenticationError

from atc.errors import UsageError
from atc.serving import is_loopback

MAX_DOCUMENT = 512 * 1024
"""Bytes of a document of the issuer."""
MAX_KEYS = 100
ASK_S = 5.0
"""Seconds that the issuer has for one answer."""
FRESH_S, STALE_S = 3600.0, 24 * 3600.0
"""Seconds after which keys are asked for again, and after which older ones no longer count."""
AGAIN_S = 60.0
"""Seconds between two askings for keys, whatever key a token names."""
FAILED_S = 5.0
"""The same, where the last asking failed."""
MIN_RSA = 2048
_BY_CURVE = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA"}
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")

Fetch = Callable[[str], Awaitable[Mapping[str, Any]]]


class IssuerUnreachable(AuthenticationError):
    """The authorization server could not be asked: nobody knows whether a token is good. The caller may try again."""


@dataclass(frozen=True)
class Key:
    """A public key, and the algorithms that it may be used with: fixed by the key, never by a token."""

    key: Any
    algorithms: tuple[str, ...]


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
        if not _safe(url) or parts.query or parts.fragment or parts.username is not None:
            raise UsageError(f"--oauth-issuer takes https://HOST (http:// on this machine alone), not {url!r}")
        self.url = url
        self._fetch = fetch or fetched
        self._clock = clock
        self._asking = asyncio.Lock()
        self._metadata: Mapping[str, Any] | None = None
        self._keys: dict[str | None, Key] = {}
        self._got = self._next = self._next_discovery = float("-inf")

    async def key(self, name: str | None) -> Key | None:
        """The key with this id, or the only one where a token names none; None where the issuer has no such key.

        Raises:
            IssuerUnreachable: no keys are known that are young enough.
        """
        now = self._clock()
        if now - self._got > FRESH_S or self._named(name) is None:
            await self._refresh()
        if self._clock() - self._got > STALE_S:
            raise IssuerUnreachable("the authorization server cannot be reached: try again in a minute")
        return self._named(name)

    def _named(self, name: str | None) -> Key | None:
        if name is not None:
            return self._keys.get(name)
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    async def _refresh(self) -> None:
        async with self._asking:
            if self._clock() < self._next:
                return
            self._next = self._clock() + FAILED_S
            try:
                keys = keys_of(await self._fetch(await self.endpoint("jwks_uri")))
            except IssuerUnreachable:
                return  # older keys serve until they are too old
            self._keys, self._got = keys, self._clock()
            self._next = self._got + AGAIN_S

    async def endpoint(self, name: str) -> str:
        """An address from the issuer's metadata (RFC 8414, or OpenID Connect's discovery).

        Raises:
            IssuerUnreachable: there is no such metadata, it is another issuer's, or it has no such address.
        """
        metadata = self._metadata
        if metadata is None:
            metadata = await self._discover()
        found = metadata.get(name)
        if not isinstance(found, str) or not _safe(found):
            raise IssuerUnreachable(f"the metadata of the authorization server has no {name} that can be used")
        return found

    async def _discover(self) -> Mapping[str, Any]:
        if self._clock() < self._next_discovery:
            raise IssuerUnreachable("the authorization server could not be reached: try again in a few seconds")
        self._next_discovery = self._clock() + FAILED_S
        parts = urlsplit(self.url)
        origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
        tried = dict.fromkeys(
            (
                f"{origin}/.well-known/oauth-authorization-server{path}",
                f"{origin}/.well-known/openid-configuration{path}",
                f"{origin}{path}/.well-known/openid-configuration",
            )
        )
        for address in tried:
            try:
                metadata = await self._fetch(address)
            except IssuerUnreachable:
                continue
            if metadata.get("issuer") == self.url:  # RFC 8414 §3.3: else somebody else's
                self._metadata = metadata
                return metadata
        raise IssuerUnreachable("the authorization server has no metadata in which it calls itself as configured")


def keys_of(document: Mapping[str, Any]) -> dict[str | None, Key]:
    """The public keys of a JWKS (RFC 7517) that may sign; others, and what is no key, are left out."""
    found: dict[str | None, Key] = {}
    listed = document.get("keys")
    for each in listed[:MAX_KEYS] if isinstance(listed, list) else ():
        if not isinstance(each, dict) or each.get("use", "sig") != "sig":
            continue
        kind, name = each.get("kty"), each.get("kid")
        fits = _RSA if kind == "RSA" else tuple(filter(None, [_BY_CURVE.get(str(each.get("crv")))]))
        fits = tuple(one for one in fits if each.get("alg", one) == one)
        if kind not in ("RSA", "EC", "OKP") or not fits or not (name is None or isinstance(name, str)):
            continue
        try:
            key = jwt.PyJWK({**each, "alg": fits[0]}).key
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        if kind == "RSA" and key.key_size < MIN_RSA:
            continue
        found[name] = Key(key, fits)
    return found


def _safe(url: str) -> bool:
    """Whether nobody between here and there can change what is answered."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


async def fetched(url: str, form: Mapping[str, str] | None = None, auth: tuple[str, str] | None = None) -> Any:
    """A JSON object of the issuer, bounded in size and time; no redirect is followed.

    Args:
        url: of it.
        form: posted where given.
        auth: name and secret of a client.

    Raises:
        IssuerUnreachable: there is none.
    """
    method = "GET" if form is None else "POST"
    try:
        async with asyncio.timeout(ASK_S), httpx.AsyncClient(timeout=ASK_S, follow_redirects=False) as client:
            asked = client.stream(method, url, data=form, auth=auth, headers={"Accept": "application/json"})
            async with asked as response:
                if response.status_code != 200:
                    raise IssuerUnreachable(f"the authorization server answered {response.status_code}")
                body = b""
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > MAX_DOCUMENT:
                        raise IssuerUnreachable("the authorization server answered too much")
        document = json.loads(body)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, RecursionError) as error:
        raise IssuerUnreachable(f"the authorization server cannot be asked: {type(error).__name__}") from None
    if not isinstance(document, dict):
        raise IssuerUnreachable("the authorization server answered no JSON object")
    return document
