"""Exceptions of the user's own code: masked for programs, prompts and traces; whole in a file for the user."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from atc._host.redaction import Redactor
from atc._host.secret_detection import masked_exception
from atc._records.packing import as_text
from atc.result import Call

MAX_MESSAGE = 500
"""Characters of an exception's message that are passed on."""
MAX_READ = 20_000
"""Characters of an exception's text that are read at all: some hold the whole response of a service."""
MAX_KNOWN = 1_000_000
"""Characters of earlier answers in which a token that looks like a secret is looked for."""

KeepTraceback = Callable[[int, str], str | None]
"""Keeps the traceback of a call's exception for the user; returns its file, or ``None`` if it cannot be written."""


@dataclass(frozen=True)
class OwnExceptions:
    """What one run passes on of exceptions of the user's own code.

    Args:
        redactor: masks the credentials that are known.
        task: the run's task: what it names is no secret to its programs.
        calls: the calls so far; it grows.
        keep_traceback: keeps a traceback; ``None`` keeps none.
    """

    redactor: Redactor
    task: str
    calls: Sequence[Call]
    keep_traceback: KeepTraceback | None

    def describe(self, error: BaseException, arguments: dict[str, Any]) -> str:
        """Return an exception as one line of text, masked."""
        return self.masked(f"{type(error).__name__}: {error}", arguments)

    def masked(self, text: str, arguments: dict[str, Any]) -> str:
        """Return the text of an exception that a call with these arguments met, without what looks secret."""
        known = self._known(arguments)
        masked = masked_exception(
            beginning(self.redactor.text(text)), lambda token: any(token in part for part in known)
        )
        return masked[:MAX_MESSAGE]

    def save_traceback(self, number: int, error: BaseException) -> str | None:
        """Keep the traceback of a call's exception for the user; return its file, or ``None`` if it is not kept."""
        if self.keep_traceback is None:
            return None
        return self.keep_traceback(number, "".join(traceback.format_exception(error)))

    def _known(self, arguments: dict[str, Any]) -> list[str]:
        texts, left = [self.task, as_text(arguments)], MAX_KNOWN
        for call in reversed(self.calls):
            texts.append(as_text(call.value)[:left])
            left -= len(texts[-1])
            if left <= 0:
                break
        return texts


def beginning(text: str) -> str:
    """Return the first 20,000 characters of a text, without the word cut in two: half a secret looks like none."""
    if len(text) <= MAX_READ:
        return text
    return re.sub(r"(?<!\S)\S*+\Z", "", text[:MAX_READ]) + "…"
