"""The credentials that recorded calls were sent with: told by their names and looks, kept apart from what is written.

Each becomes a security scheme of the document, which names it; its value stands in a :class:`RecordedSecret` alone.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from atc._host.header_syntax import is_token
from atc.schemas.infer.text import is_secret_name, looks_secret, mask_leaf, may_be_name, words
from atc.tools.har.entries import Entry

MAX_SCHEMES, MAX_COOKIES = 20, 1_000
"""Credentials of one host, and cookies that it set."""
MAX_LOOKED_AT = 20_000
"""Characters of a header, a cookie or an argument in which a credential is sought."""
_SESSION = frozenset("session sess sessid sid ssid auth login logged user remember identity account sso jwt".split())
_TRACKERS = re.compile(
    r"_g[aic]|_gcl|_fb[pc]|__utm|_hj|ajs_|amp_|amplitude|mp_|optimizely|optanon|intercom|_pk_|__cf|cf_|_dd|_cl[cs]k|"
    r"__stripe|_tt|_uet|_pin|hubspot|__hs|_ym|cookieconsent|euconsent|datadome|ak_|bm_|awsalb|incap_|visid_|nlbi_",
    re.IGNORECASE,
)
"""Cookies that are for others, or for machines between: no session of the service."""
_HEADERS = re.compile(r"csrf|xsrf|(?:^|-)(?:auth|token|session|secret|jwt)|token$|api-?key|access-?key", re.IGNORECASE)
_NOT_CREDENTIALS = ("cookie", "authorization", "host", "user-agent", "if-none-match", "if-match", "etag")


@dataclass(frozen=True)
class RecordedSecret:
    """A credential that a recording holds. Its value is in no document and no ``repr``.

    Attributes:
        scheme: the security scheme of the document that it is for, by which ``auth`` and ``ATC_AUTH_<SCHEME>`` name it.
        location: where it travels.
        wire: the name of the header, cookie or query parameter.
        value: as it was sent last, or set by an answer after that; without ``Bearer`` or ``Basic`` where the scheme is
            of that kind. Empty where the last answer cleared it.
        expires: until when it lasts (its cookie or its token says so); ``None`` where nothing says that.
        recorded_at: when it was seen last; ``None`` where the recording does not say.
        changes: how often it was another one than in the request before, and no cookie of its request: a token against
            forged requests, say, that each page gets anew.
    """

    scheme: str
    location: Literal["header", "cookie", "query"]
    wire: str
    value: str = field(repr=False)
    expires: datetime | None = None
    recorded_at: datetime | None = None
    changes: int = 0


_Key = tuple[Literal["header", "cookie", "query"], str, str]
"""Location, name on the wire, and kind: ``bearer``, ``basic`` or ``apiKey``."""


class Wallet:
    """Collects the credentials of one host, in the order of its entries.

    Args:
        prefix: stands before the names of schemes, where a recording has several hosts: a credential is for one.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._names: dict[_Key, str] = {}
        self._secrets: dict[_Key, RecordedSecret] = {}
        self._set: dict[str, tuple[str, datetime | None]] = {}

    def sent(self, entry: Entry) -> frozenset[str]:
        """Take what one call was sent with; return the names of its schemes."""
        names = []
        for key, value in _sent(entry):
            if (name := self._name(key)) is None:
                continue
            names.append(name)
            given, until = self._set.get(key[1], ("", None)) if key[0] == "cookie" else ("", None)
            until = (until if given == value else None) or _until_of_token(value)
            known = self._secrets.get(key)
            is_new = key[0] != "cookie" and known is not None and value not in (known.value, *entry.cookies.values())
            changes = is_new + (known.changes if known is not None else 0)
            self._secrets[key] = RecordedSecret(name, key[0], key[1], value, until, entry.at, changes)
        return frozenset(names)

    def answered(self, entry: Entry) -> None:
        """Take the cookies that one answer set or cleared: as a rule before the first call is sent with them."""
        for line in entry.set_cookies:
            name, value, until = _cookie(line, entry.at)
            if name in self._set or len(self._set) < MAX_COOKIES:
                self._set[name] = value, until
            key: _Key = ("cookie", name, "apiKey")
            if (scheme := self._names.get(key)) is not None:
                until = until or _until_of_token(value)
                self._secrets[key] = RecordedSecret(scheme, "cookie", name, value, until, entry.at)

    @property
    def secrets(self) -> dict[str, RecordedSecret]:
        """The credentials by scheme, as they were last."""
        return {secret.scheme: secret for secret in self._secrets.values()}

    def schemes(self) -> dict[str, Any]:
        """The security schemes of the document."""
        made: dict[str, Any] = {}
        for (location, wire, kind), name in self._names.items():
            plain = {"type": "apiKey", "in": location, "name": wire}
            made[name] = plain if kind == "apiKey" else {"type": "http", "scheme": kind}
        return made

    def is_credential(self, location: Literal["header", "cookie", "query"], wire: str) -> bool:
        """Whether a call was sent with a credential of this name."""
        return (location, wire, "apiKey") in self._names

    def _name(self, key: _Key) -> str | None:
        if key not in self._names:
            if len(self._names) >= MAX_SCHEMES:
                return None
            location, wire, kind = key
            plain = kind if kind != "apiKey" else re.sub(r"[^a-z0-9]+", "_", wire.lower()).strip("_")
            if not plain or not may_be_name(wire) or looks_secret(wire):
                plain = f"{location}_{len(self._names) + 1}"
            name = f"{self._prefix}{plain}"
            self._names[key] = name if name not in self._names.values() else f"{name}_{location}_{len(self._names)}"
        return self._names[key]


