"""Exceptions of the user's own code: masked for programs, prompts and traces; whole in a file for the user."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from atc.calls.mask import masked_exception
from atc.calls.redact import Redactor
from atc.packing import as_text
from atc.result import Call

MAX_MESSAGE = 500
"""Characters of an exception's message that are passed on."""
MAX_READ = 20_000
"""Characters of an exception's text that are read at all: some hold the whole response of a service."""
MAX_KNOWN = 1_000_000
"""Characters of earlier answers in which a token that looks like a secret is looked for."""

KeepTraceback = Callable[[int, str], str | None]
"""Keeps the traceback of a call's exception for the user's eyes; returns where, or ``None`` where it cannot."""


@dataclass(frozen=True)
class OwnExceptions:
    """What is passed on of them in one run.

    Args:
        redactor: masks the credentials that are known.
        task: the run's task: what it names is no secret to its programs.
        calls: the calls so far; it grows.
        keep: keeps a traceback; ``None`` keeps none.
    """

    redactor: Redactor
    task: str
    calls: Sequence[Call]
    keep: KeepTraceback | None

    def words(self, error: BaseException, arguments: dict[str, Any]) -> str:
        """An exception as one line of text, masked."""
        return self.masked(f"{type(error).__name__}: {error}", arguments)

    def masked(self, text: str, arguments: dict[str, Any]) -> str:
        """The text of an exception that a call with these arguments met, without what looks secret."""
        known = self._known(arguments)
        masked = masked_exception(
            beginning(self.redactor.text(text)), lambda token: any(token in part for part in known)
        )
        return masked[:MAX_MESSAGE]

    def kept(self, number: int, error: BaseException) -> str | None:
        """Keep the traceback of a call's exception; the file's path."""
        return None if self.keep is None else self.keep(number, "".join(traceback.format_exception(error)))

    def _known(self, arguments: dict[str, Any]) -> list[str]:
        """Where a token is looked for that is no secret: the task, the call's arguments, and what was answered last."""
        texts, left = [self.task, as_text(arguments)], MAX_KNOWN
        for call in reversed(self.calls):
            texts.append(as_text(call.value)[:left])
            left -= len(texts[-1])
            if left <= 0:
                break
        return texts


def beginning(text: str) -> str:
    """The first 20,000 characters of a text, without the word that is cut in two: half a secret looks like none."""
    if len(text) <= MAX_READ:
        return text
    return re.sub(r"(?<!\S)\S*+\Z", "", text[:MAX_READ]) + "…"
