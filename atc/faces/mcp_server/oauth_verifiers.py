"""Tokens of an OAuth authorization server: signed ones (RFC 9068), or any that the issuer is asked about (RFC 7662)."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus

import jwt
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.provider import TokenVerifier as Verifier

from atc.errors import UsageError
from atc.faces.mcp_server.oauth_issuer import Issuer, IssuerUnreachable, fetched

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
        raise UsageError("--oauth-client and its secret in ATC_MCP_OAUTH_SECRET go together")
    known = Issuer(issuer)
    return AskingVerifier(known, audiences, client, secret) if client else JwtVerifier(known, audiences)


class JwtVerifier:
    """Verifies signed tokens by the issuer's published keys.

    Args:
        issuer: whose tokens are taken.
        audiences: one of them must stand in ``aud``.
    """

    def __init__(self, issuer: Issuer, audiences: Sequence[str]) -> None:
        self._issuer = issuer
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
        key = await self._issuer.key(name)
        if key is None:
            return None
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=list(key.algorithms),
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
        client: this server's name at the issuer.
        secret: of it.
        ask: posts the question.
        clock: seconds.
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
