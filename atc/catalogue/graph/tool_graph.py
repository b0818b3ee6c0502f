"""The tool graph: what feeds what, what was used together, and what would do instead (NaviAgent §3.2).

Structure is read off the protocols (:mod:`atc.catalogue.graph.structure`); behaviour comes from runs
(:class:`Learnt`). One graph serves all who ask: hints in stubs, the check, repairs, prerequisites, substitutes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import get_args

from atc._host.lazy import lazy
from atc.catalogue.graph.edges import NOTHING_LEARNT, Counts, Evidence, Feed, Learnt, Path, Substitute
from atc.catalogue.graph.layers import layers_of, shifted
from atc.catalogue.graph.structure import Structure
from atc.catalogue.graph.suppliers import Scope, Supplier, Suppliers, has_place, hints_from, hints_inside
from atc.catalogue.graph.tool_facts import ToolFacts, writers
from atc.catalogue.graph.weights import WORTH, reliability, weight_of
from atc.schemas.observed import says_nothing, with_shape
from atc.schemas.protocol import JsonSchema, Protocol

_End = tuple[str, tuple[str, Path]]
"""A parameter of a consumer, and a tool with the place of a field in its response."""
_SUREST: tuple[Evidence, ...] = get_args(Evidence)
LEAST_PREDICTED = 0.5
"""Weight from which a predicted edge is one."""
MAX_TAUGHT = 500
"""Learnt edges into one tool that count: a store from elsewhere may hold any number."""
MAX_READ = 4_000
"""Protocols of which it is kept what was read."""
MAX_PARTS = 4
"""Graphs of some of the tools that are kept: the next run is likely to be offered the same."""
LEAST_TRUST = 0.5
"""Reliability below which a supplier stands behind all others: it failed more often than not."""
FARTHER = 0.9
"""What a feed weighs at most, beside one that stands nearer to the thing."""
_KNOWN = 2.0
"""Calls of answered runs from which a tool's habit is believed against an edge that documents suggest."""
_OPTIONAL = 0.25
"""What an edge into an optional parameter is worth for the order of tools, beside 1 for a required one."""


