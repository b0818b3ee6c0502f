"""Prerequisites: tools that supply the identifiers which found tools require and which nothing else supplies.

A task seldom names the look-up that turns a name into an id. ToolQP leaves it to the planner to see that (§3.1); here
it is read off the protocols. For each required identifier that neither the task nor a found tool's response supplies,
it is the tool that the description names, or whose response has the identifier, or whose name is that of a look-up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from atc import Effect, Protocol
from atc.plugins.learning import (
    GENERIC,
    NAMES,
    VERBS,
    Feed,
    Parameter,
    Scope,
    Supplier,
    ToolGraph,
    ToolIndex,
    is_handed_out,
    names_a_supplier,
    parameters_of,
    service_of,
    words_of,
)

CANDIDATES = 40
"""Tools that are looked at for one argument: the likeliest by their words."""
_OF_PAGES = frozenset({"page", "cursor", "next", "offset", "after", "before"})
_METHODS = frozenset({"post", "put", "delete", "patch"})
SURE = 6
"""Prerequisites are sought for so many of the likeliest tools that were found."""
MOST = 6
"""Providers that are added to what was found."""
MOSTLY = 0.5
"""Share of the arguments of a parameter that other tools supplied, from which one of them is sought."""
_KEPT = 1_000  # protocols that are not read again
_LOOKUP_VERBS = (
    frozenset({"search", "find", "lookup", "query", "resolve"}),
    frozenset({"list", "all"}),
    frozenset({"get"}),
)
"""Verbs of tools that look things up, the surest first."""
_WORD = re.compile(r"[\w-]+")
_VALUE = re.compile(r"(?=.*\d).{3,}|[A-Z]{3,}")
"""A word that may be an identifier: with digits in it, or of capitals."""
_DATE = re.compile(r"(?:19|20)\d\d(?:-\d\d){0,2}")
_BEFORE, _AFTER = 2, 4
"""Words from what may be an argument's value to its name: "BA123 as flight", "the flight with the id BA123"."""
_MOST_TEXT = 20_000
"""Characters of a task that are looked at."""


@dataclass(frozen=True)
class Prerequisite:
    """A tool that supplies an argument which nothing found so far supplies.

    Attributes:
        tool: the tool that takes it. ``parameter``: the argument's name.
        provider: the tool that can supply it.
        supplier: the path to the value in its response; ``None`` where only its name suggests it.
        required: whether each call has to give it; else it is one of several, of which none is required.
    """

    tool: str
    parameter: str
    provider: str
    supplier: Supplier | None = None
    required: bool = True

    def __str__(self) -> str:
        source = self.supplier.render() if self.supplier is not None else self.provider
        return f"{self.tool} {'needs' if self.required else 'may take'} {self.parameter}: {source} supplies it"


def beside(index: ToolIndex, id: str, query: str, limit: int) -> list[str]:
    """Search by words among the other tools of a tool's service, and return their ids, the likeliest first."""
    service, found = service_of(id, index.protocol(id)), list[str]()
    for hit in index.search(query, max(1, len(index)), "lexical"):
        own = hit.id.rpartition("/")[0] or service_of(hit.id, index.protocol(hit.id))
        if own == service and hit.id != id:
            found.append(hit.id)
            if len(found) == limit:
                break
    return found


