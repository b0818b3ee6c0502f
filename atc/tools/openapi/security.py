"""The credentials for the security schemes of a document.

Credentials are given by the user, held here, and put on a request at the last moment. They are in no protocol, no
``repr``, and every message that may echo one goes through :meth:`Credentials.redacted`.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import weakref
from collections.abc import Mapping
from typing import Any
from typing import Protocol as Interface
from urllib.parse import urlsplit

import httpx

from atc import wording
from atc.errors import UsageError
from atc.secret_forms import SecretForms, without_scheme
from atc.tools.openapi import aws
from atc.tools.openapi.oauth import TokenSource
from atc.tools.openapi.plan import Operation
from atc.tools.openapi.schemes import Scheme, is_token
from atc.tools.openapi.servers import is_open_to_others
from atc.tools.tool import MissingCredential

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


def is_header_value(text: str) -> bool:
    """Whether ``text`` may be the value of a header: no control character (so no line break), Latin-1 only."""
    return all(char == "\t" or (" " <= char <= "ÿ" and not "\x7f" <= char <= "\x9f") for char in text)


class Credentials:
    """The credentials of one import, by scheme.

    Args:
        schemes: the schemes that the document declares.
        auth: credentials given by the user, by scheme name; for HTTP basic ``"user:password"``, for OAuth 2 and AWS
            also a mapping (:mod:`atc.tools.openapi.oauth`, :mod:`atc.tools.openapi.aws`).
        headers: headers of the user for every request; taken for secrets as well.

    Raises:
        UsageError: a name that is no scheme, or a value that cannot stand in a header.
    """

    def __init__(
        self, schemes: Mapping[str, Scheme], auth: Mapping[str, Given] | None, headers: Mapping[str, str] | None
    ) -> None:
        self.schemes = dict(schemes)
        self.headers = dict(headers or {})
        for name in auth or {}:
            if name not in schemes:
                known = ", ".join(map(repr, schemes)) or "none; pass headers= instead"
                raise UsageError(f"auth names {name!r}, which is no security scheme of the document (it has: {known})")
        self._values: dict[str, str] = {}
        self._live: dict[str, Live] = {}
        self._plain: set[str] = set()
        self.learn(*(v for v in self.headers.values() if isinstance(v, str) and len(v) >= _SHORTEST_HEADER))
        for name, scheme in schemes.items():
            given = _read(scheme, (auth or {}).get(name) or os.environ.get(variable_for(name), ""))
            if isinstance(given, Mapping):
                self._live[name] = _live(scheme, given, self)
            elif given:
                self._values[name] = _header_value(scheme, given)
                self.learn(given, self._values[name])
                if scheme.prefix == "Basic ":
                    self.learn(given.partition(":")[2])
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
        """Whether there is a credential for a scheme."""
        return scheme in self._values or scheme in self._live

    def _names(self, alternatives: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        """The schemes to use: the first alternative that can be met as a whole; else none."""
        return next((names for names in alternatives if names and all(map(self.has, names))), ())

    def chosen(self, alternatives: tuple[tuple[str, ...], ...]) -> list[tuple[Scheme, str]]:
        """The schemes to use whose value is known, with their values."""
        return [(self.schemes[name], self._values[name]) for name in self._names(alternatives) if name in self._values]

    def live(self, alternatives: tuple[tuple[str, ...], ...]) -> list[Live]:
        """Those of the schemes to use that are made anew for each request."""
        return [self._live[name] for name in self._names(alternatives) if name in self._live]

    def check_place(self, operation: Operation) -> None:
        """Refuse to send a credential where others can read it.

        Raises:
            UsageError: the operation's server, or the place of its tokens, is another machine reached by plain http.
        """
        names = self._names(operation.security)
        places = [operation.server] if operation.server and (names or self.headers) else []
        places += [source.token_url for source in self.live(operation.security) if isinstance(source, TokenSource)]
        for place in filter(is_open_to_others, places):
            raise UsageError(
                f"{operation.label} would send a credential to {urlsplit(place).hostname} by plain http, where others "
                "can read it: give an https address with base_url= (--openapi service_url=…), or allow it "
                "with allow_http_credentials=True (--openapi allow_http_credentials)"
            )

    def lacking(self, alternatives: tuple[tuple[str, ...], ...]) -> MissingCredential | None:
        """The first credential that is asked for, where no alternative can be met."""
        if not alternatives or self.headers or self._names(alternatives) or () in alternatives:
            return None
        name = next(name for name in alternatives[0] if not self.has(name))
        return MissingCredential(name, variable_for(name) if name in self.schemes else "")

    def sent(self, alternatives: tuple[tuple[str, ...], ...]) -> bool:
        """Whether a call with these alternatives has a credential: of a scheme, or in the user's own headers."""
        return bool(self.headers or self._names(alternatives))

    def hint(self, alternatives: tuple[tuple[str, ...], ...]) -> str:
        """What is to be looked at after a call was refused for its credential; empty where none is asked for."""
        if (lacking := self.lacking(alternatives)) is not None:
            return f" ({wording.no_credential(lacking.scheme, lacking.variable)})"
        sent = " and ".join(
            f"the credential for {name!r} was sent: check auth={{{name!r}: …}} or {variable_for(name)}"
            for name in self._names(alternatives)
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
    """A credential in the form that its scheme takes: a mapping where one is meant, else a string.

    Raises:
        UsageError: it is neither, or not what the scheme takes.
    """
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


def _header_value(scheme: Scheme, given: str) -> str:
    if not scheme.prefix or given.lower().startswith(scheme.prefix.lower()):
        return given
    if scheme.prefix == "Basic ":
        given = base64.b64encode(given.encode()).decode()
    return scheme.prefix + given


class _LogFilter(logging.Filter):
    """Keeps credentials out of httpx's own log, which writes whole URLs: an API key may stand in a query."""

    def __init__(self) -> None:
        super().__init__()
        self._watched: weakref.WeakSet[Credentials] = weakref.WeakSet()

    def watch(self, credentials: Credentials) -> None:
        self._watched.add(credentials)

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        clean = message
        for credentials in list(self._watched):
            clean = credentials.redacted(clean)
        if clean != message:
            record.msg, record.args = clean, None
        return True


_LOG_FILTER = _LogFilter()
logging.getLogger("httpx").addFilter(_LOG_FILTER)