class ToolGraph:
    """The graph of some tools. All that it tells is found when it is asked for, of one tool alone where that is asked.

    Args:
        tools: their protocols; by key where names may repeat, as in a catalogue.
        learnt: what runs have taught about them. An edge counts where both tools are there, the parameter exists, and
            the place in the response too: in the schema, or in the shape that was observed.
        scopes: by key, where the scope of a tool is not what its source states.

    Attributes:
        protocols: by key.
    """

    def __init__(
        self,
        tools: Sequence[Protocol] | Mapping[str, Protocol],
        learnt: Learnt = NOTHING_LEARNT,
        *,
        scopes: Mapping[str, Scope] | None = None,
    ) -> None:
        self.protocols = dict(tools) if isinstance(tools, Mapping) else {each.name: each for each in tools}
        self.learnt, self._scopes, self._shared = learnt, scopes, _Shared(learnt)
        self._feeds: dict[str, tuple[Feed, ...]] = {}
        self._parts: dict[tuple[str, ...], ToolGraph] = {}

    @lazy
    def structure(self) -> Structure:
        """What the protocols alone tell, those with an observed shape read with it."""
        return Structure(self.protocols_with_shapes, self._scopes, self._shared.facts)

    @lazy
    def protocols_with_shapes(self) -> Mapping[str, Protocol]:
        """The protocols; those that document no response with the shape that earlier runs observed, marked as such.

        For stubs and for the graph alone: a program is never refused by what was only observed.
        """
        return {key: self._shared.with_shape(key, each) for key, each in self.protocols.items()}

    # -- what feeds what -----------------------------------------------------------------------------------------------

    @lazy
    def suppliers(self) -> Suppliers:
        """For every tool and parameter that others can supply: these, the surest first."""
        return self.suppliers_of(self.protocols)

    @lazy
    def hints(self) -> Mapping[str, Mapping[str, str]]:
        """For every tool, for those of its parameters that others can supply: a short sentence that says so."""
        return hints_from(self.suppliers, writes=writers(self.protocols))

    @lazy
    def hints_inside(self) -> Mapping[tuple[str, str], Mapping[Path, str]]:
        """For every tool and parameter with places inside that others can supply: such a sentence for each place."""
        writes, suppliers = writers(self.protocols), self.suppliers
        inside = (key for key, sources in suppliers.items() if any(each.inside for each in sources))
        return {key: hints_inside(suppliers, *key, writes=writes) for key in inside}

    def suppliers_of(self, consumers: Iterable[str]) -> Suppliers:
        """As :attr:`suppliers`, for some of the tools: of a large catalogue only these few are looked at.

        Args:
            consumers: their keys.

        Raises:
            KeyError: there is no such tool.
        """
        return {(key, parameter): some for key in consumers for parameter, some in self.suppliers_into(key).items()}

    def suppliers_into(self, consumer: str) -> dict[str, list[Supplier]]:
        """For each parameter of a tool that others can supply, by its original name: these, the surest first."""
        found: dict[str, list[Supplier]] = {}
        for feed in self.told_feeds(consumer):
            found.setdefault(feed.parameter, []).append(feed.supplier)
        order = [each.original for each in self.structure.facts(consumer).parameters]
        return {parameter: found[parameter] for parameter in order if parameter in found}

    def feeds(self, consumer: str) -> Sequence[Feed]:
        """The edges into a tool's parameters, the surest first.

        What the user set comes first. Then comes what reads the thing itself, what reads something that refers to it,
        and what writes; of these what runs showed, what documents state, what names suggest, and what was predicted; of
        one kind the heaviest. Last of all stand the tools that fail more often than not.

        Args:
            consumer: the key of the tool.

        Raises:
            KeyError: there is no such tool.
        """
        if (kept := self._feeds.get(consumer)) is None:
            made = self._structural(consumer)
            if self.learnt:
                made = self._with_learnt(consumer, made)
            kept = self._feeds[consumer] = tuple(self._sorted([*made.values(), *self._inside(consumer)]))
        return kept

    def told_feeds(self, consumer: str) -> Sequence[Feed]:
        """The edges that people and models are told of: :meth:`feeds` without those for a search alone.

        Args:
            consumer: the key of the tool.

        Raises:
            KeyError: there is no such tool.
        """
        return [each for each in self.feeds(consumer) if not each.last]

    def _structural(self, consumer: str) -> dict[_End, Feed]:
        return {
            (parameter, (each.supplier.tool, each.supplier.path)): Feed(
                each.supplier, consumer, parameter, each.evidence, WORTH[each.evidence] * each.worth, last=each.last
            )
            for parameter, some in self.structure.into(consumer).items()
            for each in some
        }

    def _inside(self, consumer: str) -> Iterator[Feed]:
        """The edges that protocols tell of to places within arguments; runs teach none of these."""
        for parameter, some in self.structure.inside(consumer).items():
            for each in some:
                end = parameter, (each.supplier.tool, each.supplier.path)
                if self.learnt.corrected_feeds.get(_edge(consumer, end), True):
                    yield Feed(each.supplier, consumer, parameter, each.evidence, WORTH[each.evidence] * each.worth)

    def _with_learnt(self, consumer: str, structural: Mapping[_End, Feed]) -> dict[_End, Feed]:
        """Runs show what was done, and not that it was right: where something reads the thing itself, the id of another
        thing is none, however often it was given. The user's word stands."""
        parameters = {each.original for each in self.structure.facts(consumer).parameters}
        feeds, corrected, predicted = self.learnt.feeds, self.learnt.corrected_feeds, self.learnt.predicted
        itself = {parameter for (parameter, _), each in structural.items() if not each.standing}
        edges = [
            end
            for tool, path, parameter in self._shared.edges_into.get(consumer, ())
            if parameter in parameters and tool != consumer and self._has_place(tool, path)
            if (end := (parameter, (tool, path))) in structural
            or _edge(consumer, end) in corrected
            or parameter not in itself
            or not self.structure.is_of_another(tool, path, consumer, parameter)
        ]
        seen = {end: feeds.get(_edge(consumer, end), Counts()).ok for end in edges}
        supplied: dict[str, float] = defaultdict(float)
        for (parameter, _), times in seen.items():
            supplied[parameter] += times
        calls = self.learnt.calls.get(consumer, Counts()).ok
        made = dict(structural)
        for end in edges:
            parameter, (tool, path) = end
            known = structural.get(end)
            supplier = known.supplier if known else self.structure.supplier(tool, path, consumer, parameter)
            if (there := corrected.get(_edge(consumer, end))) is not None:
                made.pop(end, None)
                if there:
                    made[end] = Feed(supplier, consumer, parameter, "corrected", WORTH["corrected"], seen[end])
            elif seen[end] > 0:
                share = weight_of(seen[end], max(calls, supplied[parameter]))  # a list has values of several places
                made[end] = Feed(supplier, consumer, parameter, "seen", WORTH["seen"] * share, seen[end])
                if path:  # the place is known now
                    made.pop((parameter, (tool, ())), None)
            elif known is None and (weight := predicted.get(_edge(consumer, end), 0.0)) >= LEAST_PREDICTED:
                made[end] = Feed(supplier, consumer, parameter, "predicted", WORTH["predicted"] * min(1.0, weight))
        return _within_their_standing(made)

    def _has_place(self, tool: str, path: Path) -> bool:
        return tool in self.protocols and has_place(self.structure.tools[tool].returns, path)

    def _sorted(self, feeds: Collection[Feed]) -> list[Feed]:
        calls = self.learnt.calls
        trust = {each.supplier.tool: reliability(calls.get(each.supplier.tool, Counts())) for each in feeds}
        return sorted(
            feeds,
            key=lambda each: (
                each.evidence != "corrected" and trust[each.supplier.tool] < LEAST_TRUST,
                each.standing,
                _SUREST.index(each.evidence),
                -each.weight * trust[each.supplier.tool],
            ),
        )

    # -- what would do instead -----------------------------------------------------------------------------------------

    def substitutes(self, tool: str) -> Sequence[Substitute]:
        """What can take a tool's place, the likeliest first (:mod:`atc.catalogue.graph.substitutes`)."""
        from atc.catalogue.graph.substitutes import substitutes_of

        return substitutes_of(self, tool)

    def layers(self, tools: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Tools in layers: those that supply others stand in earlier ones; circles are broken, always alike.

        What supplies what comes first. Beyond that a tool stands where it stood in answered runs (its habit), else
        as early as it may (RETO §3.2). An edge that documents alone suggest orders nothing where the habits of both
        tools say otherwise.

        Args:
            tools: their keys; the order is kept within a layer.

        Raises:
            KeyError: there is no such tool.
        """
        offered = self.only(dict.fromkeys(tools))
        leads: dict[str, dict[str, float]] = {}
        for consumer in offered.protocols:
            required = {each.original for each in offered.structure.facts(consumer).parameters if each.required}
            for feed in offered.feeds(consumer):
                if self._contradicted(feed):
                    continue
                weight = feed.weight * (1.0 if feed.parameter in required else _OPTIONAL)
                ways = leads.setdefault(feed.supplier.tool, {})
                ways[consumer] = ways.get(consumer, 0.0) + weight
        habits = {tool: int(self._habit(tool)[0] + 0.5) for tool in offered.protocols if self._habit(tool)[1] > 0}
        return shifted([*offered.protocols], leads, habits) if habits else layers_of([*offered.protocols], leads)

    def _habit(self, tool: str) -> tuple[float, float]:
        """The layer that a tool stood in on average, and how many calls say so."""
        seen = self.learnt.habits.get(tool, {})
        total = sum(seen.values())
        return (sum(layer * times for layer, times in seen.items()) / total if total > 0 else 0.0), total

    def _contradicted(self, feed: Feed) -> bool:
        """Whether runs called both tools, and the consumer in an earlier layer: documents guess, runs know."""
        if feed.evidence in ("corrected", "seen"):
            return False
        (before, calls), (after, others) = self._habit(feed.supplier.tool), self._habit(feed.consumer)
        return min(calls, others) >= _KNOWN and after < before

    # -- the whole -----------------------------------------------------------------------------------------------------

    def of(
        self, tools: Sequence[Protocol] | Mapping[str, Protocol], scopes: Mapping[str, Scope] | None = None
    ) -> ToolGraph:
        """The graph of other tools, with the same that was learnt; what was read off a tool is not read again.

        Of the same tools it is this graph.

        Args:
            tools: as the graph itself takes them.
            scopes: by key, in place of this graph's.
        """
        made = ToolGraph(tools, self.learnt, scopes=self._scopes if scopes is None else scopes)
        if scopes is None and _are_the_same(made.protocols, self.protocols):
            return self
        part = tuple(made.protocols)
        kept = self._parts.get(part) if scopes is None else None
        if kept is not None and _are_the_same(made.protocols, kept.protocols):
            if kept.learnt is not self.learnt:
                kept = self._parts[part] = kept.with_learnt(self.learnt)
            return kept
        if len(self._shared.facts) < MAX_READ:
            made._shared = self._shared
        else:  # a catalogue is looked at in parts: what was read is not kept without end
            self._shared = made._shared
        if scopes is None:
            while len(self._parts) >= MAX_PARTS:
                self._parts.pop(next(iter(self._parts)), None)  # another thread may have been first
            self._parts[part] = made
        return made

    def suppliers_taught(self, consumer: str, parameter: str) -> list[str]:
        """The tools that runs, the user or a model name as suppliers of a parameter, whether they are in this graph or
        not, in the order of their keys."""
        edges = self._shared.edges_into.get(consumer, ())
        return [*dict.fromkeys(tool for tool, _, taken_by in edges if taken_by == parameter)]

    def with_learnt(self, learnt: Learnt) -> ToolGraph:
        """The graph of the same tools with something else learnt; what was read off their protocols stays.

        Args:
            learnt: in place of what this graph has.
        """
        made = copy(self)
        made.learnt, made._shared, made._feeds = learnt, self._shared.with_learnt(learnt), {}
        made._parts = dict(self._parts)
        for name in ("suppliers", "hints", "hints_inside"):
            made.__dict__.pop(name, None)
        if learnt.shapes != self.learnt.shapes:
            for name in ("structure", "protocols_with_shapes"):
                made.__dict__.pop(name, None)
        return made

    def only(self, keys: Collection[str]) -> ToolGraph:
        """The graph of some of these tools.

        Raises:
            KeyError: there is no such tool.
        """
        return self.of({key: self.protocols[key] for key in keys})


def _within_their_standing(feeds: Mapping[_End, Feed]) -> dict[_End, Feed]:
    """However often an id was taken from what refers to a thing, what lists the things is the likelier source."""
    most: dict[tuple[str, int], float] = {}
    for each in feeds.values():
        at = each.parameter, each.standing
        most[at] = max(each.weight, most.get(at, 0.0))
    made = dict(feeds)
    for end, each in feeds.items():
        nearer = [most[at] for standing in range(each.standing) if (at := (each.parameter, standing)) in most]
        if nearer:
            made[end] = replace(each, weight=min(each.weight, FARTHER * max(nearer)))
    return made


def _are_the_same(some: Mapping[str, Protocol], others: Mapping[str, Protocol]) -> bool:
    if len(some) != len(others):
        return False
    pairs = zip(some.items(), others.items(), strict=True)
    return all(key == other and one is two for (key, one), (other, two) in pairs)


def _edge(consumer: str, end: _End) -> tuple[str, Path, str, str]:
    parameter, (tool, path) = end
    return tool, path, consumer, parameter


class _Shared:
    """What a graph and those made of it have in common: what was learnt, sorted once, and what was read off tools."""

    def __init__(self, learnt: Learnt) -> None:
        self._learnt = learnt
        self.facts: dict[str, ToolFacts] = {}
        self._shaped: dict[str, tuple[Protocol, JsonSchema, Protocol]] = {}

    def with_learnt(self, learnt: Learnt) -> _Shared:
        """The same that was read off tools, with something else learnt."""
        made = _Shared(learnt)
        made.facts, made._shaped = self.facts, self._shaped
        return made

    def with_shape(self, key: str, protocol: Protocol) -> Protocol:
        """The protocol; where it documents no response, with the shape that was observed."""
        shape = self._learnt.shapes.get(key)
        if shape is None or not says_nothing(protocol.returns):
            return protocol
        kept = self._shaped.get(key)
        if kept is None or kept[0] is not protocol or kept[1] != shape:
            kept = self._shaped[key] = protocol, shape, with_shape(protocol, shape)
        return kept[2]

    @lazy
    def edges_into(self) -> Mapping[str, Sequence[tuple[str, Path, str]]]:
        """By consumer: supplier, place and parameter, in an order that does not depend on how they were learnt.

        Of very many those that the user set, and of the others those that were seen most.
        """
        seen, corrected = self._learnt.feeds, self._learnt.corrected_feeds
        found: dict[str, set[tuple[str, Path, str]]] = {}
        for kind in (seen, corrected, self._learnt.predicted):
            for tool, path, consumer, parameter in kind:
                found.setdefault(consumer, set()).add((tool, path, parameter))

        def worth(consumer: str, edge: tuple[str, Path, str]) -> tuple[bool, float]:
            at = (*edge[:2], consumer, edge[2])
            return at not in corrected, -seen[at].ok if at in seen else 0.0

        return {
            consumer: sorted(sorted(edges, key=lambda edge: (worth(consumer, edge), edge))[:MAX_TAUGHT])
            for consumer, edges in found.items()
        }
