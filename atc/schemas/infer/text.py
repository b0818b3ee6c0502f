"""The form of a string and the hints in a name: formats, ids, units, measures, paging, secrets.

Everything here is a guess about one string. A guess becomes a statement only when all evidence agrees
(:mod:`atc.schemas.infer.shape`).

:func:`mask` keeps secrets out of what probing stores: examples, and the strings that evidence remembers. The broker
masks the credentials that ATC itself knows (:mod:`atc._host.redaction`). What is masked here are secrets that a service
sends of its own accord: told by the name of a field, or by the look of a value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from atc._host.redaction import Redactor
from atc._host.secret_detection import MASKED, looks_secret, masked_text
from atc._records.packing import pack
from atc.schemas.identifiers import HANDED_OUT, REGISTERED, THINGS, is_identifier, split

MAX_FORMAT_LENGTH = 2000
"""Characters of a string that is looked at; a longer one is plain text."""
MAX_KEY, MAX_KEY_WORDS, MAX_KEY_PARTS = 40, 5, 4
"""Characters and words of a key that may be a name, and parts with blanks between them (``Time Series (Daily)``)."""
PLAIN = "plain"
"""The class of a string that has no format."""

_DATE = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d(?::(?:[0-5]\d|60)(?:\.\d{1,9})?)?"
_ZONE = r"(?:Z|z|[+-]\d{2}:\d{2})"
_FORM = re.compile(
    rf"(?P<datetime>{_DATE}[Tt]{_CLOCK}{_ZONE})"
    rf"|(?P<localtime>{_DATE}[Tt ]{_CLOCK}(?: ?[+-]\d{{4}})?)"
    rf"|(?P<date>{_DATE})"
    rf"|(?P<zonedclock>{_CLOCK}{_ZONE})"
    rf"|(?P<clock>{_CLOCK})"
    r"|(?P<uuid>[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})"
    r"|(?P<ipv4>(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d))"
    r"|(?P<number>-?(?:0|[1-9]\d{0,20})(?:\.\d{1,20})?)"
    r"|(?P<ipv6>(?=[0-9a-fA-F:.]{2,45}$)(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F.]{0,15})"
    r"|(?P<uri>(?:https?|ftp|wss?|file|s3|gs)://[^\s<>\"{}|\\^`]{1,1990}|(?:urn|data|geo|tel|spotify):[^\s<>\"{}|\\^`]{1,1990})"
    r"|(?P<mail>[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8})"
    r"|(?P<colour>\#(?:[0-9a-fA-F]{6}|[0-9a-fA-F]{3}))"
    r"|(?P<duration>P(?=[\dT])(?:\d{1,9}[YMWD]){0,4}(?:T(?:\d{1,9}(?:\.\d{1,9})?[HMS]){1,3})?)"
    r"|(?P<id>(?=[A-Za-z_.:-]{0,63}\d)(?=[\d_.:-]{0,63}[A-Za-z])[A-Za-z0-9]{1,64}(?:[_.:-][A-Za-z0-9]{1,64}){0,8})"
)
JSON_FORMATS = {
    "datetime": "date-time",
    "date": "date",
    "zonedclock": "time",
    "uuid": "uuid",
    "ipv4": "ipv4",
    "ipv6": "ipv6",
    "uri": "uri",
    "mail": "email",
    "duration": "duration",
}
"""Classes of strings that are a ``format`` of JSON Schema."""
FORM_NOTES = {
    "localtime": "date and time without zone",
    "clock": "time of day",
    "number": "a number as text",
    "colour": "colour",
}
"""Classes that JSON Schema has no format for, in words."""


def form(text: str) -> str:
    """The class of a string that is not empty; ``plain`` when it has none. Linear in the length looked at."""
    if len(text) > MAX_FORMAT_LENGTH:
        return PLAIN
    match = _FORM.fullmatch(text)
    return PLAIN if match is None else match.lastgroup or PLAIN


def may_be_name(key: str) -> bool:
    """Whether a key of a response may be a field's name. Else it may be a sentence, which reads as an instruction."""
    length = sum(3 if char >= "\u2e80" else 1 for char in key[: MAX_KEY + 1])  # an ideograph says as much as a word
    if length > MAX_KEY or not key.isprintable() or len(key.split()) > MAX_KEY_PARTS:
        return False
    return sum(not word.isdigit() for word in split(key)) <= MAX_KEY_WORDS


def listed(text: str) -> frozenset[str]:
    """The words of a text, or its phrases, where they are set apart by ``|``."""
    return frozenset(text.split("|") if "|" in text else text.split())


