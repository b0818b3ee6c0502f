"""The security schemes that a document declares, and the credentials for them.

Credentials are given by the user, held here, and put on a request at the last moment. They are in no protocol, no
``repr``, and every message that may echo one goes through :meth:`Credentials.redacted`.

OAuth 2 tokens are fetched when they are needed (:mod:`atc.tools.openapi.oauth`). A credential for an ``oauth2`` or
``openIdConnect`` scheme is either a ready token (a string) or a mapping with the keys that this module lists; where
only a string can be given (the environment, the command line), the mapping is written as JSON.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal
from typing import Protocol as Interface
from urllib.parse import urljoin, urlsplit

import httpx

from atc import wording
from atc._host.header_syntax import is_header_value, is_token
from atc._host.log_masking import MaskingFilter
from atc._host.secret_forms import SecretForms, without_scheme
from atc._records.records import RecordedSession
from atc.errors import ToolImportError, UsageError
from atc.tools.openapi import aws
from atc.tools.openapi.load import Resolver
from atc.tools.openapi.oauth import TokenSource
from atc.tools.openapi.plan import Operation
from atc.tools.openapi.servers import is_open_to_others
from atc.tools.openapi.session import Session
from atc.tools.tool import MissingCredential

AWS_MARK = "x-amazon-apigateway-authtype"
"""The extension by which a document says how AWS requests are signed."""

_FLOWS = ("clientCredentials", "authorizationCode", "password")


@dataclass(frozen=True)
class Scheme:
    """How one credential travels: in a header, query or cookie; ``prefix`` stands before a header's value.

    Attributes:
        kind: ``"oauth2"`` takes a mapping as well, with which tokens are fetched; ``"sigv4"`` signs every request.
        token_url: where the document says that tokens are had.
        service: what the document calls an AWS service.
    """

    name: str
    location: str
    wire: str
    prefix: str = ""
    kind: Literal["static", "oauth2", "sigv4"] = "static"
    token_url: str = ""
    service: str = ""


def read_schemes(raw: Mapping[str, Any], resolver: Resolver, document_url: str | None = None) -> dict[str, Scheme]:
    """The schemes of a document that a credential can be given for; others (mutual TLS, digest) are left out.

    Args:
        raw: the schemes by name, as OpenAPI 3 has them.
        resolver: follows references.
        document_url: against which the URLs of tokens count.
    """
    schemes: dict[str, Scheme] = {}
    for name, node in raw.items():
        try:
            scheme = _scheme(name, resolver.mapping(node, f"the security scheme {name!r}"), document_url)
        except ToolImportError:
            continue  # an operation that needs it is called without a credential, and its 401 says so
        if scheme is not None:
            schemes[name] = scheme
    return schemes


def _scheme(name: str, node: dict[str, Any], document_url: str | None) -> Scheme | None:
    kind, wire = node.get("type"), node.get("name")
    if node.get(AWS_MARK) in aws.SIGNED:
        return Scheme(name, "header", "Authorization", kind="sigv4")
    if kind == "apiKey" and node.get("in") in ("header", "query", "cookie") and isinstance(wire, str) and wire:
        return None if node["in"] != "query" and not is_token(wire) else Scheme(name, node["in"], wire)
    if kind == "http" and isinstance(node.get("scheme"), str):
        prefix = {"basic": "Basic ", "bearer": "Bearer "}.get(node["scheme"].lower())
        return Scheme(name, "header", "Authorization", prefix) if prefix else None
    if kind in ("oauth2", "openIdConnect"):
        return Scheme(name, "header", "Authorization", "Bearer ", "oauth2", _token_url(node, document_url))
    return None


def _token_url(node: dict[str, Any], document_url: str | None) -> str:
    """The token URL: that of the flow for programs first. Swagger 2 has one flow, beside the scheme's type."""
    flows = node.get("flows")
    listed = [flows.get(flow) for flow in _FLOWS] if isinstance(flows, dict) else [node]
    urls = [flow.get("tokenUrl") for flow in listed if isinstance(flow, dict)]
    url = next((url.strip() for url in urls if isinstance(url, str) and url.strip()), "")
    try:
        return urljoin(document_url or "", url)
    except ValueError:
        return ""


