"""A value as a question shows it: as Python writes it, in bounded room, and with the length of whatever is cut.

What was left out stands outside of quotation marks, so no text can pretend it: ``'aaaa' … 'zz' (48,211 characters)``,
``[1, 2, … 998 of 1,000 items]``. What nobody would see is an escape. The work is bounded as the text is:
what there is no room for is not visited.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from atc._host.invisible import escaped, is_invisible, visible

LEFT_OUT = "…"
_WAYS = (
    (1_000, 1_000, 40),
    (1_000, 400, 20),
    (200, 160, 12),
    (60, 80, 12),
    (30, 60, 8),
    (15, 40, 6),
    (8, 30, 5),
    (4, 24, 4),
    (2, 16, 3),
    (1, 12, 2),
    (1, 8, 1),
    (1, 4, 0),
)
"""Items of a list or object, characters of a text, and levels that are shown: the first of these ways that fits."""
_MAX_BITS = 10_000
"""Bits of a number that is written in decimal digits: Python refuses 4,300 digits, and takes their square."""


@dataclass(frozen=True)
class Abridged:
    """A value's text, on one line. ``cut``: something of the value is not in it."""

    text: str
    cut: bool


def abridged(value: Any, room: int) -> Abridged:
    """Return a value in about ``room`` characters: whole, or with what is left out counted.

    Args:
        value: a JSON value or bytes, of any size and depth.
        room: characters; the mark of what was cut comes beside it.
    """
    if isinstance(value, str | bytes | bytearray):
        return _text_in(value, room)
    for way in ((room, room, room), *_WAYS):
        writer = _Writer(*way)
        text, ended = writer.upto(value, room)
        if ended:
            return Abridged(text, writer.cut)
    return Abridged(_of_type(value), True)  # a key that is nothing but escapes, say


def _text_in(value: str | bytes | bytearray, room: int) -> Abridged:
    if len(value) <= room and len(text := _written(value)) <= room + 2:
        return Abridged(text, False)
    head = value[: _fitting(value[:room], room * 2 // 3)]
    tail = value[len(value) - _fitting(value[-room:][::-1], room // 3) :]
    return Abridged(_cut(head, tail, value), True)


def _fitting(text: str | bytes | bytearray, room: int) -> int:
    characters = text if isinstance(text, str) else map(chr, text)
    for number, character in enumerate(characters):
        if isinstance(text, str):
            seen = character.isprintable() and not unicodedata.combining(character) and not is_invisible(character)
        else:
            seen = " " <= character < "\x7f"
        room -= 1 if seen else len(escaped(character))
        if room < 0:
            return number
    return len(text)


def _cut(head: str | bytes | bytearray, tail: str | bytes | bytearray, whole: str | bytes | bytearray) -> str:
    ending = f" {_written(tail)}" if tail else ""
    return f"{_written(head)} {LEFT_OUT}{ending} ({len(whole):,} {'characters' if isinstance(whole, str) else 'bytes'})"


def _written(value: str | bytes | bytearray) -> str:
    return visible(repr(bytes(value) if isinstance(value, bytearray) else value))


@dataclass
class _Nested:
    value: Any
    depth: int


class _Writer:
    def __init__(self, items: int, texts: int, depth: int) -> None:
        self._items, self._texts, self._depth = items, texts, depth
        self.cut = False

    def upto(self, value: Any, room: int) -> tuple[str, bool]:
        """Return the text, and whether it ended within the room."""
        made: list[str] = []
        taken = 0
        levels: list[Iterator[str | _Nested]] = [iter((_Nested(value, self._depth),))]
        while levels:
            part = next(levels[-1], None)
            if part is None:
                levels.pop()
                continue
            if isinstance(part, _Nested) and isinstance(part.value, dict | list | tuple):
                levels.append(self._members(part.value, part.depth - 1))
                continue
            text = self.atom(part.value) if isinstance(part, _Nested) else part
            taken += len(text)
            if taken > room:
                return "".join(made), False
            made.append(text)
        return "".join(made), True

    def _members(self, value: Mapping[Any, Any] | list[Any] | tuple[Any, ...], depth: int) -> Iterator[str | _Nested]:
        is_object = isinstance(value, Mapping)
        begin, end = "{}" if is_object else "[]"
        what = "keys" if is_object else "items"
        if depth < 0 and value:
            self.cut = True
            yield f"{begin}{LEFT_OUT} {len(value):,} {what}{end}"
            return
        yield begin
        for number, item in enumerate(islice(value, self._items)):
            if number:
                yield ", "
            if isinstance(value, Mapping):
                yield f"{self.atom(item)}: "
                yield _Nested(value[item], depth)
            else:
                yield _Nested(item, depth)
        if (left := len(value) - self._items) > 0:
            self.cut = True
            yield f", {LEFT_OUT} {left:,} of {len(value):,} {what}"
        yield end

    def atom(self, value: Any) -> str:
        """Return a value that holds no others."""
        if isinstance(value, str | bytes | bytearray):
            if len(value) <= self._texts:
                return _written(value)
            self.cut = True
            tail = self._texts // 3
            return _cut(value[: self._texts - tail], value[len(value) - tail :], value)
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            text = hex(value)  # linear, where decimal digits are not
            if len(text) <= self._texts:
                return text
            self.cut = True
            return f"{text[: max(4, self._texts)]} {LEFT_OUT} ({len(text):,} hexadecimal digits)"
        try:
            text = visible(repr(value))
        except Exception:  # of another type than JSON has: its own code may raise anything
            self.cut = True
            return _of_type(value)
        if len(text) <= max(self._texts, 24):  # a number is not cut in two
            return text
        self.cut = True
        return f"{text[: max(4, self._texts)]} {LEFT_OUT} ({len(text):,} characters)"


def _of_type(value: Any) -> str:
    return f"<{visible(type(value).__name__)[:40]}, not shown>"
