"""A value in brief, as a model is shown what an earlier step found: its form, its first items, and its identifiers.

A small context is the point (RETO §3.3). The variable itself holds the whole value. The time is bounded as the text is:
what there is no room for is not visited.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from atc.schemas.identifiers import is_identifier
from atc.schemas.infer.text import mask_leaf, name_within
from atc.settings import ShowValues

ROOM = 2_000
"""Characters of all values together."""
LEAST = 120
"""Characters that each value has, however many there are."""
LEFT_OUT = "…"
"""Stands for what is left out."""
MAX_ID, MAX_KEY = 80, 60
"""Characters of an identifier, which is not shortened before its object is, and of a key."""
MAX_MASKED = 4_000
"""Characters of a text that are looked at for secrets: more than a preview ever shows of one."""
_WAYS = (
    (1_000, 10_000, 40),
    (40, 1_000, 20),
    (12, 400, 12),
    (6, 160, 8),
    (3, 80, 6),
    (2, 40, 5),
    (1, 24, 4),
    (1, 12, 3),
)
"""Items of a list, characters of a text, and levels that are shown: the first of these ways that fits."""


class _NoRoom(Exception):
    """The text is longer than it may be."""


def previews(values: Mapping[str, Any], room: int = ROOM) -> str:
    """Return one line for each value: the variable's name, and the value as Python writes it, in part where it is long.

    Args:
        values: JSON values and bytes by the name of their variable. What is no longer than its share is whole; of the
            rest the latest has the most room.
        room: characters of all of them together, if that leaves :data:`LEAST` for each.
    """
    share = max(LEAST, room // max(1, len(values)))
    brief = {name: preview(value, share) for name, value in values.items()}
    large = [name for name, text in brief.items() if LEFT_OUT in text][::-1]
    left = room - sum(len(f"{name} = {text}") for name, text in brief.items() if name not in large)
    for number, name in enumerate(large):
        brief[name] = preview(values[name], max(LEAST, left - LEAST * (len(large) - number - 1)))
        left -= len(f"{name} = {brief[name]}")
    return "\n".join(f"{name} = {text}" for name, text in brief.items())


def preview(value: Any, room: int, *, masked: bool = False, name: str = "") -> str:
    """Return a value as Python writes it, in ``room`` characters at most: whole, or with ``…`` for what is left out.

    Args:
        masked: what looks like a secret, or stands under the name of one, is masked.
        name: under which the value stands.
    """
    for items, texts, depth in _WAYS:
        try:
            return _joined(_parts(value, items, texts, depth, masked, name), room)
        except _NoRoom:
            continue
    return _cut(_parts(value, *_WAYS[-1], masked, name, counted=True), room)


def shown(value: Any, room: int, show: ShowValues) -> str:
    """Return as much of a value as a prompt may show: a preview with secrets masked, its keys and types, or nothing."""
    match show:
        case "previews":
            return preview(value, room, masked=True)
        case "keys":
            return outline(value, room)
        case "never":
            return ""


def call_shown(tool: str, arguments: Mapping[str, Any], room: int, show: ShowValues) -> str:
    """Return a call as a program writes it, each argument in ``room`` characters; no values unless ``previews``."""
    given = {
        name: preview(value, room, masked=True, name=name) if show == "previews" else LEFT_OUT
        for name, value in arguments.items()
    }
    return f"{tool}({', '.join(f'{name}={text}' for name, text in given.items())})"


def outline(value: Any, room: int) -> str:
    """Return the keys of a value and the types of what stands there, in ``room`` characters at most; no values."""
    return _cut(_outlined(value, _WAYS[0][2]), room)


def _outlined(value: Any, depth: int) -> Iterator[str]:
    match value:
        case dict() if value and depth > 0:
            yield "{"
            for number, (name, item) in enumerate(value.items()):
                yield f"{', ' if number else ''}{_text(str(name), MAX_KEY)}: "
                yield from _outlined(item, depth - 1)
            yield "}"
        case list() if value and depth > 0:
            yield f"[{len(value):,} × "
            yield from _outlined(value[0], depth - 1)
            yield "]"
        case None:
            yield "None"
        case _:
            yield type(value).__name__


def _cut(parts: Iterator[str], room: int) -> str:
    text = ""
    for part in parts:
        text += part
        if len(text) > room:
            return f"{text[: room - 1]}…"
    return text


def _joined(parts: Iterator[str], room: int) -> str:
    made, taken = [], 0
    for part in parts:
        taken += len(part)
        if taken > room:
            raise _NoRoom
        made.append(part)
    return "".join(made)


def _parts(
    value: Any, items: int, texts: int, depth: int, masked: bool, key: str = "", *, counted: bool = False
) -> Iterator[str]:
    """In parts, so that whoever joins them can end early. ``counted``: a list's length stands before its items."""
    if masked and not isinstance(value, dict | list | bytes | bytearray):
        value = mask_leaf(value[:MAX_MASKED] if isinstance(value, str) else value, key)
    match value:
        case dict() if depth > 0:
            yield "{"
            for number, (name, item) in enumerate(value.items()):
                yield f"{', ' if number else ''}{_text(str(name), MAX_KEY)}: "
                yield from _parts(item, items, texts, depth - 1, masked, name_within(str(name), key), counted=counted)
            yield "}"
        case list() if depth > 0:
            yield f"[{len(value):,} items: " if counted and len(value) > 1 else "["
            for number, item in enumerate(islice(value, items)):
                yield ", " if number else ""
                yield from _parts(item, items, texts, depth - 1, masked, key, counted=counted)
            if len(value) > items:
                yield f", … {len(value) - items:,} more"
            yield "]"
        case dict():
            yield f"{{… {len(value):,} keys}}" if value else "{}"
        case list():
            yield f"[… {len(value):,} items]" if value else "[]"
        case str():
            yield _text(value, max(texts, MAX_ID) if key and is_identifier(key) else texts)
        case bytes() | bytearray():
            yield f"<{len(value):,} bytes>"
        case _:
            yield repr(value)


def _text(text: str, most: int) -> str:
    return repr(text) if len(text) <= most else f"{text[:most]!r}…"
