"""Whether two requests to one tool say the same, but for how they are written.

What repairs the arguments of a call with effects may respell them, and nothing else: neither add, nor leave out, nor
change what is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atc.schemas.repair.arguments import MAX_DEPTH
from atc.schemas.repair.formats import MISSING, as_type, in_format
from atc.schemas.repair.places import Place
from atc.schemas.repair.spelling import is_spelling, near, nearest, spelling_key
from atc.tools.protocol import JsonSchema


def same_request(
    schema: JsonSchema,
    given: Mapping[str, Any],
    sent: Mapping[str, Any],
    respellings: Mapping[str, str] | None = None,
) -> bool:
    """Whether the arguments ``sent`` say what the arguments ``given`` say, but for respelt keys and lossless formats.

    Args:
        schema: of the parameters.
        given: by the tool's own names, or those that a program gave in their place.
        sent: what would be sent in their place.
        respellings: keys that are known to mean a parameter of this tool.
    """
    try:
        return _same_object(Place.of(schema), dict(given), dict(sent), respellings or {}, 0)
    except RecursionError:
        return False


def _same(place: Place, name: str, given: Any, sent: Any, depth: int) -> bool:
    if _equal(given, sent):
        return True
    if depth > MAX_DEPTH:
        return False
    return any(_same_at(option, name, given, sent, depth + 1) for option in place.alternatives)


def _same_at(place: Place, name: str, given: Any, sent: Any, depth: int) -> bool:
    if isinstance(given, dict) and isinstance(sent, dict):
        return _same_object(place, given, sent, {}, depth)
    if isinstance(given, list) and isinstance(sent, list):
        items = place.items
        pairs = zip(given, sent, strict=False)
        return items is not None and len(given) == len(sent) and all(_same(items, name, a, b, depth) for a, b in pairs)
    if isinstance(given, list):
        return len(given) == 1 and "array" not in place.types and _same(place, name, given[0], sent, depth)
    if isinstance(sent, list) and len(sent) == 1 and place.items is not None and not isinstance(given, str):
        return _same(place.items, name, given, sent[0], depth)
    if isinstance(given, dict):
        ((key, value),) = given.items() if len(given) == 1 else (("", None),)
        return spelling_key(key) == spelling_key(name) != "" and _same(place, name, value, sent, depth)
    return _same_text(place, name, given, sent, depth)


def _same_text(place: Place, name: str, given: Any, sent: Any, depth: int) -> bool:
    """Whether a plain value says the same in another format."""
    made = as_type(place, given, lossless=True)
    if made is MISSING:
        made = in_format(place, name, given, lossless=True)
    if made is not MISSING and (
        _equal(made, sent) or (isinstance(made, dict | list) and _same(place, name, made, sent, depth))
    ):
        return True
    if isinstance(given, str) and isinstance(sent, str):
        return nearest(given, [each for each in place.values if isinstance(each, str)], strict=True) == sent
    return (
        isinstance(sent, list)
        and len(sent) == 1
        and place.items is not None
        and _same(place.items, name, given, sent[0], depth)
    )


def _same_object(
    place: Place, given: dict[str, Any], sent: dict[str, Any], respellings: Mapping[str, str], depth: int
) -> bool:
    members, others = place.members, place.below("additionalProperties")
    anything = Place(place.root, "", {})
    left = {key: value for key, value in sent.items() if key not in given}
    for key, value in given.items():
        if key in sent:
            if not _same(members.get(key, others or anything), key, value, sent[key], depth):
                return False
            continue
        if key in members:
            if value is None and key not in place.required:
                continue
            return False
        meant = [name for name in left if name in members and _means(key, name, respellings)]
        if len(meant) != 1 or not _same(members[meant[0]], meant[0], value, left.pop(meant[0]), depth):
            return False
    return not left


def _means(key: str, name: str, respellings: Mapping[str, str]) -> bool:
    return respellings.get(key) == name or is_spelling(key, name) or near(key, name, strict=True)


def _equal(a: Any, b: Any) -> bool:
    """Whether two JSON values are the same: 1.0 is 1, and ``True`` is not."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    return a is b or (isinstance(a, bool) == isinstance(b, bool) and bool(a == b))
