"""Paths through the tool graph: what to call first so that a tool gets its arguments, exactly and in order of cost.

A tool needs its required parameters (AND); of each that other tools can supply, one of these supplies it (OR), or it
stays open. A path costs the sum of

- a call for each tool but the target, more if it writes, and something for each parameter that only the task gives,
- for each feed ``-log(weight)``, and more where it is less likely meant,
- for each parameter that stays open though some tool could supply it a price (:class:`Prices`).

A tool that supplies several parameters is called, and paid, once. :func:`best_paths` gives the ``k`` cheapest paths
that differ in their tools, each with its cheapest feeds; :mod:`atc_research.naviagent.and_or` says how, and what
"exact" means. The paper's two heuristics (NaviAgent App. B.2) are :mod:`atc_research.naviagent.searches`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Protocol as Shape

from atc import Effect, Protocol, UsageError
from atc.plugins.learning import VERBS, JsonSchema, Path, resolve, words_of
from atc.plugins.strategies import GENERIC, Feed, is_handed_out, parameters_of
from atc_research.naviagent.and_or import OPEN, Need, Solution, Stopped, cheapest

# ----------------------------------------------------------------------------------------------------------------------
# What a path through the tool graph costs: its prices, and the evidence that they are put on.
#
# Runs that were seen say best what supplies what. Where there are none, equal names leave many suppliers alike; then
# the one is likeliest that is about the thing itself: ``search_movie`` for a ``movie_id``, not ``get_movie_credits``.


UNIT = 1_000
"""A cost of one, in the whole numbers that are summed."""
_LEAST_WEIGHT = 1e-6
_METHODS = frozenset({"get", "post", "put", "delete", "patch"})


@dataclass(frozen=True)
class Prices:
    """What a path pays; the price of one call is the unit. Chosen on the known solutions of five sources.

    Attributes:
        call: one more tool. ``write``: as much more if it is known to write.
        given: a parameter that tools hand out and none here supplies, so that the task has to state it.
        open: a supplier's parameter that some tool could supply, and that is left to the task.
        target: the same for a parameter of the target, which is what is asked about.
        detour: of a feed that is known by names alone, each word of the supplier's name that is not about the thing.
    """

    call: float = 1.0
    write: float = 1.0
    given: float = 0.5
    open: float = 6.0
    target: float = 12.0
    detour: float = 0.25

    def of_feed(self, feed: Feed, supplier: Protocol, consumer: Protocol) -> int:
        """What a feed costs: ``-log(weight)`` and more."""
        price = -log(min(1.0, max(feed.weight, _LEAST_WEIGHT)))
        if feed.evidence in ("names", "predicted"):
            name = feed.supplier.inside[-1] if feed.supplier.inside else feed.parameter
            price += self.detour * _words_aside(name, supplier, consumer)
        return whole(price)

    def of_open(self, feeds: Iterable[Feed], of_target: bool) -> float:
        """What it costs to leave a parameter open that these could supply.

        Where runs were seen, it is as much less as they had the value from elsewhere: most often from the task.
        """
        seen = [feed.weight for feed in feeds if feed.evidence == "seen"]
        return (self.target if of_target else self.open) * (min(1.0, sum(seen)) if seen else 1.0)

    def of_tool(self, protocol: Protocol, given: int) -> int:
        """What a call of a tool costs beside :attr:`call`, with so many parameters that the task has to state."""
        return whole(self.write * (protocol.effect is Effect.WRITE) + self.given * given)


PRICES = Prices()


def whole(price: float) -> int:
    """A price in the whole numbers that are summed."""
    return round(price * UNIT)


def _words_aside(parameter: str, supplier: Protocol, consumer: Protocol) -> int:
    """How far a supplier's name is from that of a look-up of the thing: ``search_movie`` 0, ``get_movie_credits`` 1."""
    about = {word for word in words_of(parameter) if word not in GENERIC} or _subject(consumer)
    subject = _subject(supplier)
    return len(subject - about) + (not subject & about)


