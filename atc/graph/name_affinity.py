"""Name affinity: how likely a field of a response supplies a parameter, by their names alone.

One measure for all who look for the data flow between tools: the hints in stubs, and the values that probing has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from atc.graph.identifiers import words_of

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
