"""Keep secrets out of what probing stores: examples, and the strings that evidence remembers.

The broker masks the credentials that ATC itself knows (:mod:`atc.calls.redact`). What is masked here are secrets
that a service sends of its own accord: told by the name of a field, or by the look of a value.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from atc.calls.redact import MASKED, Redactor, looks_secret, masked_text
from atc.packing import pack
from atc.schemas.infer.text import listed, words

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


def mask(value: Any, redactor: Redactor | None = None) -> Any:
    """A copy of a JSON value that may be stored and shown: every secret in it is ``"***"``.

    Args:
        value: any JSON value.
        redactor: masks the credentials that are known; by default those of the environment.
    """
    return _masked((redactor or _known(tuple(os.environ.items()))).value(value), "", 0)


def mask_leaf(value: Any, name: str) -> Any:
    """A text, a number or ``None`` that stands under a name, masked as :func:`mask` masks it there."""
    return _masked(value, name, 0)


def name_within(key: str, outer: str) -> str:
    """The name that says what a value is: all that lies in ``credentials`` is one."""
    return outer if is_secret_name(outer) else key


@lru_cache(maxsize=1)
def _known(environment: tuple[tuple[str, str], ...]) -> Redactor:
    """Masks the credentials of an environment; made anew only when that has changed."""
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