def _subject(protocol: Protocol) -> set[str]:
    return {word for word in words_of(protocol.name) if not word.isdigit()} - VERBS - _METHODS


# ----------------------------------------------------------------------------------------------------------------------
# Paths through the tool graph: what to call first so that a tool gets its arguments, exactly and in order of cost.


BUDGET = 8_000
"""Steps of a search: some ten milliseconds at most. A usual search takes a hundred."""


class Graph(Shape):
    """What is searched: a :class:`~atc.plugins.strategies.ToolGraph`, or what answers as one."""

    @property
    def protocols(self) -> Mapping[str, Protocol]: ...

    def feeds(self, consumer: str) -> Sequence[Feed]: ...


@dataclass(frozen=True)
class ToolPath:
    """Tools that lead to a target.

    Attributes:
        tools: in an order in which they can be called: suppliers first, the target last.
        feeds: what supplies which parameter; the supplier may be one that the task has already.
        cost: as the module says.
        open: ``(tool, parameter)`` that no tool of the path supplies, though tools hand out such values.
        proved: no path of other tools that follows in the list, or is not in it, is cheaper.
        stopped: why the search ended: ``found`` as many as were asked for, ``all`` that there are, or its ``budget``
            was used up.
    """

    tools: tuple[str, ...]
    feeds: tuple[Feed, ...] = ()
    cost: float = 0.0
    open: tuple[tuple[str, str], ...] = ()
    proved: bool = True
    stopped: Stopped = "found"

    @property
    def complete(self) -> bool:
        """Whether every parameter that other tools could supply is supplied."""
        return not self.open


def best_paths(
    graph: Graph,
    target: str,
    have: Collection[str] = (),
    k: int = 3,
    budget: int = BUDGET,
    *,
    prices: Prices = PRICES,
) -> list[ToolPath]:
    """The cheapest paths to a tool, at least one.

    Args:
        graph: only what the search touches is asked of it.
        target: the key of the tool that is to be called.
        have: what is there already: keys of tools that were found (they cost nothing and need nothing, and are not in a
            path's ``tools``), and parameters whose values the task gives, as ``parameter`` or ``tool.parameter``.
        k: paths at most.
        budget: steps: alternatives looked at. Equal input gives equal paths, however quick the machine is.
        prices: in the unit of one call.

    Raises:
        UsageError: the target is no tool of the graph, or a number is below its least.
    """
    if target not in graph.protocols:
        raise UsageError(f"{target!r} is no tool of the graph: give the key of one of its {len(graph.protocols)} tools")
    if k < 1 or budget < 1:
        raise UsageError(f"k and budget are at least 1, not {k} and {budget}")
    view = _View(graph, target, frozenset(have), prices)
    free = [view.number(each) for each in sorted(set(have)) if each in graph.protocols and each != target]
    found = cheapest(view.needs, view.number(target), k, budget, call=whole(prices.call), free=free)
    return [view.path(each, found.stopped) for each in found.found]


