"""A small authorization server for one person: clients register, and the owner lets each in by a pass phrase.

OAuth 2.1 as the MCP specification asks for, by the SDK's handlers; this is what they ask (the SDK's provider). Clients,
requests and codes are not kept but signed, so a stranger fills nothing. Of what the owner agreed to, digests of the
latest tokens are kept: codes count once and for a minute, and refresh tokens change at every use.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    RegistrationError,
    TokenError,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import BaseModel, ValidationError

from atc._host.addresses import is_safe_address
from atc._host.files import make_private, write_whole
from atc.errors import EnvironmentProblem, UsageError
from atc.serve.tokens import digest_of

MAX_REDIRECTS, MAX_URI, MAX_STATE, MAX_CLIENT = 10, 500, 2000, 2500
"""Redirect addresses of a client; characters of one, of a request's state, and of a client's name here."""
ASKED_S, CODE_S, ACCESS_S, REFRESH_S = 600.0, 60.0, 3600.0, 30 * 86400.0
"""Seconds that a request waits for the owner, and that a code, an access token and a refresh token count."""
TRIES, MAX_TRIED = 5, 1000
"""Wrong pass phrases after which a request is dropped, and requests of which they are counted."""
OWNER = "owner"
_PLACE = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?|\[[0-9A-Fa-f:]+\](:[0-9]+)?")
_WEB_SCHEMES = "about blob data file filesystem ftp javascript vbscript view-source ws wss".split()


class Consent(BaseModel):
    """What the owner agreed to. When a code or a token of it that was used comes again, it is stolen: all end.

    Attributes:
        client: that it is for.
        scopes: of its tokens.
        until: seconds since 1970; after it no token of it counts, and after ``access_until`` no access token.
        access, refresh: digests of the tokens that count; empty where none does any more.
    """

    client: str
    scopes: list[str]
    until: float = 0.0
    access_until: float = 0.0
    access: str = ""
    refresh: str = ""


class Kept(BaseModel):
    """What is on disk: the key that signs clients, who get nothing by that, and the consents by name."""

    key: str
    consents: dict[str, Consent]


@dataclass
class OwnServer(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """The authorization server.

    Attributes:
        url: its issuer.
        resource: the server that its tokens are for.
        phrase: of the owner. No key is made of it: clients could try phrases on what is signed.
        path: of the file in which the key and the consents are kept; only its owner can read it.
        scopes: of every token.
        clock: seconds since 1970.
        passing: signs requests and codes, while the process lasts: what is kept on disk makes none.
        tried: wrong pass phrases, by request.
    """

    url: str
    resource: str
    phrase: str
    path: Path | None = None
    scopes: list[str] = field(default_factory=list)
    clock: Callable[[], float] = time.time
    kept: Kept = field(default_factory=lambda: Kept(key=secrets.token_urlsafe(), consents={}))
    passing: str = field(default_factory=secrets.token_urlsafe, repr=False)
    tried: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        try:
            if self.path is not None:
                make_private(self.path.parent)
                self.kept = Kept.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            self._save()
        except OSError as error:
            raise EnvironmentProblem(f"{self.path} cannot be read: {error.strerror}") from None
        except ValidationError:
            raise UsageError(f"{self.path} is damaged: delete it, and clients are asked to be let in again") from None

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Give a client an id that says what it registered: it may ask the owner, and nothing else."""
        said = client_info.model_dump(mode="json", include={"redirect_uris", "token_endpoint_auth_method"})
        uris = said["redirect_uris"] or []
        if not 0 < len(uris) <= MAX_REDIRECTS or not all(map(redirect_allowed, uris)):
            raise RegistrationError(
                "invalid_redirect_uri", "redirect addresses are https, http on this machine, or an application's own"
            )
        said["client_name"] = (client_info.client_name or "")[:80]
        client_info.client_id = self._signed("client", client_info.client_id, said)
        if len(client_info.client_id) > MAX_CLIENT:
            raise RegistrationError("invalid_redirect_uri", "the redirect addresses are too long: register fewer")
        if client_info.client_secret is not None:
            client_info.client_secret = self._secret(client_info.client_id)

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        said = self._read("client", client_id)
        if said is None:
            return None
        secret = None if said["said"]["token_endpoint_auth_method"] == "none" else self._secret(client_id)
        scope = " ".join(self.scopes) or None
        return OAuthClientInformationFull(client_id=client_id, client_secret=secret, scope=scope, **said["said"])

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if params.resource is not None and params.resource.rstrip("/") != self.resource.rstrip("/"):
            raise AuthorizeError("invalid_target", "this authorization server is for one resource alone")
        if len(params.code_challenge) != 43 or len(params.state or "") > MAX_STATE:
            raise AuthorizeError("invalid_request", "code_challenge must be of S256, and state short")
        said = {"client": client.client_id, "name": client.client_name, **params.model_dump(mode="json")}
        return f"{self.url}/consent?request={self._signed('request', secrets.token_hex(16), said, ASKED_S)}"

    def waiting(self, request: str) -> Mapping[str, Any] | None:
        """What a request says that waits for the owner: the ``client``, its ``name``, and what it asked for."""
        said = self._read("request", request)
        if said is None or said["until"] <= self.clock() or self.tried.get(said["jti"], 0) >= TRIES:
            return None
        return {**said["said"], "jti": said["jti"]}

    def allow(self, request: str, phrase: str) -> str | None:
        """A code for the client of a request; None where the phrase is not the owner's or nothing waits."""
        asked = self.waiting(request)
        if asked is None:
            return None
        right = hmac.compare_digest(digest_of(phrase.strip()), digest_of(self.phrase))
        self._count(asked["jti"], TRIES if right else 1)
        names = ("client", "code_challenge", "redirect_uri", "redirect_uri_provided_explicitly")
        said = {name: asked[name] for name in names}
        return self._signed("code", secrets.token_hex(16), said, CODE_S) if right else None

    def deny(self, request: str) -> None:
        """Drop a request."""
        if (asked := self.waiting(request)) is not None:
            self._count(asked["jti"], TRIES)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        said = self._read("code", authorization_code)
        if said is not None and said["jti"] in self.kept.consents:
            self._end(said["jti"])
            return None
        if said is None or said["said"].pop("client") != client.client_id or said["until"] <= self.clock():
            return None
        return AuthorizationCode(
            code=authorization_code,
            scopes=self.scopes,
            expires_at=said["until"],
            client_id=client.client_id,
            resource=self.resource,
            subject=OWNER,
            **said["said"],
        )

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        said = self._read("code", authorization_code.code)
        if said is None or said["jti"] in self.kept.consents:
            raise TokenError("invalid_grant", "the code was used")
        self.kept.consents = {name: each for name, each in self.kept.consents.items() if each.until > self.clock()}
        self.kept.consents[said["jti"]] = Consent(client=client.client_id, scopes=authorization_code.scopes)
        return self._issue(said["jti"])

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        name, consent = self._named(refresh_token)
        if consent is None or consent.client != client.client_id or consent.until <= self.clock():
            return None
        if not _fits(refresh_token, consent.refresh):
            self._end(name)
            return None
        return RefreshToken(token=refresh_token, client_id=consent.client, scopes=consent.scopes, subject=OWNER)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        name, consent = self._named(refresh_token.token)
        if consent is None or not _fits(refresh_token.token, consent.refresh):
            raise TokenError("invalid_grant", "the refresh token was used")
        consent.scopes = scopes
        return self._issue(name)

    async def load_access_token(self, token: str) -> AccessToken | None:
        _, consent = self._named(token)
        if consent is None or not _fits(token, consent.access) or consent.access_until <= self.clock():
            return None
        return AccessToken(
            token=token,
            client_id=consent.client,
            scopes=consent.scopes,
            expires_at=int(consent.access_until),
            resource=self.resource,
            subject=OWNER,
            claims={"iss": self.url},
        )

    async def verify_token(self, token: str) -> AccessToken | None:
        """As :meth:`load_access_token`, for the server behind: without the token, and the client by its short name."""
        found = await self.load_access_token(token)
        said = self._read("client", found.client_id) if found is not None else None
        if found is None or said is None:
            return None
        return found.model_copy(update={"token": "", "client_id": said["jti"]})

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self._end(self._named(token.token)[0])

    def _issue(self, name: str) -> OAuthToken:
        access, refresh = (f"{name}.{secrets.token_urlsafe(32)}" for _ in range(2))
        consent, now = self.kept.consents[name], self.clock()
        consent.access, consent.access_until = digest_of(access).hex(), now + ACCESS_S
        consent.refresh, consent.until = digest_of(refresh).hex(), now + REFRESH_S
        self._save()
        scope = " ".join(consent.scopes) or None
        return OAuthToken(access_token=access, expires_in=int(ACCESS_S), refresh_token=refresh, scope=scope)

    def _named(self, token: str) -> tuple[str, Consent | None]:
        """The consent that a token names, whether it is one of its own or not."""
        name = token.partition(".")[0]
        return name, self.kept.consents.get(name)

    def _end(self, name: str) -> None:
        if (consent := self.kept.consents.get(name)) is not None:
            consent.access = consent.refresh = ""  # it stays itself: else its code would make another one
            self._save()

    def _count(self, name: str, tries: int) -> None:
        self.tried[name] = self.tried.get(name, 0) + tries
        if len(self.tried) > MAX_TRIED:
            self.tried.popitem(last=False)

    def _signed(self, kind: str, name: str, said: Mapping[str, Any], seconds: float = 0.0) -> str:
        claims = {"said": said, "aud": kind, "jti": name, "until": self.clock() + seconds}
        return jwt.encode(claims, self._key(kind), algorithm="HS256")

    def _read(self, kind: str, signed: str) -> dict[str, Any] | None:
        try:
            needed: Any = {"require": ["said", "jti", "until"]}
            found = jwt.decode(signed, self._key(kind), algorithms=["HS256"], audience=kind, options=needed)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None
        return dict(found)

    def _key(self, kind: str) -> str:
        return self.kept.key if kind == "client" else self.passing

    def _secret(self, client_id: str) -> str:
        return hmac.digest(self.kept.key.encode(), client_id.encode(), "sha256").hex()

    def _save(self) -> None:
        if self.path is not None:
            write_whole(self.path, self.kept.model_dump_json())


def _fits(token: str, digest: str) -> bool:
    return hmac.compare_digest(digest_of(token).hex(), digest)


def redirect_allowed(uri: str) -> bool:
    """Whether a code may be sent there: https, http on this machine, or the own scheme of an application on it."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    if len(uri) > MAX_URI or "#" in uri or "@" in parts.netloc or not uri.isascii() or not uri.isprintable():
        return False
    if parts.scheme in ("https", "http"):
        return bool(_PLACE.fullmatch(parts.netloc)) and is_safe_address(uri)
    return bool(parts.scheme) and parts.scheme not in _WEB_SCHEMES
