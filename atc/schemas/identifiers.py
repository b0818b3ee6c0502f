"""Identifiers: the words of a name, their singular form, and whether a name is that of an identifier.

All who read names use these: the tool graph, checks of programs, schema inference, probing and the search index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from atc.schemas.protocol import Protocol

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


_IN_ES = ("sses", "shes", "xes", "tches", "nches", "rches", "eaches", "oaches")
"""Endings of plurals in ``es``: addresses, boxes, branches; not of caches."""


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
    elif len(word) > 4 and word.endswith(_IN_ES):
        return word[:-2]
    if word.endswith("ies") and (stem or len(word) > 4):
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 2:
        return word[:-1]
    return word


def is_plural(name: str) -> bool:
    """Whether a name stands for several things: ``language_codes``."""
    return not name.lower().rstrip("_").endswith(words_of(name)[-1:] or ("",))


def is_identifier(name: str, kinds: frozenset[str] = THINGS | HANDED_OUT | REGISTERED | LABELS) -> bool:
    """Whether a name is that of an identifier, by its last word.

    Args:
        name: of a field or a parameter.
        kinds: the last words that count; a union of the sets of this module.
    """
    return not kinds.isdisjoint(words_of(name)[-1:])


# ----------------------------------------------------------------------------------------------------------------------
# Name affinity: how likely a field of a response supplies a parameter, by their names alone.
#
# One measure for all who look for the data flow between tools: the hints in stubs, and the values that probing has
# seen.


GENERIC = frozenset({"id", "ids", "key", "code", "name", "slug", "uuid", "number", "value", "ref", "reference"})
QUALIFIERS = frozenset({
    "from", "to", "origin", "destination", "source", "target", "start", "end", "first", "second", "new", "old", "by",
    "of", "the", "other", "parent", "base", "my",
})  # fmt: skip
VERBS = frozenset({
    "get", "list", "find", "search", "fetch", "read", "show", "query", "lookup", "all", "by", "detail", "info", "data",
    "item", "result", "response", "the", "of", "for", "in", "api", "v1", "v2",
})  # fmt: skip
"""Words of tools' names that tell nothing of the things that the tools are about."""
_SHORT = {"lat": "latitude", "lng": "longitude", "lon": "longitude"}
CONTAINERS = frozenset(
    {"result", "item", "data", "list", "record", "entry", "value", "hit", "content", "response", "row"}
)
"""Names of fields that hold things of any kind: of which kind, the tool's name tells."""


def owner_of(above: Sequence[str], tool: str) -> frozenset[str]:
    """Words for the thing that a field belongs to.

    Args:
        above: the names of the fields that it lies in, the outermost first.
        tool: the supplier; its name counts where no name above tells anything.
    """
    telling = [words for name in above if not CONTAINERS.issuperset(words := words_of(name))]
    return frozenset(telling[-1] if telling else words_of(tool))


@lru_cache(maxsize=100_000)
def affinity(parameter: str, tool: str, field: str, owner: frozenset[str]) -> float:
    """From 0 to 1: how likely a field of a response supplies a parameter of a tool, by their names alone.

    ``city_id`` ↔ ``city_id`` 1; ``from_city_id`` ↔ ``city_id`` 0.9; ``city_id`` ↔ ``id`` of a city 0.85; ``name`` of
    ``find_countries`` ↔ ``name`` of a country 0.6.
    """
    wanted, has = spelled_words(parameter), spelled_words(field)
    if not wanted or not has:
        return 0.0
    core = bare(wanted)
    specific = [word for word in core if word not in GENERIC]
    if wanted == has or core == has:
        if specific:
            return 1.0 if wanted == has else 0.9
        things = owner - VERBS  # a bare `id` or `name` of one thing: the tool must name more than half of its words
        return 0.6 if 2 * len(things & frozenset(words_of(tool))) > len(things) else 0.0
    if specific and has[-1:] == core[-1:] and core[-1] in GENERIC and set(has) <= GENERIC:
        return 0.85 if set(specific) & owner else 0.0
    if len(core) < len(has) and has[-len(core) :] == core and specific:
        return 0.7  # `country_code` ↔ `home_country_code`
    if len(has) < len(core) and core[-len(has) :] == has and not set(has) <= GENERIC:
        return 0.7
    if core[-2:] == has[-2:] and core[-1] in GENERIC and core[-2] not in GENERIC:
        return 0.65  # `pick_up_place_id` ↔ `google_place_id`
    if len(core) == 1 and core[0] not in GENERIC and set(has) <= GENERIC and core[0] in owner:
        return 0.5  # `currency` ↔ `code` of a currency
    return 0.0


