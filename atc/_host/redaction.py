"""Mask the credentials that ATC knows in everything that leaves the broker: errors, responses, traces and prompts.

What only looks like a secret is found by :mod:`atc._host.secret_detection`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from atc._host.secret_forms import SecretForms, without_scheme
from atc._records.packing import is_small, json_text

MASK = "[secret]"
"""Stands for a credential that ATC knows; what only looks like a secret becomes
:data:`atc._host.secret_detection.MASKED`."""
_SECRET_NAME = re.compile(
    r"(^|_|API|ACCESS)KEYS?(_|$)|(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?(_|$)|_(PASS|PAT|PWD)$|^ATC_AUTH_"
    r"|(^|_)(COOKIES?|SESSION_?ID|AUTHORIZATION)$",
    re.IGNORECASE,
)
_WEBHOOK_NAME = re.compile(r"WEB_?HOOK", re.IGNORECASE)
_WITH_USER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,40}://[^\s/:@]{0,200}:([^\s/]{1,500})@")
_NAMED_INSIDE = re.compile(
    r"(?:password|passwd|pwd|account_?key|access_?key|secret)\s?=\s?([^;,\s&\"']+)", re.IGNORECASE
)
_GUESSED = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[\w-]{16,}")
_MIN_LENGTH = 8
"""Shorter values are too likely to be ordinary words to be masked wherever they stand."""


class Redactor:
    """Masks the given secrets, and what environment variables hold: the values of those with the name of a secret, and
    the credentials inside of locations such as ``DATABASE_URL``.
    """

    def __init__(self, secrets: Iterable[str] = (), environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        self._secrets = _forms_of(tuple(secrets), tuple(variables.items()))

    def text(self, text: str) -> str:
        """Return a text with every secret masked."""
        return self._secrets.masked(text, MASK)

    def value(self, value: Any) -> Any:
        """Return JSON values and bytes with every secret masked, in keys too. One without any is returned as it is."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict | list | tuple) and not is_small(value):
            text = json_text(value)
            if text is not None and self.is_clean(text):
                return value
        return self._masked(value)

    def is_clean(self, text: str) -> bool:
        """Whether the value that JSON text writes surely holds no secret.

        Args:
            text: as :func:`atc._records.packing.json_text` writes it. Where it has escapes, only a walk through the
            value can
                tell.
        """
        return not self._secrets or ("\\" not in text and self.text(text) == text)

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes):
            return self._secrets.masked_bytes(value, MASK)
        if isinstance(value, list | tuple):
            return [self._masked(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self._masked(item) for key, item in value.items()}
        return value


@lru_cache(maxsize=4)
def _forms_of(secrets: tuple[str, ...], variables: tuple[tuple[str, str], ...]) -> SecretForms:
    """Return the forms of all that is secret among these: from run to run an environment seldom changes."""
    given = [*secrets, *(value for name, value in variables if _SECRET_NAME.search(name))]
    parts = [part for value in (*given, *(value for _, value in variables)) for part in _inside(value)]
    parts += [part for name, value in variables if _WEBHOOK_NAME.search(name) for part in _of_webhook(value)]
    return SecretForms({s.strip() for s in (*given, *parts) if len(s.strip()) >= _MIN_LENGTH})


def _inside(value: str) -> Iterator[str]:
    """The credentials in a location: ``postgres://user:password@host``, ``Server=…;Password=…``; and after a scheme."""
    if (found := _WITH_USER.search(value)) is not None:
        yield from (value, found[1], unquote(found[1]))
    if ";" in value or "=" in value:
        yield from _NAMED_INSIDE.findall(value)
    yield from without_scheme(value)[1:]


def _of_webhook(value: str) -> Iterator[str]:
    """A webhook's address is its secret, and so are the parts of its path that nobody could guess."""
    if "://" in value:
        yield value
        yield from filter(_GUESSED.fullmatch, re.split(r"[/?&=#]", value))
