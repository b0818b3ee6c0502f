"""JSON to its letter: no NaN, no key twice, no lone surrogate, bounded depth, numbers and values.

So is read what a jail, a sandbox service or a tool sent; what two readers could take differently is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from atc._records.packing import values_of, without_strings

MAX_DEPTH = 128
MAX_VALUES = 200_000
"""Values in one text: an empty list takes three bytes of JSON and sixty of memory."""
MAX_INTEGER_DIGITS = 400
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_LEVELS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_KEY_ENDS = ('":', " :", "\t:", "\n:", "\r:")
_CONTAINERS = (dict, list)


class TooMany(ValueError):
    """JSON of more values than are taken."""


def parse(text: str) -> Any:
    """Parse JSON to the letter.

    Raises:
        ValueError: NaN, infinity, an integer of more than 400 digits, a key that stands twice in an object, half of a
            surrogate pair, more than 128 levels or 200,000 values (:class:`TooMany`), or no JSON at all.
        RecursionError: far more levels.
    """
    bound_size(text)
    try:
        value, end = _scan(text, 0)
    except StopIteration:  # no JSON, or blanks before it
        value, end = None, -1
    if end != len(text) or not _has_keys(value, text):
        value = _DECODER.decode(text)
    if "\\" in text and ("\\ud" in text or "\\uD" in text):  # an escape can still smuggle in half of a surrogate pair
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def _has_keys(value: Any, text: str) -> bool:
    """Return whether a value surely has every key of its text: then none stood there twice.

    A key ends with a quote, and but for blanks a colon follows. So there are at most as many keys as colons, or as
    colons behind a quote or a blank; strings may hold more, which leaves it unsure.
    """
    return _keys_reach(text.count(":"), value) or _keys_reach(sum(map(text.count, _KEY_ENDS)), value)


def _keys_reach(count: int, value: Any) -> bool:
    todo = [value]
    for part in todo:
        if type(part) is dict:
            count -= len(part)
            if count > 0:
                todo += [item for item in part.values() if type(item) in _CONTAINERS]
        elif count > 0 and type(part) is list:
            todo += [item for item in part if type(item) in _CONTAINERS]
    return count <= 0


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


def bound_size(text: str, most: int = MAX_VALUES) -> None:
    """Refuse deep nesting, and a great many small values, before the parser builds them. Strings do not count.

    Args:
        text: JSON, or anything else: then what is counted means nothing, and the parser refuses it.
        most: values that are taken.

    Raises:
        ValueError: more than 128 levels.
        TooMany: more values.
    """
    if len(text) <= most and "[" not in text and text.find("{", text.find("{", 1) + 1) <= 0:
        return  # two objects at most, as in most calls: to look for a character is ten times as quick as to count it
    opening = text.count("[") + text.count("{")
    if opening <= MAX_DEPTH and (len(text) <= most or opening + text.count(",") < most):
        return
    bare = without_strings(text)
    if opening > MAX_DEPTH:
        steps = map(_LEVELS.__getitem__, bare.encode("ascii", "replace").translate(None, _NO_BRACKETS))
        if max(accumulate(steps), default=0) > MAX_DEPTH:
            raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if values_of(bare) > most:
        raise TooMany(f"it holds more than {most:,} values")


# made once: each costs more than the small text that it is made for
_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_integer, parse_float=_number
)
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(
    parse_constant=_no_constant, parse_int=_integer, parse_float=_number
).scan_once  # type: ignore[attr-defined]