_REPLACED = ("client_secret", "client_auth", "secret_access_key", "session_token")
"""What proves a credential that is a mapping, and says not whose it is: the rest does."""

REDACTED = "[redacted]"
_SHORTEST_SECRET = 4
Given = str | Mapping[str, str]
"""A credential as the user gives it."""
_SHORTEST_HEADER = _LONG_SECRET = 8


class Live(Interface):
    """A credential that is made anew for a request: a token that expires, a signature."""

    async def put_on(self, request: httpx.Request, client: httpx.AsyncClient) -> None:
        """Write it into a request."""
        ...

    def renew(self, request: httpx.Request) -> bool:
        """After a refusal of a request: whether another one is worth a try."""
        ...


def variable_for(scheme: str) -> str:
    """The environment variable that may hold the credential of a scheme: ``api-key`` → ``ATC_AUTH_API_KEY``."""
    return "ATC_AUTH_" + re.sub(r"[^A-Z0-9]+", "_", scheme.upper()).strip("_")


class Credentials:
    """The credentials of one import, by scheme.

    Args:
        schemes: the schemes that the document declares.
        auth: credentials given by the user, by scheme name; for HTTP basic ``"user:password"``, for OAuth 2 and AWS
            also a mapping (:mod:`atc.tools.openapi.security`, :mod:`atc.tools.openapi.aws`).
        headers: headers of the user for every request; taken for secrets as well.
        session: a recorded login. What the user gives for a scheme, by ``auth`` or in the environment, stands above it.

    Raises:
        UsageError: a name that is no scheme, or a value that cannot stand in a header.
    """

    def __init__(
        self,
        schemes: Mapping[str, Scheme],
        auth: Mapping[str, Given] | None,
        headers: Mapping[str, str] | None,
        session: Session | None = None,
    ) -> None:
        self.schemes = dict(schemes)
        self.headers = dict(headers or {})
        for name in auth or {}:
            if name not in schemes:
                known = ", ".join(map(repr, schemes)) or "none; pass headers= instead"
                raise UsageError(f"auth names {name!r}, which is no security scheme of the document (it has: {known})")
        self._values: dict[str, str] = {}
        self._live: dict[str, Live] = {}
        self._principals: dict[str, str] = {}
        self._plain: set[str] = set()
        self.learn(*(v for v in self.headers.values() if isinstance(v, str) and len(v) >= _SHORTEST_HEADER))
        for name, scheme in schemes.items():
            given = _read(scheme, (auth or {}).get(name) or os.environ.get(variable_for(name), ""))
            if isinstance(given, Mapping):
                self._live[name] = _live(scheme, dict(given), self)
                self._principals[name] = json.dumps({key: given[key] for key in sorted(given) if key not in _REPLACED})
            elif given:
                self._values[name] = _header_value(scheme, given)
                self.learn(given, self._values[name])
                if scheme.prefix == "Basic ":
                    self.learn(given.partition(":")[2])
        self._session = session
        self._recorded_values = {} if session is None else _sendable(schemes, session)
        self.learn(*(part for value in self._recorded_values.values() for part in _parts_of(value)))
        self._check_headers()
        _LOG_FILTER.watch(self)

    def __repr__(self) -> str:
        return f"Credentials(for {', '.join([*self._values, *self._live]) or 'nothing'})"

    def learn(self, *secrets: str) -> None:
        """Take strings for secrets: :meth:`redacted` finds them from now on."""
        self._plain |= set(secrets)
        known = {each for value in self._plain for each in without_scheme(value) if len(each) >= _SHORTEST_SECRET}
        self._secrets = SecretForms(known)
        self._long_secrets = SecretForms(secret for secret in known if len(secret) >= _LONG_SECRET)

    def has(self, scheme: str) -> bool:
        """Whether the user has given a credential for a scheme."""
        return scheme in self._values or scheme in self._live

    def _recorded(self, scheme: str, operation: Operation) -> str:
        if self._session is None or self.has(scheme) or self._session.why_not(scheme, operation.server):
            return ""
        return self._recorded_values.get(scheme, "")

    def _names(self, operation: Operation) -> tuple[str, ...]:
        """The first alternative that can be met as a whole. Of a recorded login what is left is used: which of a
        browser's cookies a service looks at is not known."""
        met = [tuple(n for n in names if self.has(n) or self._recorded(n, operation)) for names in operation.security]
        whole = (names for names, asked in zip(met, operation.security, strict=True) if names and names == asked)
        recorded = (names for names in met if any(self._recorded(name, operation) for name in names))
        return next(whole, next(recorded, ()))

    def chosen(self, operation: Operation) -> list[tuple[Scheme, str]]:
        """The schemes to use whose value is known, with their values."""
        pairs = [(name, self._values.get(name) or self._recorded(name, operation)) for name in self._names(operation)]
        return [(self.schemes[name], value) for name, value in pairs if value]

    def live(self, operation: Operation) -> list[Live]:
        """Those of the schemes to use that are made anew for each request."""
        return [self._live[name] for name in self._names(operation) if name in self._live]

    def check_place(self, operation: Operation) -> None:
        """Refuse to send a credential where others can read it.

        Raises:
            UsageError: the operation's server, or the place of its tokens, is another machine reached by plain http.
        """
        names = self._names(operation)
        places = [operation.server] if operation.server and (names or self.headers) else []
        places += [source.token_url for source in self.live(operation) if isinstance(source, TokenSource)]
        for place in filter(is_open_to_others, places):
            raise UsageError(
                f"{operation.label} would send a credential to {urlsplit(place).hostname} by plain http, where others "
                "can read it: give an https address with base_url= (--openapi service_url=…), or allow it "
                "with allow_http_credentials=True (--openapi allow_http_credentials)"
            )

    def lacking(self, operation: Operation) -> MissingCredential | None:
        """The first credential that is not there, of the alternative that lacks least; or the recorded one that is
        over."""
        alternatives, names = operation.security, self._names(operation)
        if not alternatives or self.headers or () in alternatives:
            return None
        there = {n for asked in alternatives for n in asked if self.has(n) or self._recorded(n, operation)}
        fitting = [asked for asked in alternatives if {*names} <= {*asked}]
        asked = min(fitting, key=lambda asked: len({*asked} - there))  # an alternative that is met lacks none
        for name in asked:
            why = self._session.why_missing(name, operation.server) if self._session and not self.has(name) else ""
            if why or name not in there:
                about = self._session.about if self._session is not None and why else None
                return MissingCredential(name, variable_for(name) if name in self.schemes else "", (), why, about)
        return None

    def note(self, operation: Operation, status: int) -> None:
        """Note what a service answered to a call: a recorded login may be over."""
        if self._session is not None:
            names = self._names(operation)
            self._session.note([name for name in names if self._recorded(name, operation)], status)

    def sent(self, operation: Operation) -> bool:
        """Whether a call has a credential: of a scheme, or in the user's own headers."""
        return bool(self.headers or self._names(operation))

    def session(self, operation: Operation) -> RecordedSession | None:
        """The recorded login that goes with a call."""
        if self._session is None:
            return None
        return self._session.going_with(n for n in self._names(operation) if self._recorded(n, operation))

    def account(self, operation: Operation) -> dict[str, str]:
        """Return what says where a call goes and for whom, by kind and name: of a credential its scheme, and its value
        or whom it stands for."""
        found = {"address": operation.server or ""}
        found |= {f"header {name.lower()}": value for name, value in self.headers.items()}
        for name in self._names(operation):
            value = self._values.get(name) or self._recorded(name, operation) or self._principals.get(name, "")
            found[f"credential {name}"] = f"{self.schemes[name]} {value}"
        about = self.session(operation)
        return found if about is None else found | {"recording": f"{about.file} {about.recorded_at} {about.origin}"}

    def hint(self, operation: Operation) -> str:
        """What is to be looked at after a call was refused for its credential; empty where none is asked for."""
        if (lacking := self.lacking(operation)) is not None:
            return f" ({wording.no_credential(lacking)})"
        sent = " and ".join(
            f"the credential for {name!r} was sent: check auth={{{name!r}: …}} or {variable_for(name)}"
            for name in self._names(operation)
        )
        if not sent and self.headers:
            sent = "the headers that were passed were sent: check headers="
        return f" ({sent})" if sent else ""

    def redacted(self, text: str) -> str:
        """``text`` with every spelling of a credential replaced."""
        return self._secrets.masked(text, REDACTED)

    def redacted_bytes(self, body: bytes) -> bytes:
        """Bytes with every credential in them replaced, as :meth:`redacted_value` does it."""
        return self._long_secrets.masked_bytes(body, REDACTED)

    def redacted_value(self, value: Any) -> Any:
        """A JSON value with every credential in it replaced, in keys too.

        Short ones stay: a credential like ``demo`` is no secret, and replacing it would spoil what the service says.
        """
        if not self._long_secrets:
            return value
        if isinstance(value, str):
            return self._long_secrets.masked(value, REDACTED)
        if isinstance(value, list):
            return [self.redacted_value(item) for item in value]
        if isinstance(value, dict):
            return {self.redacted_value(key): self.redacted_value(item) for key, item in value.items()}
        return value

    def _check_headers(self) -> None:
        for name, value in self.headers.items():
            if not is_token(name) or not isinstance(value, str) or not is_header_value(value):
                raise UsageError(f"headers[{name!r}] is no header: take a plain name and a value without line breaks")
        for name, value in self._values.items():
            location = self.schemes[name].location
            if location != "query" and (not is_header_value(value) or (location == "cookie" and ";" in value)):
                raise UsageError(
                    f"the credential for {name!r} has characters that a {location} cannot hold (a line break?)"
                )


