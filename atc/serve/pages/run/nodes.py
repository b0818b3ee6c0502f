"""Values as a page shows them: shaped, cut with their sizes, and harmless whatever they hold.

A *node* is plain JSON that no value can pretend to be, for every object and list of a value is wrapped:

| node | is |
| --- | --- |
| ``"text"``, ``true``, ``null``, ``12``, ``1.5`` | the value itself |
| ``{"n": "1.0"}`` | a number that JavaScript would write otherwise |
| ``{"t": "begin…", "size": characters}`` | a text of which the beginning is shown |
| ``{"b": "89504e47", "size": bytes}`` | bytes, the first of them in hexadecimal digits |
| ``{"l": [node, …], "size": items}`` | a list |
| ``{"o": [[key, node], …], "size": keys}`` | an object, in its own order |

One that is cut has ``"at"`` besides: the pointer to the whole. A *pointer* is positions, from the data of its event
down (``"4.0.17"``): the fifth field's first member's eighteenth. No name of a stranger's stands in it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from atc._host.invisible import visible
from atc._records.packing import TAG
from atc.errors import UsageError

MAX_KEY = 200
"""Characters of a key or a name."""
MAX_STEPS = 64
"""Steps of a pointer."""
_EXACT = 2**53
_BYTES = 48
"""Bytes of a binary value that are shown."""
_DEEPEST = 100
"""Levels of a whole value; what is deeper is text."""
_POINTER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})*")
_STRANGE = re.compile(
    "[^\t\n -~\u00a1-\u00ac\u00ae-\u02ff\u0391-\u0482\u3041-\u3096\u30a1-\u30fe\u4e00-\u9fff\uac00-\ud7a3]+"
)
"""What may need an escape; all else is drawn as what it is."""


@dataclass(frozen=True)
class Limits:
    """How much of a value is shown.

    Attributes:
        room: characters of all its texts, keys and numbers together, about.
        text: characters of one text.
        items: members of one list or object.
        depth: levels that are opened.
    """

    room: int = 4_000
    text: int = 1_000
    items: int = 40
    depth: int = 8


WHOLE = Limits(room=2**60, text=2**60, items=2**60, depth=_DEEPEST)


def plain(text: str) -> str:
    """Text whose every character is seen and steers nothing: others are escapes. Lines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return _STRANGE.sub(lambda strange: visible(strange[0]), text)


def brief(text: str, most: int = MAX_KEY) -> str:
    """A name in one line, cut with its length."""
    one = plain(text[:most]).replace("\n", "\\n").replace("\t", "\\t")
    return one if len(text) <= most else f"{one}… ({len(text):,} characters)"


def node(value: Any, limits: Limits, at: tuple[int, ...] = ()) -> Any:
    """The node of a value.

    Args:
        value: plain JSON values, of any size; numbers that JSON lacks; anything else becomes text.
        limits: how much of it is shown.
        at: where it stands in the data of its event.
    """
    return _Cutter(limits).node(value, at, limits.depth)


def value_at(value: Any, pointer: str) -> Any:
    """What a pointer leads to.

    Raises:
        UsageError: it leads nowhere.
    """
    if len(pointer) > 10 * MAX_STEPS or not _POINTER.fullmatch(pointer) or pointer.count(".") >= MAX_STEPS:
        raise UsageError(f"{pointer[:80]!r} is no pointer: give positions with dots between them, such as 4.0.17")
    for step in map(int, pointer.split(".")):
        members = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        found = list(islice(members, step, step + 1))
        if not found:
            raise UsageError(f"the pointer {pointer} leads nowhere: the event has no such value")
        value = found[0]
    return value


class _Cutter:
    """Makes the nodes of one value; the room that is left is shared by all of it."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._left = limits, limits.room

    def node(self, value: Any, at: tuple[int, ...], depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value, at)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return self._number(value, at)
        if isinstance(value, dict):
            if len(value) == 1 and isinstance(held := value.get(TAG), str):
                return self._bytes(held, at)
            members = ((brief(str(key)), each) for key, each in value.items())
            made = [[key, each] for key, each in self._members(members, at, depth)]
            return self._cut({"o": made, "size": len(value)}, len(made) < len(value), at)
        if isinstance(value, list | tuple):
            items = [each for _, each in self._members((("", each) for each in value), at, depth)]
            return self._cut({"l": items, "size": len(value)}, len(items) < len(value), at)
        return self._text(str(value), at)

    def _members(self, members: Iterable[tuple[str, Any]], at: tuple[int, ...], depth: int) -> list[tuple[str, Any]]:
        made: list[tuple[str, Any]] = []
        if depth <= 0:
            return made
        for position, (key, value) in enumerate(islice(members, self._limits.items)):
            if self._left <= 0:
                break
            self._left -= len(key) + 4
            made.append((key, self.node(value, (*at, position), depth - 1)))
        return made

    def _text(self, text: str, at: tuple[int, ...]) -> Any:
        most = min(self._limits.text, max(self._left, 40))
        self._left -= min(len(text), most)
        if len(text) <= most:
            return plain(text)
        return self._cut({"t": plain(text[:most]), "size": len(text)}, True, at)

    def _number(self, value: int | float, at: tuple[int, ...]) -> Any:
        self._left -= 8
        if isinstance(value, int):
            if -_EXACT <= value <= _EXACT:
                return value
            text = str(value) if value.bit_length() < 10_000 else hex(value)
            return {"n": text} if len(text) <= self._limits.text else self._text(text, at)
        return {"n": repr(value)} if not math.isfinite(value) or value.is_integer() or abs(value) < 1e-6 else value

    def _bytes(self, held: str, at: tuple[int, ...]) -> Any:
        import base64

        size = len(held) * 3 // 4 - held[-2:].count("=")
        try:
            first = base64.b64decode(held[: _BYTES // 3 * 4], validate=True)
        except ValueError:
            return self._cut({"o": [[TAG, self._text(held, (*at, 0))]], "size": 1}, False, at)
        self._left -= 2 * len(first)
        return {"b": first.hex(), "size": size}

    @staticmethod
    def _cut(made: dict[str, Any], cut: bool, at: tuple[int, ...]) -> dict[str, Any]:
        return made | {"at": ".".join(map(str, at))} if cut and len(at) <= MAX_STEPS else made


def as_json(data: Any) -> str:
    """Nodes as JSON text: ASCII, whatever they hold."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False)
