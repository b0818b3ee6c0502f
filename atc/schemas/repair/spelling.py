"""Spellings: which parameter a key means, and which value of an enumeration a text means.

The repair of arguments and the repair of programs both use these. A match is taken where it is the only one.

:func:`same_request` returns whether two requests to one tool differ in nothing but spelling. What repairs the arguments
of a call with effects may change case, separators and numbers that stand as text. It may neither add, nor leave out,
nor change what is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any
from unicodedata import category, normalize

from atc.schemas.identifiers import singular, split, words_of
from atc.schemas.protocol import JsonSchema
from atc.schemas.repair.formats import MISSING, duration_in_unit, number_of
from atc.schemas.repair.places import MAX_DEPTH, Gate, Place, gate_of

MAX_NEAR = 16
"""Unknown keys of one object that are compared letter by letter; where there are more, their spelling alone counts."""
MAX_LENGTH = 64
"""Characters of a name that is compared letter by letter."""
SHORTEST = 4
"""Letters of a word in which one edit is taken for a slip. In a shorter one it makes another word: ``lat``, ``lot``."""
_FILLERS = {("is",), ("the",), ("my",), ("input",), ("param",), ("arg",)}
"""Words before a name that say nothing more; some clients write one before a name that their language reserves."""
_BARE = {("id",), ("name",), ("code",), ("key",), ("slug",), ("text",), ("title",), ("result",), ("number",)}
"""Names of a field that say what an object is: alone in it, it is meant by the object."""
_NOT_LETTERS = re.compile(r"[\W_]+")
_BEFORE = re.compile(r"[\W_]*")
_BETWEEN = re.compile(r"(?<=[^\W\d_])[\s_-]+(?=[^\W_])|(?<=\d)[\s_-]+(?=[^\W\d_])")


def spelling_key(name: str) -> str:
    """A name without case and separators: ``productId``, ``product_id`` and ``Product-ID`` are alike."""
    folded = name.casefold()
    if folded.isascii():
        return _NOT_LETTERS.sub("", folded)
    folded = normalize("NFC", folded)  # a vowel sign is no letter, and all the same a part of the word
    return "".join(char for char in folded if char.isalnum() or category(char).startswith("M"))


def value_key(text: str) -> str:
    """A value without case, and without separators beside a letter: ``-date`` is not ``date``, nor ``1-2`` ``12``."""
    return _BETWEEN.sub("", text.strip().casefold())


def near(given: str, name: str) -> bool:
    """Whether two names differ by one edit: a letter more, less or other, or two exchanged.

    The first letter is the same, no digit differs, and the word that differs has :data:`SHORTEST` letters.
    """
    if not like(given, name) or min(len(spelling_key(each)) for each in (given, name)) < SHORTEST:
        return False
    ours, theirs = split(given), split(name)
    if len(ours) != len(theirs):
        return True
    pairs = [(x, y) for x, y in zip(ours, theirs, strict=True) if x != y]
    return all(min(len(x), len(y)) >= SHORTEST for x, y in pairs)


def like(given: str, name: str, *, strict: bool = False) -> bool:
    """Whether two names differ by one edit in a word of any length: ``cast_ame``, ``skus``.

    Too like each other for one to be left out as unknown, not enough to take it for the other.

    Args:
        strict: another letter is no slip (``mid_price``, ``min_price``).
    """
    if max(len(given), len(name)) > MAX_LENGTH:
        return False
    a, b = spelling_key(given), spelling_key(name)
    if a == b or not a or not b or max(len(a), len(b)) < SHORTEST or not _is_one_edit(a, b, strict):
        return False
    ours, theirs = split(given), split(name)
    return ours[:-1] != theirs and theirs[:-1] != ours  # `postcodeB` is another one than `postcode`


def _is_one_edit(a: str, b: str, strict: bool) -> bool:
    if a[0] != b[0] or abs(len(a) - len(b)) > 1:
        return False
    start, most = 0, min(len(a), len(b))
    while start < most and a[start] == b[start]:
        start += 1
    end = 0
    while end < most - start and a[-1 - end] == b[-1 - end]:
        end += 1
    x, y = a[start : len(a) - end], b[start : len(b) - end]
    if any(letter.isdigit() for letter in x + y):
        return False
    return len(x) + len(y) == 1 or (len(x) == 2 and x == y[::-1]) or (not strict and len(x) == len(y) == 1)


@lru_cache(maxsize=16_384)
def _singular_key(name: str) -> str:
    """The words of a name in one, singular; empty where letters are none of ASCII, of which it would lose some."""
    return "".join(words_of(name)) if len(name) <= MAX_LENGTH and name.isascii() else ""


def is_spelling(given: str, name: str) -> bool:
    """Whether two names are the same words: in another case, with other separators, or as a plural."""
    return any(form(given) == form(name) != "" for form in (spelling_key, _singular_key))


def respelt(
    unknown: Sequence[str],
    parameters: Collection[str],
    given: Collection[str],
    required: Collection[str] = (),
    *,
    strict: bool = False,
    endings: bool = False,
) -> dict[str, str]:
    """Which parameter each unknown key means, where there is one: by case and separators, plural, or one edit.

    Args:
        unknown: keys that no parameter has.
        parameters: the names of all parameters: of two that are as near, none is meant.
        given: parameters that are given: none of them is meant.
        required: those that must be given; see ``endings``.
        strict: case and separators alone may differ: ``hours`` is not ``hour``, nor is ``spender`` ``sender``.
        endings: where one required parameter is missing and one key unknown, less is enough: it alone ends as the key
            does (``id`` is ``city_id``), or one edit in a short word.
    """
    found: dict[str, str] = {}

    def take(pairs: Iterable[tuple[str, Sequence[str]]]) -> None:
        meant: dict[str, list[str]] = {}
        for key, names in pairs:
            if len(names) == 1 and names[0] not in given and names[0] not in found.values():
                meant.setdefault(names[0], []).append(key)
        found.update({keys[0]: name for name, keys in meant.items() if len(keys) == 1})

    for form in (spelling_key,) if strict else (spelling_key, _singular_key):
        left = [key for key in unknown if key not in found]
        if not left:
            return found
        alike = _grouped(parameters, form)
        take((key, alike.get(form(key), ()) if form(key) else ()) for key in left)
    if strict:
        return found
    left = [key for key in unknown if key not in found]
    if len(left) <= MAX_NEAR:
        take([(key, [name for name in parameters if near(key, name)]) for key in left])
    left = [key for key in unknown if key not in found]
    if endings and left and len(left) <= MAX_NEAR:
        take([(key, [name for name in parameters if words_of(name[:MAX_LENGTH]) == _bare(key)]) for key in left])
        left = [key for key in unknown if key not in found]
    needed = [name for name in required if name not in given and name not in found.values()]
    if endings and len(left) == len(needed) == 1:
        (key,), (name,) = left, needed
        if like(key, name, strict=True) or [each for each in parameters if _ends_with(each, key)] == [name]:
            found[key] = name
    return found


def _bare(key: str) -> tuple[str, ...]:
    """The words of a key without a filler before them."""
    words = words_of(key[:MAX_LENGTH])
    return words[1:] if words[:1] in _FILLERS else words


def _ends_with(name: str, key: str) -> bool:
    words, last = words_of(name[:MAX_LENGTH]), _bare(key)
    return 0 < len(last) <= len(words) and words[-len(last) :] == last


def kinship(field: str, name: str, fields: int) -> int | None:
    """How close the name of a field is to that of an argument, 0 the closest; ``None`` where it is not."""
    if spelling_key(field) == spelling_key(name):
        return 0
    ours, theirs = words_of(name), words_of(field)
    shorter = min(len(ours), len(theirs))
    if shorter and ours[-shorter:] == theirs[-shorter:]:
        return 1  # `id` of `city_id`
    if theirs == ("value",) or (len(theirs) > 1 and theirs[:-1] == ours):
        return 2
    return 3 if fields == 1 and theirs in _BARE else None


def nearest(text: str, values: Sequence[str], *, strict: bool = False) -> str | None:
    """The one value of an enumeration that a text means; ``None`` where there is none, or several.

    Args:
        strict: case and separators alone may differ; the case of a single letter says something (``1M``, ``1m``).
    """
    if strict and sum(map(str.isalpha, text)) == 1:
        return None
    values = [value for value in values if _sign(value) == _sign(text)]
    forms: list[Callable[[str], str]] = [value_key, lambda value: singular(value_key(value))]
    for form in forms[: 1 if strict else 2]:
        key = form(text)
        alike = [value for value in values if form(value) == key] if key else []
        if alike:
            return alike[0] if len(alike) == 1 else None
    if strict:
        return None
    alike = [v for v in values if near(text, v)] or [v for v in values if like(text, v, strict=True)]
    return alike[0] if len(alike) == 1 else None


def _sign(text: str) -> str:
    """What stands before the first letter or digit: ``-date`` sorts the other way than ``date``."""
    return (_BEFORE.match(text.strip()) or [""])[0]


def _grouped(names: Iterable[str], form: Callable[[str], str]) -> Mapping[str, list[str]]:
    made: dict[str, list[str]] = {}
    for name in names:
        made.setdefault(form(name), []).append(name)
    return made


MAX_STEPS = 1_000
"""Pairs of values, and of names, that one comparison looks at."""


def same_request(
    schema: JsonSchema,
    given: Mapping[str, Any],
    sent: Mapping[str, Any],
) -> bool:
    """Whether the arguments ``sent`` say what the arguments ``given`` say, in another spelling.

    Args:
        schema: of the parameters.
        given: by the tool's own names, or those that a program gave in their place.
        sent: what would be sent in their place. Where it would take too long to tell, it is another request.
    """
    try:
        gate = gate_of(schema)
        return _same_object(gate.root, dict(given), dict(sent), _Reach(gate, count(1)))
    except (RecursionError, ValueError, TypeError):  # the schema is none, or a key is no text
        return False


@dataclass(frozen=True)
class _Reach:
    """How deep in a request a comparison is, and the steps of all of it: alternatives in one another multiply."""

    gate: Gate
    steps: count[int]
    depth: int = 0

    def below(self) -> _Reach:
        return _Reach(self.gate, self.steps, self.depth + 1)

    def step(self) -> None:
        if self.depth > MAX_DEPTH or next(self.steps) > MAX_STEPS:
            raise RecursionError("too much to compare")


def _same(place: Place, name: str, given: Any, sent: Any, at: _Reach) -> bool:
    if _equal(given, sent):
        return True
    at.step()
    return any(_same_at(option, name, given, sent, at.below()) for option in place.alternatives)


def _same_at(place: Place, name: str, given: Any, sent: Any, at: _Reach) -> bool:
    if isinstance(given, dict) and isinstance(sent, dict):
        return _same_object(place, given, sent, at)
    if isinstance(given, list) and isinstance(sent, list):
        items = place.items
        pairs = zip(given, sent, strict=False)
        return items is not None and len(given) == len(sent) and all(_same(items, name, a, b, at) for a, b in pairs)
    if isinstance(given, str) and isinstance(sent, str):
        return nearest(given, [each for each in place.values if isinstance(each, str)], strict=True) == sent
    made = number_of(place, given)
    if made is MISSING:
        made = duration_in_unit(place, name, given)
    return made is not MISSING and _equal(made, sent)


def _same_object(place: Place, given: dict[str, Any], sent: dict[str, Any], at: _Reach) -> bool:
    members, others = place.members, place.below("additionalProperties")
    anything = Place(place.root, "", {})
    left = {key: value for key, value in sent.items() if key not in given}
    for key, value in given.items():
        if key in sent:
            if not _same(members.get(key, others or anything), key, value, sent[key], at):
                return False
            continue
        if key in members:
            if value is None and key not in place.required and not at.gate.accepts(members[key], None):
                continue  # where it is accepted it says something: that a date is cleared
            return False
        meant = [name for name in left if name in members and _means(key, name, at)]
        if len(meant) != 1 or not _same(members[meant[0]], meant[0], value, left.pop(meant[0]), at):
            return False
    return not left


def _means(key: str, name: str, at: _Reach) -> bool:
    at.step()
    return spelling_key(key) == spelling_key(name) != ""


def _equal(a: Any, b: Any) -> bool:
    """Whether two JSON values are the same: 1.0 is 1, and ``True`` is not."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    return a is b or (isinstance(a, bool) == isinstance(b, bool) and bool(a == b))
