"""OAuth 2 tokens: fetched when they are needed, by client credentials or a refresh token (RFC 6749 §4.4, §6).

A credential is a mapping with these keys.

``client_id``, ``client_secret``
    who asks. Without ``refresh_token`` they are all that the client credentials grant takes.
``refresh_token``
    is changed for access tokens; one that the service puts in its place is used from then on, for this process.
``token_url``
    where tokens are had, unless the document says it.
``scope``, ``audience``
    sent along, where the service wants them.
``client_auth``
    ``"basic"`` (default) sends the client's secret in a header, ``"body"`` in the form.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus, urlsplit

import httpx

from atc._host.http_body import TooLarge, read_body
from atc.errors import ToolError, UsageError
from atc.tools.openapi.text import clean

KEYS = ("client_id", "client_secret", "refresh_token", "token_url", "scope", "audience", "client_auth")
SECRET_KEYS = ("client_secret", "refresh_token")

_MAX_ANSWER = 65_536
_MAX_TOKEN = 16_384
_EARLY_S = 30.0
"""A token is taken for expired so much before it is: the request has to arrive with it."""


@dataclass
class TokenSource:
    """The access token of one scheme: fetched once, kept until it expires, fetched anew after a refusal.

    Args:
        scheme: the scheme's name, for messages.
        given: the mapping that the user gave.
        token_url: where the document says that tokens are had; ``given`` may name another place.
        learn: called with every secret that comes in, so that it is shown nowhere.
        redacted: takes the secrets out of a text.

    Raises:
        UsageError: a key is unknown or missing.
    """

    scheme: str
    given: Mapping[str, str] = field(repr=False)
    token_url: str
    learn: Callable[[str], None] = field(repr=False)
    redacted: Callable[[str], str] = field(repr=False)
    _token: str = field(default="", repr=False)
    _until: float = field(default=0.0, repr=False)
    _refresh: str = field(default="", repr=False)
    _locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = field(
        default_factory=weakref.WeakKeyDictionary, repr=False
    )

    def __post_init__(self) -> None:
        given = self.given
        unknown = [key for key in given if key not in KEYS]
        if unknown or not all(isinstance(value, str) for value in given.values()):
            raise UsageError(f"the credential for {self.scheme!r} takes {', '.join(KEYS)} with strings as values")
        if not given.get("refresh_token") and not (given.get("client_id") and given.get("client_secret")):
            raise UsageError(
                f"the credential for {self.scheme!r} needs client_id and client_secret, or a refresh_token (and the "
                "client_id that it was given to)"
            )
        if given.get("client_auth", "basic") not in ("basic", "body"):
            raise UsageError(f"client_auth of {self.scheme!r} must be 'basic' or 'body'")
        self.token_url = given.get("token_url") or self.token_url
        if not self.token_url.startswith(("http://", "https://")):
            raise UsageError(f"the document does not say where tokens for {self.scheme!r} are had: give token_url")
        self._refresh = given.get("refresh_token", "")
        for key in SECRET_KEYS:
            if given.get(key):
                self.learn(given[key])

    async def put_on(self, request: httpx.Request, client: httpx.AsyncClient) -> None:
        """Write the token into a request.

        Raises:
            ToolError: none can be had. Nothing was sent to the service itself.
        """
        lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:
            if not self._token or time.monotonic() >= self._until:
                await self._fetch(client)
            request.headers["Authorization"] = f"Bearer {self._token}"

    def renew(self, request: httpx.Request) -> bool:
        """After a refusal: whether another token is worth a try. The one in ``request`` is not used again."""
        if request.headers.get("Authorization") == f"Bearer {self._token}":
            self._token = ""
        return True

    async def _fetch(self, client: httpx.AsyncClient) -> None:
        request = client.build_request("POST", self.token_url, headers=self._headers(), data=self._form())
        try:
            response = await client.send(request, stream=True, follow_redirects=False)
            try:
                status, body = response.status_code, await read_body(response, _MAX_ANSWER)
            finally:
                await response.aclose()
        except (httpx.HTTPError, httpx.InvalidURL, TooLarge, ToolError) as error:
            raise ToolError(
                f"no token for {self.scheme!r}: {self._host} cannot be asked ({type(error).__name__})",
                status="unreachable",
                transient=True,
                cause="unreachable",
            ) from None
        self._take(status, _object(body))

    def _take(self, status: int, answer: dict[str, Any]) -> None:
        token = answer.get("access_token")
        good = isinstance(token, str) and 0 < len(token) <= _MAX_TOKEN and all("!" <= char <= "~" for char in token)
        if status != 200 or not good:
            words = [answer.get(key) for key in ("error", "error_description")]
            down = status >= 500
            reason = " ".join(clean(self.redacted(word), 200) for word in words if isinstance(word, str)).strip()
            raise ToolError(
                f"no token for {self.scheme!r}: {self._host} answered with status {status}"
                + (f": {reason}" if reason else "")
                + ("" if down else "; check the credential (client_id, client_secret, refresh_token, client_auth)"),
                status=status if down else 401,
                transient=down,
                cause="unreachable" if down else "credential",
            )
        assert isinstance(token, str)
        self.learn(token)
        self._token = token
        seconds = _seconds(answer.get("expires_in"))
        self._until = time.monotonic() + max(seconds - _EARLY_S, seconds / 2) if seconds > 0 else float("inf")
        refresh = answer.get("refresh_token")
        if self._refresh and isinstance(refresh, str) and refresh:
            self.learn(refresh)
            self._refresh = refresh

    def _form(self) -> dict[str, str]:
        form = {"grant_type": "refresh_token" if self._refresh else "client_credentials"}
        if self._refresh:
            form["refresh_token"] = self._refresh
        form |= {key: self.given[key] for key in ("scope", "audience") if self.given.get(key)}
        if not self._in_header:
            form |= {key: self.given[key] for key in ("client_id", "client_secret") if self.given.get(key)}
        return form

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "atc"}
        if self._in_header:
            pair = f"{quote_plus(self.given.get('client_id', ''))}:{quote_plus(self.given['client_secret'])}"
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        return headers

    @property
    def _in_header(self) -> bool:
        return bool(self.given.get("client_secret")) and self.given.get("client_auth", "basic") == "basic"

    @property
    def _host(self) -> str:
        return urlsplit(self.token_url).hostname or "the token endpoint"


def _seconds(lasts: Any) -> float:
    """Seconds that a token lasts, a number or text; 0 where it is not stated or no such number."""
    try:
        return float(lasts) if isinstance(lasts, int | float | str) else 0.0
    except (ValueError, OverflowError):
        return 0.0


def _object(body: bytes) -> dict[str, Any]:
    try:
        made = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return made if isinstance(made, dict) else {}