class _View:
    """A graph in numbers. They are given in the order of the search, which the names alone decide."""

    def __init__(self, graph: Graph, target: str, have: frozenset[str], prices: Prices) -> None:
        self._graph, self._target, self._have, self._prices = graph, target, have, prices
        self._keys: list[str] = []
        self._numbers: dict[str, int] = {}
        self._items: dict[int, list[tuple[str, dict[int, Feed]]]] = {}
        self._left: dict[int, list[str]] = {}

    def number(self, key: str) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return self._numbers[key]

    def needs(self, node: int) -> list[Need]:
        """What a tool needs; nothing supplies the last need, which stands for all that the task has to state."""
        key = self._keys[node]
        protocols, prices = self._graph.protocols, self._prices
        found = dict(needs_in(self._graph, key, self._have))
        supplied = [(parameter, feeds) for parameter, feeds in found.items() if feeds]
        left = [parameter for parameter, feeds in found.items() if not feeds]
        needs: list[Need] = []
        for _, feeds in supplied:
            priced = sorted(
                (prices.of_feed(feed, protocols[supplier], protocols[key]), supplier)
                for supplier, feed in feeds.items()
            )
            open_at = whole(prices.of_open(feeds.values(), key == self._target))
            needs.append(Need(open_at, [(price, self.number(supplier)) for price, supplier in priced]))
        self._items[node] = [
            (parameter, {self.number(supplier): feed for supplier, feed in feeds.items()})
            for parameter, feeds in supplied
        ]
        self._left[node] = left
        stated = prices.of_tool(protocols[key], len(left))
        return [*needs, Need(stated)] if stated and key != self._target else needs

    def path(self, solution: Solution, stopped: Stopped) -> ToolPath:
        feeds: list[Feed] = []
        left: list[tuple[str, str]] = []
        for node in solution.nodes:
            key = self._keys[node]
            left += [(key, parameter) for parameter in self._left[node]]
            for number, (parameter, suppliers) in enumerate(self._items[node]):
                supplier = solution.chosen[node, number]
                if supplier == OPEN:
                    left.append((key, parameter))
                else:
                    feeds.append(suppliers[supplier])
        tools = tuple(self._keys[node] for node in solution.nodes)
        return ToolPath(tools, tuple(feeds), solution.cost / UNIT, tuple(left), solution.proved, stopped)


def needs_in(graph: Graph, key: str, have: Collection[str] = frozenset()) -> Iterator[tuple[str, dict[str, Feed]]]:
    """The parameters of a tool that others must supply, each with its surest feed from each supplier.

    It is the required ones that tools can supply, and those that tools hand out and none here does; without what the
    task gives (``have``, as :func:`best_paths` takes it). What a required one must have within it stands beside it, as
    ``lines.[].product_id``.
    """
    suppliers = _suppliers(graph.feeds(key), key, graph)
    protocol = graph.protocols[key]
    for parameter in sorted(parameters_of(protocol), key=lambda each: each.original):
        name = parameter.original
        if not parameter.required or name in have or f"{key}.{name}" in have:
            continue
        if (name,) in suppliers or is_handed_out(name, parameter.schema):
            yield name, suppliers.get((name,), {})
        for place in sorted(each for each in suppliers if each[0] == name and each[1:]):
            if must_be_given(protocol.parameters, place):
                yield ".".join(place), suppliers[place]


def must_be_given(schema: JsonSchema, path: Sequence[str]) -> bool:
    """Whether all arguments have a place, if each of their lists has an item: every field on the way is required."""
    node: JsonSchema = schema
    for step in path:
        node = resolve(schema, node)
        fields, required = node.get("properties"), node.get("required")
        inside = node.get("items") if step == "[]" else fields.get(step) if isinstance(fields, dict) else None
        given = step == "[]" or (isinstance(required, list) and step in required)
        if not given or not isinstance(inside, dict):
            return False
        node = inside
    return True


def _suppliers(feeds: Iterable[Feed], key: str, graph: Graph) -> dict[Path, dict[str, Feed]]:
    suppliers: dict[Path, dict[str, Feed]] = {}
    for feed in feeds:
        if feed.supplier.tool != key and feed.supplier.tool in graph.protocols and feed.weight > 0:
            known = suppliers.setdefault((feed.parameter, *feed.supplier.inside), {})
            known[feed.supplier.tool] = min(feed, known.get(feed.supplier.tool, feed), key=_unsureness)
    return suppliers


def _unsureness(feed: Feed) -> tuple[float, bool, int, tuple[str, ...]]:
    """For the surest of the fields of one supplier, whatever their order: one that is known, and not nested deep."""
    path = feed.supplier.path
    return -feed.weight, not path, len(path), path
