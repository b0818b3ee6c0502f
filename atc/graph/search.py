"""Paths through the tool graph: what to call first so that a tool gets its arguments, exactly and in order of cost.

A tool needs its required parameters (AND); of each that other tools can supply, one of these supplies it (OR), or it
stays open. A path costs the sum of

- a call for each tool but the target,
- ``-log(weight)`` for each feed: what is less sure is dearer,
- for each parameter that stays open a price (:class:`Prices`).

A tool that supplies several parameters is called, and paid, once. :func:`best_paths` gives the ``k`` cheapest paths
that differ in their tools, each with its cheapest feeds; :mod:`atc.graph.and_or` says how, and what "exact" means.
The paper's two heuristics (NaviAgent App. B.2) stand in :mod:`atc.graph.naviagent` for comparison.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import log
from typing import Protocol as Shape

from atc.errors import UsageError
from atc.graph.and_or import OPEN, Need, Solution, Solutions, Stopped, cheapest
from atc.graph.edges import Feed
from atc.graph.suppliers import is_handed_out
from atc.tools.parameters import parameters_of
from atc.tools.protocol import Protocol

BUDGET = 20_000
"""Steps of a search: some tens of milliseconds at most. A usual search takes some hundred."""
_UNIT = 1_000
"""A cost of one, in the whole numbers that are summed."""
_LEAST_WEIGHT = 1e-6


class Graph(Shape):
    """What is searched: a :class:`~atc.graph.tool_graph.ToolGraph`, or what answers as one."""

    @property
    def protocols(self) -> Mapping[str, Protocol]: ...

    def feeds(self, consumer: str) -> Sequence[Feed]: ...


@dataclass(frozen=True)
class Prices:
    """What a path pays, beside its feeds.

    Attributes:
        call: one more tool.
        given: a parameter that no tool supplies, so that the task has to state it.
        open: a supplier's parameter that some tool could supply, and that is left to the task.
        target: the same for a parameter of the target, which is what is asked about.
    """

    call: float = 1.0
    given: float = 0.5
    open: float = 6.0
    target: float = 12.0


PRICES = Prices()


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
    _check(graph, target, k, budget)
    view = _View(graph, target, frozenset(have), prices)
    free = [view.number(each) for each in sorted(set(have)) if each in graph.protocols and each != target]
    found = cheapest(view.needs, view.number(target), k, budget, call=round(prices.call * _UNIT), free=free)
    return [view.path(each, found) for each in found.found]


def _check(graph: Graph, tool: str, k: int, budget: int) -> None:
    if tool not in graph.protocols:
        raise UsageError(f"{tool!r} is no tool of the graph: give the key of one of its {len(graph.protocols)} tools")
    if k < 1 or budget < 1:
        raise UsageError(f"k and budget are at least 1, not {k} and {budget}")


class _View:
    """A graph in numbers. They are given in the order of the search, which the names alone decide."""

    def __init__(self, graph: Graph, target: str, have: frozenset[str], prices: Prices) -> None:
        self._graph, self._target, self._have, self._prices = graph, target, have, prices
        self._keys: list[str] = []
        self._numbers: dict[str, int] = {}
        self._items: dict[int, list[tuple[str, dict[int, Feed]]]] = {}

    def number(self, key: str) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return self._numbers[key]

    def needs(self, node: int) -> list[Need]:
        key = self._keys[node]
        made: list[tuple[str, Need, dict[int, Feed]]] = []
        for parameter, feeds in needs_in(self._graph, key, self._have):
            priced = sorted((_price(feed), supplier, feed) for supplier, feed in feeds.items())
            numbered = [(price, self.number(supplier), feed) for price, supplier, feed in priced]
            made.append((
                parameter,
                Need(self._open(key, bool(feeds)), [(price, supplier) for price, supplier, _ in numbered]),
                {supplier: feed for _, supplier, feed in numbered},
            ))  # fmt: skip
        self._items[node] = [(parameter, feeds) for parameter, _, feeds in made]
        return [need for _, need, _ in made]

    def _open(self, key: str, could_be_supplied: bool) -> int:
        prices = self._prices
        price = prices.given if not could_be_supplied else prices.target if key == self._target else prices.open
        return round(price * _UNIT)

    def path(self, solution: Solution, found: Solutions) -> ToolPath:
        feeds, left = [], []
        for node in solution.nodes:
            for number, (parameter, suppliers) in enumerate(self._items.get(node, ())):
                supplier = solution.chosen[node, number]
                if supplier == OPEN:
                    left.append((self._keys[node], parameter))
                else:
                    feeds.append(suppliers[supplier])
        tools = tuple(self._keys[node] for node in solution.nodes)
        return ToolPath(tools, tuple(feeds), solution.cost / _UNIT, tuple(left), solution.proved, found.stopped)


def needs_in(graph: Graph, key: str, have: Collection[str] = frozenset()) -> Iterator[tuple[str, dict[str, Feed]]]:
    """The parameters of a tool that others must supply, each with its surest feed from each supplier.

    It is the required ones that tools can supply, and those that tools hand out and none here does; without what the
    task gives (``have``, as :func:`best_paths` takes it).
    """
    suppliers: dict[str, dict[str, Feed]] = {}
    for feed in graph.feeds(key):
        if feed.supplier.tool != key and feed.supplier.tool in graph.protocols and feed.weight > 0:
            known = suppliers.setdefault(feed.parameter, {})
            known[feed.supplier.tool] = min(feed, known.get(feed.supplier.tool, feed), key=_unsureness)
    for parameter in sorted(parameters_of(graph.protocols[key]), key=lambda each: each.original):
        name = parameter.original
        if not parameter.required or name in have or f"{key}.{name}" in have:
            continue
        if name in suppliers or is_handed_out(name, parameter.schema):
            yield name, suppliers.get(name, {})


def _unsureness(feed: Feed) -> tuple[float, bool, int, tuple[str, ...]]:
    """For the surest of the fields of one supplier, whatever their order: one that is known, and not nested deep."""
    path = feed.supplier.path
    return -feed.weight, not path, len(path), path


def _price(feed: Feed) -> int:
    return round(-log(min(1.0, max(feed.weight, _LEAST_WEIGHT))) * _UNIT)


def paths_between(graph: Graph, source: str, target: str, k: int = 3, budget: int = BUDGET) -> list[ToolPath]:
    """The cheapest chains from one tool to another, each link a feed; none where there is no chain.

    Other than with :func:`best_paths`, a tool of the chain may need what the chain does not supply; that is ``open``.

    Args:
        source: the key of the tool whose response is used. ``target``: of the one that it is wanted for.
        k: chains at most; they differ in their tools or in the order of these.
        budget: steps: feeds looked at.

    Raises:
        UsageError: one of them is no tool of the graph, they are the same, or a number is below its least.
    """
    _check(graph, source, k, budget)
    _check(graph, target, k, budget)
    if source == target:
        raise UsageError(f"a path leads from one tool to another, not from {source!r} to itself")
    links, rest, steps = _towards(graph, target, budget)
    if source not in rest:
        return []
    queue: list[tuple[int, tuple[str, ...]]] = [(rest[source], (source,))]
    chains: list[tuple[int, tuple[str, ...]]] = []
    while queue and len(chains) < k and steps < 2 * budget:
        cost, chain = heappop(queue)
        if chain[-1] == target:
            chains.append((cost, chain))
            continue
        paid = cost - rest[chain[-1]]
        for consumer, price in links.get(chain[-1], ()):
            steps += 1
            if consumer not in chain:
                heappush(queue, (paid + price + rest[consumer], (*chain, consumer)))
    stopped: Stopped = "found" if len(chains) == k else "all" if steps < budget else "budget"
    return [_chain(graph, cost, chain, stopped) for cost, chain in chains]


def _towards(graph: Graph, target: str, budget: int) -> tuple[dict[str, list[tuple[str, int]]], dict[str, int], int]:
    """The links to all that leads to a target, ``supplier -> (consumer, cost)``, and what each is away from it."""
    rest: dict[str, int] = {}
    links: dict[str, list[tuple[str, int]]] = {}
    queue: list[tuple[int, str]] = [(0, target)]
    steps = 0
    while queue and steps < budget:
        away, consumer = heappop(queue)
        if consumer in rest:
            continue
        rest[consumer] = away
        best: dict[str, int] = {}
        for _, feeds in needs_in(graph, consumer):
            for supplier, feed in feeds.items():
                price = _price(feed) + _UNIT
                best[supplier] = min(price, best.get(supplier, price))
        for supplier, price in sorted(best.items()):
            steps += 1
            links.setdefault(supplier, []).append((consumer, price))
            heappush(queue, (away + price, supplier))
    return links, rest, steps


def _chain(graph: Graph, cost: int, chain: tuple[str, ...], stopped: Stopped) -> ToolPath:
    """A chain as a path: each parameter from the chain's tool that supplies it surest, if it comes before."""
    feeds: list[Feed] = []
    left: list[tuple[str, str]] = []
    for place, key in enumerate(chain[1:], 1):
        for parameter, suppliers in needs_in(graph, key):
            before = [suppliers[each] for each in chain[:place] if each in suppliers]
            if before:
                feeds.append(max(before, key=lambda feed: (feed.weight, chain.index(feed.supplier.tool))))
            else:
                left.append((key, parameter))
    return ToolPath(chain, tuple(feeds), cost / _UNIT, tuple(left), True, stopped)
