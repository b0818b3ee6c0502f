"""Consumers: tools that take what found tools hand out, and tell more of the thing.

A task asks for a thing by its name ("How many people live in Lyon?"), and its words find what looks the thing up. What
tells of the thing (``get_city(city_id)``) may share no word with the task: the graph leads to it, forwards from the
identifier in a found tool's response. It is the other direction of :mod:`atc_research.toolqp.prerequisites`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from atc import Effect, Protocol
from atc.plugins.learning import (
    VERBS,
    Feed,
    Scope,
    ToolGraph,
    ToolIndex,
    fields_of,
    is_handed_out,
    is_identifier,
    parameters_of,
    service_of,
    words_of,
)
from atc_research.toolqp.prerequisites import beside

SOURCES = 6
"""Found tools whose responses are followed: the likeliest."""
CANDIDATES = 40
"""Tools of one service that are looked at: the likeliest by the task's words, and the names of what is handed out."""
MOST_SERVICES = 3
"""Services in which consumers are sought: those of the likeliest tools."""
_MOST_WORDS = 200
"""Words of names that one search is made of."""
_KEPT = 1_000  # protocols that are not read again


@dataclass(frozen=True)
class Consumer:
    """A tool that takes what a found one hands out.

    Attributes:
        tool: the tool that takes it. ``parameter``: the argument's name.
        supplier: the found tool.
        proven: runs have shown it, or the user has said so.
        effect: of the tool.
    """

    tool: str
    parameter: str
    supplier: str
    proven: bool = False
    effect: Effect = Effect.UNKNOWN


class Consumers:
    """Finds consumers in one index.

    Args:
        index: of the tools.
        graph: what was learnt of them, by their ids in the index.
    """

    def __init__(self, index: ToolIndex, graph: ToolGraph | None = None) -> None:
        self._index = index
        self._graph = graph or ToolGraph(())
        self._protocol = lru_cache(maxsize=_KEPT)(index.protocol)

    def of(self, found: Sequence[str], task: str, near: Sequence[str] = ()) -> list[Consumer]:
        """Return the tools that take what found ones hand out, the likeliest first; of each one edge.

        Args:
            found: ids of tools, the likeliest first.
            task: the user's words.
            near: ids of tools, the nearest to the task first; of two equal ones that comes first which is nearer.
        """
        services: dict[str, list[str]] = {}
        for tool in found[:SOURCES]:
            services.setdefault(service_of(tool, self._protocol(tool)), []).append(tool)
        made: dict[str, tuple[tuple[bool, bool, bool, int, int], Consumer]] = {}
        places = {id: place for place, id in enumerate(near)}
        known = set(found)
        for service, sources in list(services.items())[:MOST_SERVICES]:
            candidates = [id for id in self._candidates(sources, task, near) if id not in known]
            graph = self._graph_of(service, [*sources, *candidates])
            for number, id in enumerate(candidates):
                if (each := self._by(graph, id, sources)) is not None:
                    first = not each.proven, each.effect is not Effect.READ, not self._tells_of(graph, each)
                    made.setdefault(id, ((*first, places.get(id, len(places)), number), each))
        return [each for _, each in sorted(made.values(), key=lambda pair: pair[0])]

    def _candidates(self, sources: Sequence[str], task: str, near: Sequence[str]) -> Iterator[str]:
        handed_out = dict.fromkeys(word for tool in sources for word in _handed_out(self._protocol(tool)))
        words = " ".join([*handed_out][:_MOST_WORDS])
        found = beside(self._index, sources[0], words, CANDIDATES) if words else []
        service = service_of(sources[0], self._protocol(sources[0]))
        taught = [
            consumer
            for tool, _, consumer, _ in (*self._graph.learnt.feeds, *self._graph.learnt.corrected_feeds)
            if tool in sources and consumer in self._index
        ]
        nearby = [id for id in near if service_of(id, self._protocol(id)) == service]
        yield from dict.fromkeys([*taught[:CANDIDATES], *nearby[:CANDIDATES], *found])

    def _by(self, graph: ToolGraph, tool: str, sources: Sequence[str]) -> Consumer | None:
        """Return the surest edge from found tools into a tool; ``None`` where it needs what none of these hands out."""
        protocol = self._protocol(tool)
        needed = [p.original for p in parameters_of(protocol) if p.required and is_handed_out(p.original, p.schema)]
        into: Mapping[str, Feed] = {
            each.parameter: each for each in reversed(graph.told_feeds(tool)) if each.supplier.tool in sources
        }
        taken = [into[parameter] for parameter in needed if parameter in into]
        if not taken or len(taken) < len(needed):
            return None
        best = min(taken, key=lambda each: sources.index(each.supplier.tool))
        proven = best.evidence in ("corrected", "seen")
        return Consumer(tool, best.parameter, best.supplier.tool, proven, protocol.effect)

    def _tells_of(self, graph: ToolGraph, consumer: Consumer) -> bool:
        """Return whether a tool is of the thing itself that its argument names: ``get_city(city_id)``."""
        facts = graph.structure.facts(consumer.tool)
        subject = [word for word in words_of(facts.protocol.plain_name) if word not in VERBS]
        return len(facts.arguments) == 1 and subject[-1:] == [*facts.wanted(consumer.parameter).things[-1:]] != []

    def _graph_of(self, service: str, tools: Iterable[str]) -> ToolGraph:
        protocols = {id: self._protocol(id) for id in tools}
        return self._graph.of(protocols, {id: Scope(service, False) for id in protocols})


def _handed_out(protocol: Protocol) -> Iterator[str]:
    """Yield the words of the identifiers in a response, and of the tool's own name: what its ``id`` is of."""
    names = dict.fromkeys(path[-1] for path in fields_of(protocol.returns) if is_identifier(path[-1]))
    for name in names:
        yield from words_of(name)
    if names:
        yield from words_of(protocol.name)
