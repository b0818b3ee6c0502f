"""The accumulator of an endpoint's stream: its replies, why they ended, what they cost, and the reasoning beside them.

Models that reason send their thoughts beside the reply (``reasoning_content``, at newer endpoints ``reasoning``), count
them without saying them (``completion_tokens_details.reasoning_tokens``), or put them before the reply in
``<think>…</think>``. However it is done, thoughts are no part of a reply, and they use up its tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from atc.models.messages import FinishReason, OnText, estimate_tokens
from atc.models.repetition import LONGEST, TIMES, repeats_itself

_LOOK = 200  # characters between two checks for repetition
_RECENT = LONGEST * TIMES  # characters that are looked at
_MOST_THOUGHT = 400_000  # characters; not every endpoint counts thoughts as tokens of the reply
_MOST_STOPS_SEEN = 50  # in thoughts, after which this reply is no longer ended at one
_SHOWN = 300  # characters of what came in the place of a text
_FINISHES: dict[str, FinishReason] = {
    "stop": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",  # Mistral's, at the end of the context
}
_FILTERED = ("content_filter", "safety", "refusal")
_TAGS = "think|thinking|reasoning|thought"
_BEGINS = re.compile(rf"\s*<({_TAGS})>(.*?)(?:</\1>\s*|\Z)", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(rf"<(?:{_TAGS})>", re.IGNORECASE)
_ENDS = re.compile(rf"</(?:{_TAGS})>[ \t]*(?:\n\s*|\Z)", re.IGNORECASE)


def split_reasoning(text: str) -> tuple[str, str]:
    """A text's reasoning, and the reply after it.

    The tag that begins thoughts may have been the prompt's; then they end in one at the end of a line, before any code.
    """
    parts, at = list[str](), 0
    while match := _BEGINS.match(text, at):
        parts.append(match[2])
        at = match.end()
    thoughts, text = "".join(parts), text[at:]
    if not thoughts and (end := _ENDS.search(text)):
        before = text[: end.start()]
        if "```" not in before and not _TAG.search(before):
            return before.strip(), text[end.end() :]
    return thoughts.strip(), text


@dataclass
class ReplyAccumulator:
    """Accumulates one reply."""

    pieces: list[str] = field(default_factory=list)
    length: int = 0  # characters
    thought_characters: int = 0  # that came beside the reply
    recent: str = ""  # the last ones of either
    looked: int = 0  # so many of both were checked for repetition
    ended: bool = False  # by us
    stops_seen: int = 0  # texts that end a reply, thoughts included
    finish: FinishReason | None = None
    tokens: int | None = None
    thought_tokens: int | None = None
    called: str = ""  # tools, as a model calls them that was made for that; the beginning of it
    refusal: str = ""  # the beginning of it
    filtered: bool = False  # by the endpoint

    @property
    def text(self) -> str:
        """The reply without its reasoning."""
        return split_reasoning("".join(self.pieces))[1]

    @property
    def thoughts(self) -> int:
        """Tokens that were thought: counted by the endpoint, else an estimate."""
        within = len(split_reasoning("".join(self.pieces))[0])
        return max(self.thought_tokens or 0, -(-(self.thought_characters + within) // 4))

    @property
    def completion_tokens(self) -> int:
        """Tokens of reply and reasoning: counted by the endpoint, else an estimate."""
        return estimate_tokens(self.text) + self.thoughts if self.tokens is None else self.tokens

    @property
    def cut_while_thinking(self) -> bool:
        """Whether the endpoint cut it at its limit, of which thoughts had a part."""
        return self.finish == "length" and not self.ended and self.thoughts > 0

    @property
    def problem(self) -> str:
        """Why there is no text, as far as it is known."""
        if self.text.strip() or self.finish == "length":
            return ""
        if self.called:
            return f"the reply holds no text, only calls of tools ({self.called.strip()}): only a program can call them"
        if self.thoughts:
            return f"the reply holds no text: {self.thoughts:,} tokens of thoughts and nothing after them"
        return "the reply is empty"


class StreamAccumulator:
    """Accumulates an answer with ``count`` replies, each cut at ``limit`` characters, at a text of ``stop``, or when it
    repeats itself.

    The texts of ``stop`` end a reply here, too: endpoints take a few of them, or none. In thoughts they end nothing.
    """

    def __init__(self, count: int, limit: int, on_text: OnText | None, stop: Sequence[str] = ()) -> None:
        self.parts = [ReplyAccumulator() for _ in range(count)]
        self.limit = limit
        self.on_text = on_text
        self._stop = re.compile("|".join(map(re.escape, stop))) if any(stop) else None
        self._overlap = max(map(len, stop), default=1) - 1  # characters of an earlier piece that may begin one
        self.choices = 0
        self.prompt_tokens: int | None = None
        self.cached_tokens = 0  # of the prompt, read before
        self._latest = self.parts[0]  # the one that usage without an index belongs to

    @property
    def finished(self) -> bool:
        """Whether the endpoint gave a reason for the end of every reply."""
        return all(part.finish is not None for part in self.parts)

    @property
    def full(self) -> bool:
        """Whether no reply takes more text."""
        return all(part.ended for part in self.parts)

    def add(self, answer: Any) -> None:
        """Add a chunk of a stream, or a whole answer; nothing about its shape is certain."""
        choices = getattr(answer, "choices", None)
        for choice in choices if isinstance(choices, list) else []:
            index = getattr(choice, "index", 0) or 0
            if not isinstance(index, int) or not 0 <= index < len(self.parts):
                continue  # nobody asked for it
            self.choices += 1
            part = self._latest = self.parts[index]
            message = getattr(choice, "delta", None) or getattr(choice, "message", None)
            self._add_reasoning(
                part, getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
            )
            for piece in _pieces(getattr(message, "content", None), "text"):
                self._add_text(part, piece)
            for piece in _pieces(getattr(message, "content", None), "thinking"):
                self._add_reasoning(part, piece)
            for piece in _called(message):
                self._add_called(part, piece)
            for piece in (*_pieces(getattr(message, "content", None), "refusal"), getattr(message, "refusal", None)):
                part.refusal = (part.refusal + (piece if isinstance(piece, str) else ""))[:_SHOWN]
            reason = getattr(choice, "finish_reason", None)
            part.filtered |= str(reason).lower() in _FILTERED
            if reason is not None and not part.ended:
                part.finish = _FINISHES.get(str(reason).lower(), "other")
        usage = getattr(answer, "usage", None) or _member(getattr(answer, "x_groq", None), "usage")
        details = getattr(usage, "completion_tokens_details", None)
        self.prompt_tokens = _count(usage, "prompt_tokens", self.prompt_tokens)
        self._latest.tokens = _count(usage, "completion_tokens", self._latest.tokens)
        read_before = getattr(usage, "prompt_tokens_details", None)
        cached = _count(usage, "prompt_cache_hit_tokens", self.cached_tokens)  # DeepSeek's name for them
        self.cached_tokens = _count(read_before, "cached_tokens", cached) or 0
        self._latest.thought_tokens = _count(details, "reasoning_tokens", self._latest.thought_tokens)
        self._add_thoughts_apart(usage)

    def _add_thoughts_apart(self, usage: Any) -> None:
        """Count thoughts that an endpoint counts in the sum of all tokens and not as tokens of the reply.

        Where it counts neither and reports tokens that it had read before, the rest of the sum may be those.
        """
        whole, read, written = (_count(usage, f"{name}_tokens", None) for name in ("total", "prompt", "completion"))
        if whole is None or read is None or written is None:
            return
        rest = whole - read - written
        if rest > 0 and (rest == self._latest.thought_tokens or not self.cached_tokens):
            self._latest.tokens = written + rest

    def _add_text(self, part: ReplyAccumulator, text: Any) -> None:
        piece = text[: self.limit - part.length] if isinstance(text, str) else ""
        if not piece or part.ended:
            return
        part.pieces.append(piece)
        part.length += len(piece)
        before = part.recent[-self._overlap :] if self._overlap else ""
        self._end_if(part, piece, part.length >= self.limit)
        if self._stop is not None and self._stop.search(before + piece):
            self._end_at_stop(part, self._stop)
        if self.on_text is not None:
            self.on_text(piece)

    def _add_reasoning(self, part: ReplyAccumulator, text: Any) -> None:
        """Only their length is kept: they are shown to nobody."""
        if isinstance(text, str) and text and not part.ended:
            part.thought_characters += len(text)
            self._end_if(part, text, part.thought_characters >= _MOST_THOUGHT)

    def _add_called(self, part: ReplyAccumulator, text: str) -> None:
        """Only the beginning of calls is kept, for display; they count as text, so that they end."""
        if text and not part.ended:
            part.called = (part.called + text)[:_SHOWN]
            part.length += len(text)
            self._end_if(part, text, part.length >= self.limit)

    @staticmethod
    def _end_at_stop(part: ReplyAccumulator, stop: re.Pattern[str]) -> None:
        """End a reply before the first text that was to end it, if that is not among the thoughts."""
        part.stops_seen += 1
        if part.stops_seen > _MOST_STOPS_SEEN:  # each look reads the whole reply
            return
        text = part.text
        if found := stop.search(text):
            whole = "".join(part.pieces)
            part.pieces = [whole[: len(whole) - len(text) + found.start()]]
            part.finish, part.ended = "stop", True

    @staticmethod
    def _end_if(part: ReplyAccumulator, piece: str, too_long: bool) -> None:
        """End a reply at its limit, or when it repeats itself: checked now and then, as letters may come."""
        part.recent = (part.recent + piece)[-_RECENT:]
        length = part.length + part.thought_characters
        if length - part.looked >= _LOOK:
            part.looked = length
            too_long = too_long or repeats_itself(part.recent)
        if too_long:
            part.finish, part.ended = "length", True


def _count(usage: Any, name: str, before: int | None) -> int | None:
    value = _member(usage, name)
    return value if isinstance(value, int) and value >= 0 else before


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _pieces(content: Any, kind: str) -> Iterator[Any]:
    """The text of one kind in a reply's content, which is a text or, at some endpoints, a list of typed parts."""
    if not isinstance(content, list):
        yield content if kind == "text" else None
        return
    for part in content:
        inner = _member(part, kind)
        for piece in inner if isinstance(inner, list) else [inner]:  # Mistral's thoughts are a list of texts
            yield piece if isinstance(piece, str) else _member(piece, "text")


def _called(message: Any) -> Iterator[str]:
    """The tools that a reply calls, piece by piece as they come: a name, then its arguments."""
    calls = getattr(message, "tool_calls", None)
    for call in calls if isinstance(calls, list) else [message]:
        function = _member(call, "function") or _member(call, "function_call")
        name, arguments = _member(function, "name"), _member(function, "arguments")
        yield f" {name} " if isinstance(name, str) and name else ""
        yield arguments if isinstance(arguments, str) else ""
