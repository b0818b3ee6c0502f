"""What users write and tools answer, for spans: only where it was asked for, masked, and cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from atc.calls.redact import Redactor
from atc.faces.otel.conventions import sendable
from atc.models.messages import Message

MAX_CONTENT = 16_384
"""Characters of a text, and of a value as JSON."""


class Content:
    """Texts and values of one run as attributes.

    Args:
        redactor: of the run.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def text(self, text: str) -> str:
        """A text, masked and cut."""
        return _cut(self._redactor.text(text))

    def json(self, value: Any) -> str:
        """A value as JSON, masked; of a large one the beginning alone, which is JSON no more."""
        pieces, length = [], 0
        for piece in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(self._redactor.value(value)):
            pieces.append(piece)
            length += len(piece)
            if length > MAX_CONTENT:
                break
        return _cut("".join(pieces))

    def messages(self, messages: Sequence[Message]) -> str:
        """A prompt in the conventions' form. Of images it has the number alone."""
        return _json([_message(each.role, self.text(each.content), len(each.images)) for each in messages])

    def said(self, role: str, text: str) -> str:
        """One message in the conventions' form."""
        return _json([_message(role, self.text(text))])

    def replies(self, replies: Sequence[tuple[str, str]]) -> str:
        """Replies of a model, each with why it ended, in the conventions' form."""
        return _json([_message("assistant", self.text(text)) | {"finish_reason": why} for text, why in replies])


def _message(role: str, text: str, images: int = 0) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"type": "text", "content": text}]
    return {"role": role, "parts": parts + [{"type": "image"}] * images}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return sendable(text if len(text) <= MAX_CONTENT else f"{text[:MAX_CONTENT]}…")