def _read(scheme: Scheme, given: Any) -> Given:
    name = scheme.name
    if isinstance(given, str):
        given = given.strip()
        if scheme.kind == "static" or not given.startswith("{"):
            if scheme.kind == "sigv4" and given and given != "aws":
                raise UsageError(
                    f"the credential for {name!r} signs requests: give the word 'aws' or a mapping with access_key_id "
                    "and secret_access_key"
                )
            return {} if given == "aws" and scheme.kind == "sigv4" else given
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            raise UsageError(f"the credential for {name!r} begins with a brace and is no JSON object") from None
    if not isinstance(given, Mapping):
        raise UsageError(f"the credential for {name!r} must be a string, not {type(given).__name__}")
    if scheme.kind == "static":
        raise UsageError(f"the credential for {name!r} is one value: give a string, not a mapping")
    return given


def _live(scheme: Scheme, given: Mapping[str, str], credentials: Credentials) -> Live:
    if scheme.kind == "sigv4":
        return aws.AwsSigner(scheme.name, given, scheme.service, credentials.learn)
    return TokenSource(scheme.name, given, scheme.token_url, credentials.learn, credentials.redacted)


def _sendable(schemes: Mapping[str, Scheme], session: Session) -> dict[str, str]:
    """A recording is a stranger's text: what could end a header, or begin another cookie, is no credential."""
    found = {}
    for name, value in session.values.items():
        scheme = schemes.get(name)
        if scheme is None or scheme.kind != "static":
            continue
        whole = _header_value(scheme, value)
        if scheme.location == "query" or (
            is_header_value(whole) and not (scheme.location == "cookie" and ";" in whole)
        ):
            found[name] = whole
    return found


def _parts_of(value: str) -> list[str]:
    """What is secret of a credential as it is sent: all of it, and the password of HTTP basic."""
    found = [value]
    if value.lower().startswith("basic "):
        with suppress(ValueError):
            found.append(base64.b64decode(value[6:]).decode().partition(":")[2])
    return [each for each in found if each]


def _header_value(scheme: Scheme, given: str) -> str:
    if not scheme.prefix or given.lower().startswith(scheme.prefix.lower()):
        return given
    if scheme.prefix == "Basic ":
        given = base64.b64encode(given.encode()).decode()
    return scheme.prefix + given


_LOG_FILTER = MaskingFilter(Credentials.redacted)
"""Of httpx: an API key may stand in a query."""
logging.getLogger("httpx").addFilter(_LOG_FILTER)
