"""The channel to a sandbox, host side: a 4-byte big-endian length, then that many bytes of UTF-8 JSON.

Every byte that comes in is hostile until it has passed :func:`decode`: the length is checked before anything is read,
and JSON is held to its letter (no NaN, no duplicate key, no lone surrogate, bounded depth and integers).
"""

from __future__ import annotations

import json
import re
from typing import Any

from atc.errors import FrameError

MAX_DEPTH = 128
MAX_VALUES = 200_000
"""In one frame: an empty list takes three bytes of JSON and sixty of memory."""
MAX_INTEGER_DIGITS = 400
# possessive, and it takes an unterminated string to the end: linear whatever comes
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[][{},]', re.DOTALL)


class TooMany(ValueError):
    """JSON of more values than are taken."""


def encode(message: dict[str, Any]) -> bytes:
    """Return ``message`` as one frame. Raises ValueError for NaN and infinity."""
    body = _ENCODER.encode(message).encode()
    return len(body).to_bytes(4, "big") + body


def decode(body: bytes | memoryview) -> dict[str, Any]:
    """Parse the body of a frame.

    Raises:
        FrameError: it is not exactly one JSON object of bounded depth.
    """
    try:
        message = parse(str(body, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a frame from the sandbox is not valid: {str(error)[:200]}") from None
    if not isinstance(message, dict):
        raise FrameError(f"a frame from the sandbox is a {type(message).__name__}, not an object")
    return message


def parse(text: str) -> Any:
    """Parse JSON to the letter.

    Raises:
        ValueError: NaN, infinity, an integer of more than 400 digits, a key that stands twice in an object, half of a
            surrogate pair, more than 128 levels or 200,000 values (:class:`TooMany`), or no JSON at all.
        RecursionError: far more levels.
    """
    _bound_depth(text)
    value = _DECODER.decode(text)
    if "\\u" in text:  # an escape can still smuggle in half of a surrogate pair
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def next_frame(buffer: bytes | bytearray, start: int, limit: int) -> tuple[dict[str, Any], int] | None:
    """Return the frame that begins at ``start`` and where the next one begins; ``None`` until it is whole.

    Raises:
        FrameError: it is larger than ``limit`` bytes (its length shows that, before the rest is there), or not valid.
    """
    if len(buffer) - start < 4:
        return None
    body = start + 4
    length = int.from_bytes(buffer[start:body], "big")
    if length > limit:
        raise FrameError(f"a frame of {length:,} bytes is over the limit of {limit:,}")
    if len(buffer) - body < length:
        return None
    with memoryview(buffer) as whole:
        return decode(whole[body : body + length]), body + length


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("an object has the same key twice")
    return made


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise ValueError(f"an integer has {len(digits)} digits")
    return int(digits)


def _number(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return number


def _bound_depth(text: str) -> None:
    """Refuse deep nesting, and a great many small values, before the parser builds them. Strings do not count."""
    opening = text.count("[") + text.count("{")
    if opening <= MAX_DEPTH and (len(text) <= MAX_VALUES or opening + text.count(",") <= MAX_VALUES):
        return
    depth = values = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in "]}":
            depth -= 1
            continue
        values += 1
        depth += first in "[{"
        if depth > MAX_DEPTH:
            raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
        if values > 2 * MAX_VALUES:  # each value has a comma, a bracket or a text; many have two
            raise TooMany(f"it holds more than {MAX_VALUES:,} values")


# made once: each costs more than the small message that it is made for
_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"), ensure_ascii=True)
_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_integer, parse_float=_number
)