class Prerequisites:
    """Finds prerequisites in one index.

    Args:
        index: of the tools.
        graph: what was learnt of them, by their ids in the index. Suppliers that runs have shown come first.
    """

    def __init__(self, index: ToolIndex, graph: ToolGraph | None = None) -> None:
        self._index = index
        self._graph = graph or ToolGraph(())
        self._protocol = lru_cache(maxsize=_KEPT)(index.protocol)

    def of(self, found: Sequence[str], task: str) -> list[Prerequisite]:
        """Return the prerequisites of found tools, and of their providers; one provider for each tool and parameter.

        Args:
            found: ids of tools, the likeliest first.
            task: the user's words; an identifier in them supplies an argument that they name.
        """
        tools, sought = list(found), []
        for tool in tools:  # it grows: a provider has prerequisites too
            if len(tools) > len(found) + MOST:
                break
            for prerequisite in self._of(tool, tools, task):
                sought.append(prerequisite)
                tools.append(prerequisite.provider)
        return sought

    def _of(self, tool: str, have: Sequence[str], task: str) -> Iterator[Prerequisite]:
        protocol = self._protocol(tool)
        wanted, one_suffices = _wanted(protocol)
        wanted += self._taught(tool, [p for p in parameters_of(protocol) if p.required and p not in wanted])
        if not wanted:
            return
        supplied = self._graph_of(tool, have).suppliers_into(tool)
        taken: set[str] = set()
        for parameter in wanted:
            suppliers = supplied.get(parameter.original, ())
            if any(self._can_supply(each, task) for each in suppliers) or _in_task(parameter, task):
                if one_suffices:
                    return
                continue
            sought = self._provided(tool, protocol, parameter)
            if sought is not None and sought.provider not in {*have, *taken}:
                taken.add(sought.provider)
                yield sought
                if one_suffices:
                    return

    def _taught(self, tool: str, parameters: Sequence[Parameter]) -> list[Parameter]:
        found = []
        for parameter in parameters:
            taught = [id for id in self._graph.suppliers_taught(tool, parameter.original) if id in self._index]
            feeds = self._graph_of(tool, taught).feeds(tool) if taught else ()
            if sum(f.weight for f in feeds if f.parameter == parameter.original and _is_proven(f)) >= MOSTLY:
                found.append(parameter)
        return found

    def _graph_of(self, tool: str, others: Iterable[str]) -> ToolGraph:
        """In a catalogue a function takes what functions give alone, though its values may serve any tool."""
        protocols = {id: self._protocol(id) for id in (tool, *others)}
        scopes = {
            id: Scope(service_of(id, each), open=id != tool and each.source.in_process)
            for id, each in protocols.items()
        }
        return self._graph.of(protocols, scopes)

    def _provided(self, tool: str, protocol: Protocol, parameter: Parameter) -> Prerequisite | None:
        """Return the likeliest provider of the same service: identifiers mean nothing elsewhere."""
        about = [word for word in words_of(parameter.original) if word not in GENERIC] or sorted(_subject(protocol))
        queries = [" ".join((*about, *words_of(parameter.original)))]
        if names_a_supplier(parameter.schema):
            queries.append(parameter.schema["description"])
        found = [beside(self._index, tool, query, CANDIDATES) for query in queries]
        hits = [id for each in found for id in each]
        taught = [id for id in self._graph.suppliers_taught(tool, parameter.original) if id in self._index]
        ranks = {id: rank for rank, id in enumerate(dict.fromkeys([*hits, *taught]))}
        feeds: dict[str, Feed] = {}
        for feed in self._graph_of(tool, ranks).told_feeds(tool):
            if feed.parameter == parameter.original:
                feeds.setdefault(feed.supplier.tool, feed)
        if feeds:
            best = min(feeds.values(), key=lambda each: (*_standing(each), *self._effort(each.supplier, ranks)))
            return Prerequisite(tool, parameter.original, best.supplier.tool, best.supplier, parameter.required)
        if not is_handed_out(parameter.original, parameter.schema):
            return None
        by_name = [
            (unlikeness, id)
            for id in ranks
            if (unlikeness := _lookup_unlikeness(self._protocol(id), about)) is not None
        ]
        if not by_name:
            return None
        return Prerequisite(tool, parameter.original, min(by_name)[-1], required=parameter.required)

    def _effort(self, supplier: Supplier, ranks: Mapping[str, int]) -> tuple[int, int]:
        """Return how far a supplier is from the argument: what its call needs, and how likely its words are."""
        return _asked_of(self._protocol(supplier.tool)), ranks[supplier.tool]

    def _can_supply(self, supplier: Supplier, task: str) -> bool:
        """A field that only refers to a thing supplies it where the thing exists already: the customer of an order that
        the task names, and not the city of a stop on a trip that the program is about to make."""
        if not supplier.refers:
            return True
        protocol = self._protocol(supplier.tool)
        required = [p for p in parameters_of(protocol) if p.required and _may_be_supplied(p)]
        return protocol.effect is not Effect.WRITE and all(_in_task(p, task) for p in required)


def _standing(feed: Feed) -> tuple[int, bool, float]:
    """Sorts what the user set before all else, then what is nearer to the thing; of these what runs showed, the most
    used first."""
    proven = _is_proven(feed)
    return feed.standing, not proven, -feed.weight if proven else 0.0


def _is_proven(feed: Feed) -> bool:
    return feed.evidence in ("corrected", "seen")


def _wanted(protocol: Protocol) -> tuple[list[Parameter], bool]:
    """Return the arguments that another tool must supply; and whether one suffices, as none is required."""
    parameters = parameters_of(protocol)
    given = [p for p in parameters if _may_be_supplied(p)]
    if any(p.required for p in parameters):
        return [p for p in given if p.required], False
    return [p for p in given if not _OF_PAGES & set(words_of(p.original))], True


def _may_be_supplied(parameter: Parameter) -> bool:
    return is_handed_out(parameter.original, parameter.schema) or names_a_supplier(parameter.schema)


def _asked_of(protocol: Protocol) -> int:
    """Return the required arguments that are no plain names: the fewer, the sooner a program can call the tool."""
    return sum(p.required and not NAMES & set(words_of(p.name)[-1:]) for p in parameters_of(protocol))


def _subject(protocol: Protocol) -> frozenset[str]:
    return frozenset(words_of(protocol.name)) - VERBS


def _lookup_unlikeness(protocol: Protocol, about: Sequence[str]) -> tuple[int, int] | None:
    """Return the distance of a tool's name from a look-up of such a thing; ``None`` where it is no look-up.

    Its response must be unknown, and it must need no identifier itself. ``search_movie`` is more alike than
    ``list_movies``, and ``get_movie_genres`` less.
    """
    words = {word for word in words_of(protocol.name) if not word.isdigit()}
    verb = next((place for place, verbs in enumerate(_LOOKUP_VERBS) if verbs & words), None)
    identifiers = [p for p in parameters_of(protocol) if p.required and is_handed_out(p.original, p.schema)]
    if protocol.returns is not None or verb is None or identifiers:
        return None
    rest = words - VERBS - _METHODS
    if set(about) & words:
        return verb, len(rest - set(about))
    if not rest and verb == 0:
        return verb, 1  # one search for things of all kinds
    return (verb, 1) if "user" in about and rest == {"me"} else None


def _in_task(parameter: Parameter, task: str) -> bool:
    """Return whether a task names the argument, and close by something that may be its value."""
    name = [word for word in words_of(parameter.original) if word not in GENERIC] or words_of(parameter.original)
    return all(any(near.startswith(word) for near in _beside_values(task)) for word in name)


@lru_cache(maxsize=8)
def _beside_values(task: str) -> frozenset[str]:
    words = [word.strip("-_") for word in _WORD.findall(task[:_MOST_TEXT])]
    values = [at for at, word in enumerate(words) if _VALUE.fullmatch(word) and not _DATE.fullmatch(word)]
    close = {at + step for at in values for step in range(-_AFTER, _BEFORE + 1)}
    return frozenset(words[at].casefold() for at in close if 0 <= at < len(words))