def is_secret(name: str, value: str) -> bool:
    """Whether a named text is a credential, by its name or by its look."""
    value = value[:MAX_LOOKED_AT]
    return bool(value) and mask_leaf(value, name) != value


def _sent(entry: Entry) -> Iterable[tuple[_Key, str]]:
    given = entry.headers.get("authorization", "")
    kind, _, value = given.partition(" ")
    if kind.lower() == "bearer" and value.strip():
        yield ("header", "Authorization", "bearer"), value.strip()
    elif kind.lower() == "basic" and (pair := _unpacked(value)):
        yield ("header", "Authorization", "basic"), pair
    elif given:
        yield ("header", "Authorization", "apiKey"), given
    for name, value in entry.headers.items():
        named = _HEADERS.search(name[:100]) is not None or is_secret(name, value)
        if value and named and name not in _NOT_CREDENTIALS and is_token(name):
            yield ("header", name, "apiKey"), value
    for name, value in entry.cookies.items():
        if is_token(name) and value and not _TRACKERS.match(name) and _is_session(name, value):
            yield ("cookie", name, "apiKey"), value
    for name, value in dict(entry.query).items():
        if is_secret(name, value):
            yield ("query", name, "apiKey"), value


def _is_session(name: str, value: str) -> bool:
    random = len(value) >= 16 and any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return is_secret_name(name) or random or not _SESSION.isdisjoint(words(name)) or is_secret(name, value)


def _unpacked(value: str) -> str:
    try:
        return base64.b64decode(value.strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""


def _cookie(line: str, at: datetime | None) -> tuple[str, str, datetime | None]:
    pair, *rest = line[:20_000].split(";", 20)
    name, _, value = pair.partition("=")
    given: Mapping[str, str] = {
        key.strip().lower(): text.strip() for key, _, text in (each.partition("=") for each in rest)
    }
    until, seconds = None, given.get("max-age", "")
    now = at or datetime.now(UTC)
    if re.fullmatch(r"-?\d{1,10}", seconds):
        until = now + timedelta(seconds=min(int(seconds), 10 * 365 * 86_400))
    elif "expires" in given:
        until = _date(given["expires"])
    cleared = until is not None and until <= now
    return name.strip(), "" if cleared else value.strip().strip('"'), None if cleared else until


def _date(text: str) -> datetime | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            made = read(text[:60])
            return made if made.tzinfo else made.replace(tzinfo=UTC)
        except (TypeError, ValueError, IndexError):
            continue
    return None


def _until_of_token(value: str) -> datetime | None:
    """When a JSON Web Token ends, by its claim ``exp``; nothing of it is believed but that."""
    parts = value[:10_000].split(".")
    if len(parts) != 3 or not value.startswith("eyJ"):
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (ValueError, KeyError, TypeError, OverflowError, OSError, RecursionError):
        return None