@lru_cache(maxsize=8192)
def words(name: str) -> tuple[str, ...]:
    """``temp_c`` and ``tempC`` → ``("temp", "c")``. Only the first 100 characters count."""
    return split(name[:100], digits=True)


_UNITS = {
    "m": "metres", "km": "kilometres", "cm": "centimetres", "mm": "millimetres", "mi": "miles", "miles": "miles",
    "ft": "feet", "feet": "feet", "inch": "inches", "inches": "inches", "meters": "metres", "metres": "metres",
    "kilometers": "kilometres", "kg": "kilograms", "grams": "grams", "lbs": "pounds", "lb": "pounds", "oz": "ounces",
    "ms": "milliseconds", "millis": "milliseconds", "milliseconds": "milliseconds", "sec": "seconds",
    "secs": "seconds", "seconds": "seconds", "mins": "minutes", "minutes": "minutes", "hours": "hours", "hrs": "hours",
    "days": "days", "weeks": "weeks", "months": "months", "years": "years", "usd": "USD", "eur": "EUR", "gbp": "GBP",
    "jpy": "JPY", "cents": "cents", "c": "°C", "celsius": "°C", "f": "°F", "fahrenheit": "°F", "k": "kelvin",
    "kelvin": "kelvin", "kmh": "km/h", "kph": "km/h", "mph": "miles/h", "mps": "m/s", "knots": "knots", "kt": "knots",
    "kts": "knots", "hpa": "hPa", "mb": "megabytes", "gb": "gigabytes", "kb": "kilobytes", "bytes": "bytes",
    "percent": "percent", "percentage": "percent", "pct": "percent", "degrees": "degrees", "deg": "degrees",
    "hz": "hertz", "khz": "kilohertz", "mhz": "megahertz", "kcal": "kcal", "kwh": "kWh", "watts": "watts",
    "km2": "km²", "sqm": "m²", "ppm": "ppm", "bpm": "beats/min", "dpi": "dpi", "px": "pixels", "pixels": "pixels",
}  # fmt: skip
_SHORT_UNITS = {
    "m": {"distance", "length", "height", "width", "depth", "altitude", "elevation", "radius", "visibility", "size"},
    "c": {"temp", "temperature", "feelslike", "like", "dewpoint", "windchill", "heatindex", "point", "max", "min"},
    "f": {"temp", "temperature", "feelslike", "like", "dewpoint", "windchill", "heatindex", "point", "max", "min"},
    "k": {"temp", "temperature"},
    "mb": {"pressure", "size", "file", "memory", "storage", "disk"},
    "mi": {"distance", "length", "radius"},
}
"""Units of one letter, or of two meanings, and the words that must stand before them."""
_MEASURES = listed(
    "price cost amount lat latitude lon lng longitude temp temperature rate ratio percent percentage pct avg average "
    "mean score distance speed balance fee tax altitude elevation pressure bmi weight volume change probability "
    "confidence fraction wind precip precipitation rain snow discount interest salary revenue"
)


@lru_cache(maxsize=8192)
def unit(name: str) -> str:
    """The unit that a number's name gives away: ``length_km`` → ``kilometres``; else an empty string."""
    parts = words(name)
    if not parts:
        return ""
    if parts[-2:] in (("km", "h"), ("per", "hour")):
        return "km/h" if "km" in parts or "kilometers" in parts else ""
    last, before = parts[-1], parts[:-1]
    if last == "mb" and before and before[-1] == "pressure":
        return "millibars"
    if last in _SHORT_UNITS:
        return _UNITS[last] if before and before[-1] in _SHORT_UNITS[last] else ""
    if last in ("hours", "minutes", "seconds", "milliseconds", "bytes", "cents", "pixels"):
        return _UNITS[last]
    return _UNITS.get(last, "") if before and not before[-1].isdigit() else ""  # "last 30 days" is no count of days


@lru_cache(maxsize=8192)
def is_measure(name: str) -> bool:
    """Whether a number of this name is measured rather than counted, so that whole values seen so far prove little."""
    parts = words(name)
    if not parts or parts[-1] in ("id", "ids", "count", "code", "year", "index", "number", "unix", "epoch"):
        return False
    return not _MEASURES.isdisjoint(parts) or unit(name) in ("°C", "°F", "km/h", "USD", "EUR", "GBP", "kilometres")


_IDENTIFIERS = THINGS | HANDED_OUT | REGISTERED  # a number or a code may be a quantity, whose range says something


def is_id_name(name: str) -> bool:
    """Whether a field is named like an identifier: ``id``, ``user_id``, ``cityIds``, ``uuid``."""
    return is_identifier(name, _IDENTIFIERS)