def endings(parameter: str) -> frozenset[str]:
    """The last words, of which a field's name must have one to have an affinity above one half to a parameter."""
    wanted = spelled_words(parameter)
    return frozenset([*wanted[-1:], *[word for word in wanted if word not in QUALIFIERS][-1:]])


def ending(field: str) -> str:
    """The last word of a field's name; see :func:`endings`."""
    return "".join(_spelled_out(words_of(field)[-1:]))


def bare(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words of a name without those that tell which of several is meant: ``city id`` of ``from city id``."""
    return tuple(word for word in words if word not in QUALIFIERS) or words


@lru_cache(maxsize=16_384)
def spelled_words(name: str) -> tuple[str, ...]:
    """The words of a name as affinities compare them: ``lat`` is ``latitude``."""
    return _spelled_out(words_of(name))


def _spelled_out(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_SHORT.get(word, word) for word in words)


# ----------------------------------------------------------------------------------------------------------------------
# Mentions: the suppliers that a parameter's description names, as in "the id returned by Search Users".
#
# A description often states what the schemas do not. Its words are data: all they decide is which tool is a supplier.


MAX_TEXT = 1_000
"""Characters of a description that are read."""
_SOURCE_WORDS = re.compile(r"\b(?:from|by|via|using|use|see|call)\b", re.I)
_AS_CODE = re.compile(r"(?<=`)\w+(?=`)|\b\w+(?=\()")
_Words = tuple[str, ...]


class Mentions:
    """Finds names of tools in texts.

    Args:
        tools: the tools by key; a name may repeat from service to service.
        services: by key, the service of each.
    """

    def __init__(self, tools: Mapping[str, Protocol], services: Mapping[str, str]) -> None:
        self._called: dict[_Words, dict[str, str]] = {}  # the tools of that name, the first of each service
        self._single: dict[str, dict[str, str]] = {}  # likewise; one word alone may mean anything: only as code
        self._longest: dict[str, int] = {}  # by the first word, the words of the longest name
        for key, protocol in tools.items():
            for name in _names_of(protocol):
                if len(words := words_of(name)) == 1:
                    self._single.setdefault(name, {}).setdefault(services[key], key)
                elif words:
                    self._called.setdefault(words, {}).setdefault(services[key], key)
                    self._longest[words[0]] = max(self._longest.get(words[0], 0), len(words))

    def suppliers(self, description: object, service: str) -> set[str]:
        """The keys of the tools that a description names where it states the source of a value.

        Args:
            description: of a parameter; anything but text names nothing.
            service: of the tool that the parameter is of; among tools of one name its own is meant.
        """
        text = description[:MAX_TEXT] if isinstance(description, str) else ""
        if not _SOURCE_WORDS.search(text):
            return set()
        as_code = (self._single[name] for name in _AS_CODE.findall(text) if name in self._single)
        return {*self._named(words_of(text), service), *(_nearest(called, service) for called in as_code)}

    def _named(self, words: _Words, service: str) -> Iterator[str]:
        """The tools that a text names; of two names that begin at one place the longer counts."""
        at = 0
        while at < len(words):
            lengths = range(self._longest.get(words[at], 0), 1, -1)
            name = next((words[at : at + n] for n in lengths if words[at : at + n] in self._called), None)
            if name is not None:
                yield _nearest(self._called[name], service)
            at += len(name) if name is not None else 1


def _nearest(called: Mapping[str, str], service: str) -> str:
    return called.get(service) or next(iter(called.values()))


def _names_of(protocol: Protocol) -> tuple[str, str]:
    return protocol.name, protocol.source.operation


def names_a_supplier(schema: Mapping[str, object]) -> bool:
    """Whether the description of a parameter may say where its value comes from."""
    text = schema.get("description")
    return isinstance(text, str) and _SOURCE_WORDS.search(text[:MAX_TEXT]) is not None
