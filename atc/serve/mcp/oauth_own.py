"""A small authorization server for one person: clients register, and the owner lets each in by a pass phrase.

OAuth 2.1 as the MCP specification asks for: codes count once and for a minute, PKCE with S256, exact redirect
addresses, short-lived access tokens, refresh tokens that change at every use. Of tokens only digests are kept.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    RegistrationError,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from atc._host.files import make_private, write_whole
from atc.errors import EnvironmentProblem, UsageError
from atc.serve.accepting import is_loopback
from atc.serve.mcp.tokens import exact_url
from atc.serve.pages.kit import page_of
from atc.serve.tokens import digest_of

MAX_CLIENTS, MAX_ASKED, MAX_TOKENS = 1_000, 1_000, 2_000
"""Clients, requests that wait for the owner, and tokens, spent ones too."""
MAX_ASKED_BY_CLIENT = 5
"""Requests of one client that wait: of more, its own oldest goes."""
MAX_REDIRECTS, MAX_URI, MAX_STATE = 10, 500, 2000
ASKED_S, CODE_S, ACCESS_S, REFRESH_S = 600.0, 60.0, 3600.0, 30 * 86400.0
"""Seconds that a request waits for the owner, and that a code, an access token and a refresh token count."""
TRIES = 5
"""Wrong pass phrases after which a request is dropped."""
OWNER = "owner"
_PLACE = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?|\[[0-9A-Fa-f:]+\](:[0-9]+)?")
_WEB_SCHEMES = "about blob data file filesystem ftp javascript vbscript view-source ws wss".split()


@dataclass
class Asked:
    """A request of a client that waits for the owner."""

    client: OAuthClientInformationFull
    params: AuthorizationParams
    until: float
    wrong: int = 0


@dataclass
class Grant:
    """What a token is good for. Tokens of one consent are a family: when one is stolen, all end."""

    kind: str
    client: str
    scopes: list[str]
    family: str
    until: float
    spent: bool = False


@dataclass
class OwnServer(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """The authorization server.

    Attributes:
        url: its issuer.
        resource: the server that its tokens are for.
        phrase: of the owner.
        path: of the file in which clients and digests are kept; only its owner can read it.
        scopes: of every token.
        clock: seconds since 1970.
        registered: when each client registered.
    """

    url: str
    resource: str
    phrase: str
    path: Path | None = None
    scopes: list[str] = field(default_factory=list)
    clock: Callable[[], float] = time.time
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    tokens: dict[str, Grant] = field(default_factory=dict)
    asked: dict[str, Asked] = field(default_factory=dict)
    registered: dict[str, float] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    redeemed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is not None:
            self._load(self.path)

    # -- clients -------------------------------------------------------------------------------------------------------

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        """A client that registered."""
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Take a client in: it may ask the owner, and nothing else.

        Raises:
            RegistrationError: its redirect addresses are not safe, or too many clients are in use, or new: whoever
                comes pushes out nobody who may just be signing in.
        """
        uris = [str(uri) for uri in client_info.redirect_uris or ()]
        if not uris or len(uris) > MAX_REDIRECTS or not all(map(redirect_allowed, uris)):
            raise RegistrationError(
                "invalid_redirect_uri", "redirect addresses are https, http on this machine, or an application's own"
            )
        used = {grant.client for grant in self.tokens.values()} | {
            *(each.client.client_id for each in self.asked.values()),
            *(each.client_id for each in self.codes.values()),
        }
        if len(self.clients) >= MAX_CLIENTS:
            old = self.clock() - ASKED_S
            unused = [name for name, since in self.registered.items() if name not in used and since <= old]
            if not unused:
                raise RegistrationError("invalid_client_metadata", "too many clients are in use: try again later")
            for name in unused:
                del self.clients[name], self.registered[name]
        self.registered[client_info.client_id] = self.clock()
        self.clients[client_info.client_id] = OAuthClientInformationFull(
            client_id=client_info.client_id,
            client_secret=client_info.client_secret,
            client_id_issued_at=client_info.client_id_issued_at,
            client_secret_expires_at=client_info.client_secret_expires_at,
            redirect_uris=client_info.redirect_uris,
            token_endpoint_auth_method=client_info.token_endpoint_auth_method,
            grant_types=[each for each in client_info.grant_types if each in ("authorization_code", "refresh_token")],
            client_name=(client_info.client_name or "")[:80],
            scope=" ".join(self.scopes) or None,
        )

    # -- the owner's word ----------------------------------------------------------------------------------------------

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """The page on which the owner decides.

        Raises:
            AuthorizeError: the request is for another server, its challenge is none of S256, or too many requests
                wait: a new one pushes out none of another client's.
        """
        if params.resource is not None and params.resource.rstrip("/") != self.resource.rstrip("/"):
            raise AuthorizeError("invalid_target", "this authorization server is for one resource alone")
        if len(params.code_challenge) != 43 or len(params.state or "") > MAX_STATE:
            raise AuthorizeError("invalid_request", "code_challenge must be of S256, and state short")
        now = self.clock()
        self.asked = {name: each for name, each in self.asked.items() if each.until > now}
        own = [name for name, each in self.asked.items() if each.client.client_id == client.client_id]
        if len(own) >= MAX_ASKED_BY_CLIENT:
            del self.asked[own[0]]
        elif len(self.asked) >= MAX_ASKED:
            raise AuthorizeError("temporarily_unavailable", "too many requests wait for the owner: try again later")
        name = secrets.token_urlsafe(32)
        self.asked[name] = Asked(client, params, now + ASKED_S)
        return f"{self.url}/consent?request={name}"

    def waiting(self, name: str) -> Asked | None:
        """A request that waits for the owner."""
        found = self.asked.get(name)
        return found if found is not None and found.until > self.clock() else None

    def allow(self, name: str, phrase: str) -> str | None:
        """A code for the client of a request; None where the phrase is not the owner's or nothing waits."""
        asked = self.waiting(name)
        if asked is None:
            return None
        if not hmac.compare_digest(digest_of(phrase.strip()), digest_of(self.phrase)):
            asked.wrong += 1
            if asked.wrong >= TRIES:
                del self.asked[name]
            return None
        del self.asked[name]
        code, params = secrets.token_urlsafe(32), asked.params
        now = self.clock()
        self.codes = {each: kept for each, kept in self.codes.items() if kept.expires_at > now}
        self.codes[_key(code)] = AuthorizationCode(
            code="",
            scopes=self.scopes,
            expires_at=now + CODE_S,
            client_id=asked.client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=self.resource,
            subject=OWNER,
        )
        return code

    def deny(self, name: str) -> None:
        """Drop a request."""
        self.asked.pop(name, None)

    # -- codes and tokens ----------------------------------------------------------------------------------------------

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        """A code that was not used. One that was ends all that came of it: somebody has stolen it."""
        key = _key(authorization_code)
        if (family := self.redeemed.get(key)) is not None:
            self._end(family)
        found = self.codes.get(key)
        if found is None or found.client_id != client.client_id or found.expires_at <= self.clock():
            return None
        return found.model_copy(update={"code": authorization_code})

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        """Tokens for a code, once.

        Raises:
            TokenError: it was used in the meantime.
        """
        key = _key(authorization_code.code)
        if self.codes.pop(key, None) is None:
            raise TokenError("invalid_grant", "the code was used")
        family = secrets.token_hex(16)
        self.redeemed[key] = family
        while len(self.redeemed) > MAX_TOKENS:
            del self.redeemed[next(iter(self.redeemed))]
        return self._issue(client.client_id, authorization_code.scopes, family)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        """A refresh token that counts. One that was used before ends all of its family."""
        found = self._known(refresh_token, "refresh")
        if found is None or found.client != client.client_id:
            return None
        if found.spent:
            self._end(found.family)
            return None
        return RefreshToken(
            token=refresh_token, client_id=found.client, scopes=found.scopes, expires_at=int(found.until), subject=OWNER
        )

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        """New tokens for a refresh token, which is spent then.

        Raises:
            TokenError: it was used in the meantime.
        """
        found = self._known(refresh_token.token, "refresh")
        if found is None or found.spent:
            raise TokenError("invalid_grant", "the refresh token was used")
        found.spent = True
        return self._issue(found.client, scopes, found.family)

    async def load_access_token(self, token: str) -> AccessToken | None:
        """An access token that counts."""
        found = self._known(token, "access")
        if found is None:
            return None
        return AccessToken(
            token=token,
            client_id=found.client,
            scopes=found.scopes,
            expires_at=int(found.until),
            resource=self.resource,
            subject=OWNER,
            claims={"iss": self.url},
        )

    async def verify_token(self, token: str) -> AccessToken | None:
        """As :meth:`load_access_token`; the token itself is not passed on."""
        found = await self.load_access_token(token)
        return None if found is None else found.model_copy(update={"token": ""})

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        """End a token, and all that came of the same consent."""
        found = self.tokens.get(_key(token.token))
        if found is not None:
            self._end(found.family)

    def _issue(self, client: str, scopes: list[str], family: str) -> OAuthToken:
        now = self.clock()
        self.tokens = {key: each for key, each in self.tokens.items() if each.until > now}
        while len(self.tokens) > MAX_TOKENS - 2:  # of whoever has most, such as one that refreshes without end
            (most, _), *_ = Counter(each.client for each in self.tokens.values()).most_common(1)
            del self.tokens[next(key for key, each in self.tokens.items() if each.client == most)]
        access, refresh = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self.tokens[_key(access)] = Grant("access", client, scopes, family, now + ACCESS_S)
        self.tokens[_key(refresh)] = Grant("refresh", client, scopes, family, now + REFRESH_S)
        self._save()
        return OAuthToken(
            access_token=access,
            expires_in=int(ACCESS_S),
            refresh_token=refresh,
            scope=" ".join(scopes) or None,
        )

    def _known(self, token: str, kind: str) -> Grant | None:
        found = self.tokens.get(_key(token))
        return found if found is not None and found.kind == kind and found.until > self.clock() else None

    def _end(self, family: str) -> None:
        self.tokens = {key: each for key, each in self.tokens.items() if each.family != family}
        self._save()

    # -- on disk -------------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        if self.path is None:
            return
        used = {each.client for each in self.tokens.values()}
        kept = {
            "clients": [each.model_dump(mode="json") for name, each in self.clients.items() if name in used],
            "tokens": {key: asdict(each) for key, each in self.tokens.items()},
        }
        write_whole(self.path, json.dumps(kept))

    def _load(self, path: Path) -> None:
        try:
            make_private(path.parent)
            kept = json.loads(path.read_text("utf-8"))
            self.clients = {each["client_id"]: OAuthClientInformationFull(**each) for each in kept["clients"]}
            self.registered = dict.fromkeys(self.clients, 0.0)
            self.tokens = {key: Grant(**each) for key, each in kept["tokens"].items()}
        except FileNotFoundError:
            return
        except OSError as error:
            raise EnvironmentProblem(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UsageError(f"{path} is damaged: delete it, and clients are asked to be let in again") from None


def redirect_allowed(uri: str) -> bool:
    """Whether a code may be sent there: https, http on this machine, or the own scheme of an application on it."""
    try:
        parts = urlsplit(uri)
        host = parts.hostname or ""
    except ValueError:
        return False
    if len(uri) > MAX_URI or "#" in uri or "@" in parts.netloc or not uri.isascii() or not uri.isprintable():
        return False
    if parts.scheme in ("https", "http") and not _PLACE.fullmatch(parts.netloc):
        return False
    if parts.scheme == "https":
        return bool(host)
    if parts.scheme == "http":
        return is_loopback(host)
    return bool(parts.scheme) and parts.scheme not in _WEB_SCHEMES


def _key(token: str) -> str:
    return digest_of(token).hex()


# -- the page on which the owner lets a client in, and the addresses of the server -------------------------------------

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
        back, state = str(asked.params.redirect_uri), asked.params.state
        if fields.get("decision") != "allow":
            self._own.deny(name)
            return _sent(construct_redirect_uri(back, error="access_denied", state=state, iss=self._own.url))
        code = self._own.allow(name, fields.get("phrase", ""))
        if code is not None:
            return _sent(construct_redirect_uri(back, code=code, state=state, iss=self._own.url))
        return _gone() if self._own.waiting(name) is None else _shown(name, asked, wrong=True)


def _shown(name: str, asked: Asked, wrong: bool = False) -> Response:
    parts = urlsplit(str(asked.params.redirect_uri))
    web = parts.scheme in ("http", "https")
    origin = f"{parts.scheme}://{parts.netloc}" if web else f"{parts.scheme}:"
    target = origin if web else f"the application behind {origin}"
    page = page_of(
        _TEMPLATE,
        title="Let a client in",
        client=asked.client.client_name,
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
