"""Keep credentials out of everything that leaves the broker: errors, responses, traces and prompts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

MASK = "[secret]"
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?(_|$)", re.IGNORECASE)
_MIN_LENGTH = 8
"""Shorter values are too likely to be ordinary words to be masked wherever they stand."""


class Redactor:
    """Masks the given secrets, and the values of environment variables whose names say that they are secrets."""

    def __init__(self, secrets: Iterable[str] = (), environment: dict[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        named = (value for name, value in variables.items() if _SECRET_NAME.search(name))
        self._secrets = sorted({s for s in (*secrets, *named) if len(s) >= _MIN_LENGTH}, key=len, reverse=True)

    def text(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, MASK)
        return text

    def value(self, value: Any) -> Any:
        """A copy of plain JSON values with every secret masked, in keys too; the value itself if it holds none."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        return value
