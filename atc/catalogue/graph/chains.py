"""Chains: reads that together tell what one that breaks told, where no single tool does (NaviAgent §3.3).

``weather_by_city(city)`` is down; ``geocode(city)`` gives the coordinates of which ``weather_at(latitude, longitude)``
tells the same. The last tool of a chain has every field that was read of the broken one, of the same thing. Its
arguments are those of the broken call, or come from the chain's other tools, which the exact search finds
(:mod:`atc.catalogue.graph.search`). As of substitutes, types and meaning are the evidence. A chain reaches farther than
a pair of tools, so more is asked of it:

- all tools read, and every required argument of the broken call has its place in the chain, so that it is about the
  thing that was asked about;
- a field that feeds is one of the thing itself, at a known place; of a list it is taken only where the list was looked
  up by a name, or the item is the one that the run has already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from atc._records.records import Effect
from atc.catalogue.graph.concepts import Concept
from atc.catalogue.graph.edges import Feed, Path
from atc.catalogue.graph.search import ToolPath, best_paths
from atc.catalogue.graph.substitutes import (
    LEAST_RESPONSE,
    MAX_COMPARED,
    MAX_NEAR,
    Responses,
    are_of_other_things,
    covered,
    index_of,
    paired,
    said_of,
)
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.schemas.identifiers import GENERIC, THINGS, is_identifier
from atc.schemas.protocol import Protocol, parameters_of

MOST = 2
"""Chains that are named for one tool."""
MAX_TOOLS = 4
"""Tools of one chain."""
MAX_TARGETS, MAX_REACHED, MAX_PATHS, BUDGET = 8, 80, 4, 2_000
"""Tools that a chain may end with, tools before it that are looked at, paths to each, and steps of each search."""

_KEYS = THINGS | {"pk", "identifier", "identifying", "identifies"}
"""Words of arguments that are a key, whatever they are called."""

Items = Collection[tuple[str, Path]]
"""Items of earlier responses: the tool that gave each, and its place, where ``[]`` is some item of a list."""


@dataclass(frozen=True)
class Chain:
    """Reads that are called one after the other in the place of one that broke.

    Attributes:
        tools: the keys, in order; the last one tells what the broken one told.
        arguments: by tool, for its parameters those of the broken one that mean the same; by original names.
        feeds: what the parameters take from the tools before, or from earlier calls of the run.
        cost: as :mod:`atc.catalogue.graph.search` counts it.
    """

    tools: tuple[str, ...]
    arguments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    feeds: tuple[Feed, ...] = ()
    cost: float = 0.0


def chains_of(
    graph: ToolGraph,
    tool: str,
    reads: Collection[Path] = (),
    *,
    usable: Callable[[str], bool] = lambda key: True,
    held: Mapping[str, Items] | None = None,
) -> tuple[Chain, ...]:
    """Return the chains that can take a read's place, the cheapest first; at most :data:`MOST`.

    Args:
        graph: the tools, and what was learnt of them.
        tool: the key of the read that broke. Of a tool that may write there is none.
        reads: the fields of its response that are needed; all of them when not given.
        usable: returns whether a tool may be called.
        held: by the name of an argument of the broken call, the items of the run's earlier responses that have its
            value: other fields of such an item are about the same thing.
    """
    if tool not in graph.protocols or graph.protocols[tool].effect is not Effect.READ:
        return ()
    search = _Search(graph, tool, usable, held or {})
    found = [chain for target in search.targets(reads) for chain in search.to(target)]
    chosen: dict[tuple[str, ...], Chain] = {}
    for each in sorted(found, key=lambda chain: (chain.cost, len(chain.tools), chain.tools)):
        if not any(set(known) <= set(each.tools) for known in chosen):
            chosen[each.tools] = each
    return tuple(chosen.values())[:MOST]


class _Search:
    """The search for chains in one tool's place; to :func:`best_paths` it is the graph, of usable reads alone."""

    def __init__(self, graph: ToolGraph, tool: str, usable: Callable[[str], bool], held: Mapping[str, Items]) -> None:
        self._graph, self._tool, self._usable = graph, tool, usable
        self._index: Responses = index_of(graph)
        self._held = {item: parameter for parameter, items in held.items() for item in items}
        self._free = {key for key, _ in self._held}
        self._given: dict[str, Mapping[str, str]] = {}
        self._named: dict[str, frozenset[str]] = {}
        self._feeds: dict[str, Sequence[Feed]] = {}
        self._left = MAX_COMPARED
        near = self._index.near(tool) if len(graph.protocols) > MAX_NEAR else ()
        self._near = graph.only(near) if near else graph

    @property
    def protocols(self) -> Mapping[str, Protocol]:
        return self._near.protocols

    def feeds(self, consumer: str) -> Sequence[Feed]:
        """Return the edges into a tool from usable reads that give the thing itself."""
        if consumer not in self._feeds:
            self._feeds[consumer] = [each for each in self._near.told_feeds(consumer) if self._may_feed(each)]
        return self._feeds[consumer]

    def targets(self, reads: Collection[Path]) -> list[str]:
        """Return the tools that tell all that is needed, of the same thing, the likeliest first."""
        index, found = self._index, list[str]()
        wanted = index.told(self._tool, reads)
        for by in index.candidates(self._tool):
            if len(found) == MAX_TARGETS or not self._may_call(by) or by not in self.protocols:
                continue
            self._left -= index.pairs(self._tool, by)
            if self._left <= 0:
                break
            if are_of_other_things(self._graph, self._tool, by):
                continue
            there = index.told(by)
            same = [[other for other in there if each.owner & other.owner] for each in wanted]
            if wanted and min(covered([each], some) for each, some in zip(wanted, same, strict=True)) >= LEAST_RESPONSE:
                found.append(by)
        return found

    def to(self, target: str) -> list[Chain]:
        """Return the chains that end with a tool."""
        have = self._have(target)
        if have is None:
            return []
        paths = best_paths(self, target, [*have, *self._free], k=MAX_PATHS, budget=BUDGET)
        return [chain for path in paths if (chain := self._chain(path, have)) is not None]

    def _have(self, target: str) -> list[str] | None:
        """Return the parameters, of what leads to a tool, that the broken call gives or a program chooses."""
        have, reached = list[str](), [target]
        for key in reached:  # it grows
            if len(reached) > MAX_REACHED or self._left <= 0:
                return None
            given = self._given_of(key)
            chosen = [each.name for each in self._index.parameters(key) if each.members or each.types == {"boolean"}]
            have += [f"{key}.{name}" for name in dict.fromkeys((*given, *chosen))]
            before = [each.supplier.tool for each in self.feeds(key) if each.parameter not in given]
            reached += [each for each in dict.fromkeys(before) if each not in reached and each not in self._free]
        return have

    def _chain(self, path: ToolPath, have: Collection[str]) -> Chain | None:
        """Return a path as a chain, if all its arguments are there and all of the broken call is used."""
        if path.open or not path.feeds or len(path.tools) > MAX_TOOLS:
            return None
        fed = {(each.consumer, each.parameter) for each in path.feeds}
        arguments = {key: dict(self._given_of(key)) for key in path.tools}
        used = {self._held[item] for each in path.feeds if (item := _item(each)) in self._held}
        for key in path.tools:
            required = [each.original for each in parameters_of(self.protocols[key]) if each.required]
            if not all((key, name) in fed or f"{key}.{name}" in have for name in required):
                return None
            arguments[key] = {name: arguments[key][name] for name in required if name in arguments[key]}
            used |= set(arguments[key].values())
            if not arguments[key] and not any(consumer == key for consumer, _ in fed):
                return None  # its answer is the same whatever was asked
        needed = {each.original for each in parameters_of(self._graph.protocols[self._tool]) if each.required}
        return Chain(path.tools, arguments, path.feeds, path.cost) if needed and needed <= used else None

    def _may_call(self, key: str) -> bool:
        return key != self._tool and self._graph.protocols[key].effect is Effect.READ and self._usable(key)

    def _may_feed(self, feed: Feed) -> bool:
        """Return whether a program may take a value from there without choosing among things."""
        supplier = feed.supplier
        if supplier.inside or not supplier.path or supplier.tool not in self._graph.protocols:
            return False
        if supplier.tool in self._free:
            return _item(feed) in self._held
        if not self._may_call(supplier.tool) or feed.standing > 0:
            return False
        if "[]" in supplier.path:
            return bool(self._selecting(feed) & self._named_by(supplier.tool))
        return bool(self._selecting(feed)) or not self._given_of(supplier.tool)

    def _selecting(self, feed: Feed) -> frozenset[str]:
        """Return the arguments by which a supplier selects what it gives: what its consumer is given too does not, as
        the tenant or the version that all tools of a service take."""
        given, too = self._given_of(feed.supplier.tool), set(self._given_of(feed.consumer).values())
        return frozenset(name for name, of_broken in given.items() if of_broken not in too)

    def _given_of(self, key: str) -> Mapping[str, str]:
        """Return the required parameters of a tool that an argument of the broken call fills, each with that one."""
        if key not in self._given:
            self._match(key)
        return self._given[key]

    def _named_by(self, key: str) -> frozenset[str]:
        """Return those of them by whose name the tool looks something up."""
        if key not in self._named:
            self._match(key)
        return self._named[key]

    def _match(self, key: str) -> None:
        given, wanted = self._index.parameters(self._tool), self._index.parameters(key)
        self._left -= len(given) * len(wanted)
        foreign, said = self._index.foreign(self._tool, key), said_of(self._graph, self._tool, key)
        pairs = [(wanted[b], given[a]) for a, b, _ in paired(given, wanted, foreign, said) if wanted[b].required]
        same = [(one, other) for one, other in pairs if _is_one_thing(one, other)]
        self._given[key] = {one.name: other.name for one, other in same}
        self._named[key] = frozenset(one.name for one, other in same if _is_name(one) and _is_name(other))


def _is_one_thing(one: Concept, other: Concept) -> bool:
    """Return whether two arguments are of one thing: an id is no name, and an airport's name is not that of a city."""
    if is_identifier(one.name, THINGS) != is_identifier(other.name, THINGS):
        return False
    return one.words != other.words or not GENERIC.issuperset(one.words) or bool(one.owner & other.owner)


def _is_name(argument: Concept) -> bool:
    """Return whether an argument is the words by which people call a thing, and no code or number of it."""
    told = argument.described | set(argument.words)
    return "string" in argument.types and not argument.members and not is_identifier(argument.name) and not told & _KEYS


def _item(feed: Feed) -> tuple[str, Path]:
    return feed.supplier.tool, feed.supplier.path[:-1]
