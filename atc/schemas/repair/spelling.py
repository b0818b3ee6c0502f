"""Spellings: which parameter a key means.

The repair of arguments and the repair of programs both use these. A match is taken where it is the only one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from unicodedata import category, normalize

from atc.schemas.identifiers import split, words_of

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


def spelling_key(name: str) -> str:
    """A name without case and separators: ``productId``, ``product_id`` and ``Product-ID`` are alike."""
    folded = name.casefold()
    if folded.isascii():
        return _NOT_LETTERS.sub("", folded)
    folded = normalize("NFC", folded)  # a vowel sign is no letter, and all the same a part of the word
    return "".join(char for char in folded if char.isalnum() or category(char).startswith("M"))


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


def _grouped(names: Iterable[str], form: Callable[[str], str]) -> Mapping[str, list[str]]:
    made: dict[str, list[str]] = {}
    for name in names:
        made.setdefault(form(name), []).append(name)
    return made
