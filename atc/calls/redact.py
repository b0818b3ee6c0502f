"""Keep credentials out of everything that leaves the broker: errors, responses, traces and prompts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

MASK = "[secret]"
"""Stands for a credential that ATC knows; what only looks like a secret becomes :data:`atc.calls.mask.MASKED`."""
_SECRET_NAME = re.compile(
    r"(^|_|API|ACCESS)KEYS?(_|$)|(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?(_|$)|_(PASS|PAT|PWD)$|^ATC_AUTH_",
    re.IGNORECASE,
)
_MIN_LENGTH = 8
"""Shorter values are too likely to be ordinary words to be masked wherever they stand."""


class Redactor:
    """Masks the given secrets, and the values of environment variables with the name of a secret."""

    def __init__(self, secrets: Iterable[str] = (), environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        named = (value for name, value in variables.items() if _SECRET_NAME.search(name))
        known = {s.strip() for s in (*secrets, *named) if len(s.strip()) >= _MIN_LENGTH}
        self._secrets = sorted({form for secret in known for form in _spellings(secret)}, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return a text with every secret masked."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, MASK)
        return text

    def value(self, value: Any) -> Any:
        """Return JSON values and bytes with every secret masked, in keys too. Without secrets the value itself."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes):
            return self._bytes(value)
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        return value

    def _bytes(self, data: bytes) -> bytes:
        for secret in self._secrets:
            data = data.replace(secret.encode("utf-8", "surrogatepass"), MASK.encode())
        return data


def _spellings(secret: str) -> set[str]:
    """Return the forms of a secret: as it is, inside JSON text, and in a URL."""
    return {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(secret, safe=""),
        quote_plus(secret),
    }
