"""Credentials are kept out of the logs of libraries, which write whole URLs and answers."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import Any

_FORMATTER = logging.Formatter()


class MaskingFilter(logging.Filter):
    """Masks what the watched ones know, for as long as they are used.

    Args:
        mask: makes a text without what one of them knows.
    """

    def __init__(self, mask: Callable[[Any, str], str]) -> None:
        super().__init__()
        self._mask = mask
        self._watched: weakref.WeakSet[Any] = weakref.WeakSet()

    def watch(self, secrets: object) -> None:
        self._watched.add(secrets)

    def filter(self, record: logging.LogRecord) -> bool:
        if not len(self._watched):
            return True
        message = record.getMessage()
        clean = self._masked(message)
        if clean != message:
            record.msg, record.args = clean, None
        if record.exc_info:
            record.exc_text, record.exc_info = self._masked(_FORMATTER.formatException(record.exc_info)), None
        return True

    def _masked(self, text: str) -> str:
        for secrets in list(self._watched):
            text = self._mask(secrets, text)
        return text