_FREE = listed(
    "name names title description summary text comment comments message note notes body content bio about caption "
    "address street city town author artist album label headline excerpt question answer quote id ids uuid slug url "
    "uri link email phone code codes iata icao symbol ticker sku isbn zip postcode currency country language lang "
    "locale timezone tz region"
)


@lru_cache(maxsize=8192)
def is_free_text_name(name: str) -> bool:
    """Whether a field of this name seldom has a fixed list of values, however often some repeat."""
    parts = words(name)
    return bool(parts) and parts[-1] in _FREE


_PAGING = listed(
    "next|next page|next page token|next token|next cursor|next url|cursor|end cursor|after|offset|limit|page|pages|"
    "page number|page size|per page|page count|total|total count|total pages|total results|has more|has next|"
    "has next page|prev|previous|previous page|prev page|last page|current page|starting after"
)


@lru_cache(maxsize=8192)
def is_paging_name(name: str) -> bool:
    """Whether a field of this name usually states the paging of a list."""
    return " ".join(words(name)) in _PAGING


__all__ = ["MASKED", "is_secret_name", "looks_secret", "mask", "mask_leaf", "masked_text", "name_within"]

MAX_MASK_DEPTH = 60
"""Levels that are looked at; what lies deeper is masked whole."""
MAX_MASK_BYTES = 48
"""Characters of a binary value that are kept as an example."""

_SECRET_WORDS = listed(
    "password passwd passphrase pwd secret secrets credential credentials authorization cookie cookies jwt bearer otp "
    "cvv cvc csrf xsrf pin dsn"
)
_TOKENS = frozenset(("token", "tokens"))
_TOKEN_OF_PAGES = frozenset(("next", "page", "prev", "previous", "continuation", "cursor", "sync", "pagination"))
_KEYS_OF_SECRETS = listed(
    "api access private secret signing encryption auth consumer client subscription master service ssh license"
)
_LOCATIONS = frozenset(("database url", "database uri", "connection string", "connectionstring", "databaseurl"))
_LONG_SECRETS = frozenset(("session id", "session key", "sessionid", "php sess id", "auth", "set cookie", "key", "sid"))
"""Names that hold a secret only if the value looks random: ``key`` is often the key of a song or of a record."""


@lru_cache(maxsize=8192)
def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a credential, whatever its value looks like."""
    parts = words(name)
    if not _SECRET_WORDS.isdisjoint(parts) or " ".join(parts[-2:]) in _LOCATIONS:
        return True
    if not _TOKENS.isdisjoint(parts):
        return _TOKEN_OF_PAGES.isdisjoint(parts)
    return bool(
        len(parts) > 1 and parts[-1] in ("key", "keys") and not _KEYS_OF_SECRETS.isdisjoint(parts[:-1])
    ) or parts[-1:] in (("apikey",), ("accesskey",))


def mask(value: Any) -> Any:
    """A copy of a JSON value that may be stored and shown: every secret in it, and in the environment, is ``"***"``."""
    return _masked(_known(tuple(os.environ.items())).value(value), "", 0)


def mask_leaf(value: Any, name: str) -> Any:
    """A text, a number or ``None`` that stands under a name, masked as :func:`mask` masks it there."""
    return _masked(value, name, 0)


def name_within(key: str, outer: str) -> str:
    """The name that says what a value is: all that lies in ``credentials`` is one."""
    return outer if is_secret_name(outer) else key


@lru_cache(maxsize=1)
def _known(environment: tuple[tuple[str, str], ...]) -> Redactor:
    return Redactor(environment=dict(environment))


def _masked(value: Any, name: str, depth: int) -> Any:
    if depth > MAX_MASK_DEPTH:
        return MASKED
    if isinstance(value, str):
        return MASKED if _is_secret(value, name) else masked_text(value)
    if isinstance(value, bytes):
        return pack(value[:MAX_MASK_BYTES])
    if isinstance(value, Mapping):
        return {
            masked_text(str(key)): _masked(item, name_within(str(key), name), depth + 1) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_masked(item, name, depth + 1) for item in value]
    if type(value) is int and is_secret_name(name) and _TOKENS.isdisjoint(words(name)):
        return MASKED  # a number of tokens is a count; a PIN is not
    if type(value) is int and value > 10**11 and "card" in words(name):
        return MASKED
    return value


def _is_secret(text: str, name: str) -> bool:
    if not text:
        return False
    if is_secret_name(name):
        return True
    return " ".join(words(name)) in _LONG_SECRETS and _looks_random(text)


def _looks_random(text: str) -> bool:
    return len(text) >= 16 and " " not in text and any(c.isdigit() for c in text) and any(c.isalpha() for c in text)
