"""Identifiers: the words of a name, their singular form, and whether a name is that of an identifier.

All who read names use these: the tool graph, checks of programs, schema inference, probing and the search index.
"""

from __future__ import annotations

import re
from functools import lru_cache

THINGS = frozenset({"id", "uuid", "guid", "slug"})
"""Last words of what one service calls one thing by. Nobody can guess such a value."""
HANDED_OUT = frozenset({"token", "key"})
"""Last words of what a service hands out for a later call. Nobody can guess such a value either."""
REGISTERED = frozenset({"iata", "icao", "isbn", "sku", "imdb"})
"""Last words of what a registry gives, so that it means the same to many services."""
LABELS = frozenset({"code", "symbol", "number", "reference", "handle"})
"""Last words that often name an identifier, and sometimes a quantity or plain text."""
COORDINATES = frozenset({"latitude", "longitude", "lat", "lon", "lng"})
"""Words for a place on the map, which tools hand out as they do identifiers."""
UNIVERSAL = COORDINATES | {"code", "iata", "icao", "symbol"}
"""Last words of values that mean the same to all services."""
NAMES = frozenset({"name", "title", "query", "q", "text", "keyword", "term", "search"})
"""Last words of what a thing is found by."""

_RUN = re.compile(r"[A-Za-z0-9]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])")
_HUMP_IN_INDEX = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_DIGITS = re.compile(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_UNCHANGED = frozenset({"series", "species", "news"})
_IN_IE = frozenset({"movies", "calories", "cookies", "ties", "pies", "zombies", "selfies"})


def humps(run: str, *, stem: bool = False) -> list[str]:
    """A run of letters and digits, taken apart where ``camelCase`` and ``HTTPStatus`` begin a new word.

    Args:
        run: letters and digits alone.
        stem: for an index, where the ``s`` of ``APIs`` is not seen as a plural's: the indexes that are stored hold
            such words, and a query must be taken apart as they were.
    """
    return (_HUMP_IN_INDEX if stem else _HUMP).split(run)


def split(name: str, *, digits: bool = False) -> tuple[str, ...]:
    """The words of an identifier in lower case: ``fromCityIDs`` and ``from_city_ids`` are ``from city ids``.

    Args:
        name: an identifier, or any text; what is no ASCII letter or digit sets words apart.
        digits: take numbers as words of their own, for tables of words that must know ``password1`` and ``temp2m``.
    """
    words = (part for run in _RUN.findall(name) for part in humps(run))
    if digits:
        words = (part for word in words for part in _DIGITS.split(word))
    return tuple(word.lower() for word in words)


@lru_cache(maxsize=16_384)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a name in lower case, singular: ``fromCityIds`` is ``from city id``."""
    return tuple(map(singular, split(name)))


def singular(word: str, *, stem: bool = False) -> str:
    """The singular of an English plural; any other word as it is.

    Args:
        word: in lower case.
        stem: for an index, where a plural and its singular only have to meet in one word, which need be no English:
            ``movie`` and ``movies`` become ``movy``. Short words and those of other scripts stay as they are there.
    """
    if stem:
        if len(word) <= 3 or not word.isascii():
            return word
        if word.endswith("ie"):
            return word[:-2] + "y"
        if word.endswith(("sses", "shes", "ches", "xes", "zes")):
            return word[:-2]
    elif word in _UNCHANGED:
        return word
    elif word in _IN_IE:
        return word[:-1]
    if word.endswith("ies") and (stem or len(word) > 4):
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 2:
        return word[:-1]
    return word


def is_plural(name: str) -> bool:
    """Whether a name stands for several things: ``language_codes``."""
    return not name.lower().endswith(words_of(name)[-1:] or ("",))


def is_identifier(name: str, kinds: frozenset[str] = THINGS | HANDED_OUT | REGISTERED | LABELS) -> bool:
    """Whether a name is that of an identifier, by its last word.

    Args:
        name: of a field or a parameter.
        kinds: the last words that count; a union of the sets of this module.
    """
    return not kinds.isdisjoint(words_of(name)[-1:])
