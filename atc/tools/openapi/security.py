"""Security schemes and the credentials for them.

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
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus

from atc.errors import ToolImportError, UsageError
from atc.tools.openapi.refs import Resolver

REDACTED = "[redacted]"
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}\Z")
_SHORTEST_SECRET = 4
_SHORTEST_HEADER = _LONG_SECRET = 8


@dataclass(frozen=True)
class Scheme:
    """How one credential travels: in a header, query or cookie; ``prefix`` stands before a header's value."""

    name: str
    location: str
    wire: str
    prefix: str = ""


def read_schemes(raw: Mapping[str, Any], resolver: Resolver) -> dict[str, Scheme]:
    """The schemes of a document that a credential can be given for; others (mutual TLS, digest) are left out."""
    schemes: dict[str, Scheme] = {}
    for name, node in raw.items():
        try:
            scheme = _scheme(name, resolver.mapping(node, f"the security scheme {name!r}"))
        except ToolImportError:
            continue  # an operation that needs it is called without a credential, and its 401 says so
        if scheme is not None:
            schemes[name] = scheme
    return schemes


def _scheme(name: str, node: dict[str, Any]) -> Scheme | None:
    kind, wire = node.get("type"), node.get("name")
    if kind == "apiKey" and node.get("in") in ("header", "query", "cookie") and isinstance(wire, str) and wire:
        return None if node["in"] != "query" and not is_token(wire) else Scheme(name, node["in"], wire)
    if kind == "http" and isinstance(node.get("scheme"), str):
        prefix = {"basic": "Basic ", "bearer": "Bearer "}.get(node["scheme"].lower())
        return Scheme(name, "header", "Authorization", prefix) if prefix else None
    return Scheme(name, "header", "Authorization", "Bearer ") if kind in ("oauth2", "openIdConnect") else None


def variable_for(scheme: str) -> str:
    """The environment variable that may hold the credential of a scheme: ``api-key`` → ``ATC_AUTH_API_KEY``."""
    return "ATC_AUTH_" + re.sub(r"[^A-Z0-9]+", "_", scheme.upper()).strip("_")


def is_token(text: str) -> bool:
    """Whether ``text`` may be the name of a header or a cookie."""
    return _TOKEN.match(text) is not None


def is_header_value(text: str) -> bool:
    """Whether ``text`` may be the value of a header: no control character (so no line break), Latin-1 only."""
    return all(char == "\t" or (" " <= char <= "ÿ" and not "\x7f" <= char <= "\x9f") for char in text)


class Credentials:
    """The credentials of one import, by scheme.

    Args:
        schemes: the schemes that the document declares.
        auth: credentials given by the user, by scheme name; for HTTP basic ``"user:password"``.
        headers: headers that the user wants on every request; taken for secrets as well.

    Raises:
        UsageError: a name that is no scheme, or a value that cannot stand in a header.
    """

    def __init__(
        self, schemes: Mapping[str, Scheme], auth: Mapping[str, str] | None, headers: Mapping[str, str] | None
    ) -> None:
        self.schemes = dict(schemes)
        self.headers = dict(headers or {})
        for name in auth or {}:
            if name not in schemes:
                known = ", ".join(map(repr, schemes)) or "none; pass headers= instead"
                raise UsageError(f"auth names {name!r}, which is no security scheme of the document (it has: {known})")
        self._values: dict[str, str] = {}
        secrets = {
            value for value in self.headers.values() if isinstance(value, str) and len(value) >= _SHORTEST_HEADER
        }
        for name, scheme in schemes.items():
            given = (auth or {}).get(name) or os.environ.get(variable_for(name), "")
            if given:
                self._values[name] = _header_value(scheme, given)
                secrets |= {given.strip(), self._values[name]}
                if scheme.prefix == "Basic ":
                    secrets.add(given.strip().partition(":")[2])
        self._check_headers()
        self._secrets = _spellings(secrets)
        self._long_secrets = [secret for secret in self._secrets if len(secret) >= _LONG_SECRET]
        _LOG_FILTER.watch(self)

    def __repr__(self) -> str:
        return f"Credentials(for {', '.join(self._values) or 'nothing'})"

    def has(self, scheme: str) -> bool:
        """Whether there is a credential for a scheme."""
        return scheme in self._values

    def chosen(self, alternatives: tuple[tuple[str, ...], ...]) -> list[tuple[Scheme, str]]:
        """The schemes to use, with their values: the first alternative that can be met as a whole; else none."""
        for names in alternatives:
            if names and all(self.has(name) for name in names):
                return [(self.schemes[name], self._values[name]) for name in names]
        return []

    def missing(self, alternatives: tuple[tuple[str, ...], ...]) -> str:
        """A hint for a call that was refused, when no alternative can be met; else an empty string."""
        if not alternatives or self.headers or self.chosen(alternatives) or () in alternatives:
            return ""
        name = alternatives[0][0]
        if name not in self.schemes:
            return f" (the security scheme {name!r} is not supported: pass headers= to the import)"
        return (
            f" (no credential is set for {name!r}: pass auth={{{name!r}: …}} to the import or set {variable_for(name)})"
        )

    def redacted(self, text: str) -> str:
        """``text`` with every spelling of a credential replaced."""
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return text

    def redacted_value(self, value: Any) -> Any:
        """A JSON value with every credential in it replaced, in keys too.

        Short ones stay: a credential like ``demo`` is no secret, and replacing it would spoil what the service says.
        """
        if not self._long_secrets:
            return value
        if isinstance(value, str):
            for secret in self._long_secrets:
                value = value.replace(secret, REDACTED)
            return value
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


def _header_value(scheme: Scheme, given: str) -> str:
    if not isinstance(given, str):
        raise UsageError(f"the credential for {scheme.name!r} must be a string, not {type(given).__name__}")
    given = given.strip()
    if not scheme.prefix or given.lower().startswith(scheme.prefix.lower()):
        return given
    if scheme.prefix == "Basic ":
        given = base64.b64encode(given.encode()).decode()
    return scheme.prefix + given


def _spellings(secrets: set[str]) -> list[str]:
    """Every way in which a credential may be echoed, the longest first."""
    plain = set(secrets)
    for value in secrets:
        words = value.split(" ")
        if len(words) == 2 and words[0].lower() in ("basic", "bearer", "token", "apikey"):
            plain.add(words[1])
    spelled = {
        form
        for value in plain
        for form in (value, quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1])
        if len(form) >= _SHORTEST_SECRET
    }
    return sorted(spelled, key=lambda form: (-len(form), form))


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
