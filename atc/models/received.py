"""What has arrived of an endpoint's answer: its replies, why they ended, what they cost, and what was only thought.

Models that reason say their thoughts beside the reply (``reasoning_content``, at newer endpoints ``reasoning``), count
them without saying them (``completion_tokens_details.reasoning_tokens``), or put them before the reply in
``<think>…</think>``. However it is done, thoughts are no part of a reply, and they use up its tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from atc.models.base import FinishReason, OnText, estimate_tokens
from atc.models.circles import in_circles

_LOOK = 200  # characters between two looks whether a reply goes round in circles
_THOUGHTS = re.compile(r"\s*<(think|thinking|reasoning|thought)>(.*?)(?:</\1>\s*|\Z)", re.DOTALL)


def apart(text: str) -> tuple[str, str]:
    """A text's thoughts and what is said after them; the tag that begins thoughts may have been the prompt's."""
    if match := _THOUGHTS.match(text):
        return match[2], text[match.end() :]
    before, tag, after = text.partition("</think>")
    return (before, after.lstrip()) if tag and "<think>" not in before else ("", text)


@dataclass
class Part:
    """What has arrived of one reply."""

    pieces: list[str] = field(default_factory=list)
    length: int = 0  # characters, those of thoughts included
    looked: int = 0  # so many of them were looked at for circles
    thought_characters: int = 0  # that came beside the reply
    ended: bool = False  # by us
    finish: FinishReason | None = None
    tokens: int | None = None
    thought_tokens: int | None = None

    @property
    def text(self) -> str:
        return apart("".join(self.pieces))[1]

    @property
    def thoughts(self) -> int:
        """Tokens that were thought: counted by the endpoint, else an estimate."""
        within = len(apart("".join(self.pieces))[0])
        return max(self.thought_tokens or 0, -(-(self.thought_characters + within) // 4))

    @property
    def completion_tokens(self) -> int:
        return estimate_tokens(self.text) + self.thoughts if self.tokens is None else self.tokens

    @property
    def cut_while_thinking(self) -> bool:
        """Whether the endpoint cut it at its limit, of which thoughts had a part."""
        return self.finish == "length" and not self.ended and self.thoughts > 0


class Answer:
    """What has arrived of an answer with ``count`` replies, each cut at ``limit`` characters or when it circles."""

    def __init__(self, count: int, limit: int, on_text: OnText | None) -> None:
        self.parts = [Part() for _ in range(count)]
        self.limit = limit
        self.on_text = on_text
        self.choices = 0
        self.prompt_tokens: int | None = None
        self._latest = self.parts[0]  # the one that usage without an index belongs to

    @property
    def finished(self) -> bool:
        return all(part.finish is not None for part in self.parts)

    @property
    def full(self) -> bool:
        return all(part.ended for part in self.parts)

    def take(self, answer: Any) -> None:
        """Take a chunk of a stream, or a whole answer; nothing about its shape is certain."""
        choices = getattr(answer, "choices", None)
        for choice in choices if isinstance(choices, list) else []:
            index = getattr(choice, "index", 0) or 0
            if not isinstance(index, int) or not 0 <= index < len(self.parts):
                continue  # nobody asked for it
            self.choices += 1
            part = self._latest = self.parts[index]
            said = getattr(choice, "delta", None) or getattr(choice, "message", None)
            self._add_thoughts(part, getattr(said, "reasoning_content", None) or getattr(said, "reasoning", None))
            self._add(part, getattr(said, "content", None))
            reason = getattr(choice, "finish_reason", None)
            if reason is not None and not part.ended:
                part.finish = reason if reason in ("stop", "length") else "other"
        usage = getattr(answer, "usage", None)
        details = getattr(usage, "completion_tokens_details", None)
        self.prompt_tokens = _count(usage, "prompt_tokens", self.prompt_tokens)
        self._latest.tokens = _count(usage, "completion_tokens", self._latest.tokens)
        self._latest.thought_tokens = _count(details, "reasoning_tokens", self._latest.thought_tokens)

    def _add(self, part: Part, text: Any) -> None:
        piece = text[: self.limit - part.length] if isinstance(text, str) else ""
        if not piece or part.ended:
            return
        part.pieces.append(piece)
        part.length += len(piece)
        if part.length >= self.limit or self._circling(part):
            part.finish, part.ended = "length", True
        if self.on_text is not None:
            self.on_text(piece)

    def _add_thoughts(self, part: Part, text: Any) -> None:
        """Only their length is kept: they are shown to nobody."""
        if isinstance(text, str) and not part.ended:
            part.thought_characters += len(text)
            part.length += len(text)
            if part.length >= self.limit:
                part.finish, part.ended = "length", True

    @staticmethod
    def _circling(part: Part) -> bool:
        """Whether the reply goes round in circles; looked at now and then, for it may come letter by letter."""
        if part.length - part.looked < _LOOK:
            return False
        part.looked = part.length
        return in_circles("".join(part.pieces))


def _count(usage: Any, name: str, before: int | None) -> int | None:
    value = getattr(usage, name, None)
    return value if isinstance(value, int) and value >= 0 else before
