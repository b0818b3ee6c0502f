"""The cheapest ways to supply what a node needs: an exact search of AND-OR graphs, best first.

A node needs several things (AND); each is supplied by one of several nodes (OR), which have needs of their own. The
graph may have cycles; what is chosen from it has none.

**The objective.** A solution chooses a supplier for every need of every node that it takes, or leaves the need open. It
costs the sum of its edges, of its open needs, and of a call for each node but the target. A node that supplies several
needs is taken and paid **once**, and chooses its own suppliers once. Two solutions differ if their nodes do; of those
with the same nodes the cheapest counts. The search returns the ``k`` cheapest, in order of cost.

**How.** Partial solutions are a tree: each decides the next open need in one way. They are taken up in order of a bound
that no completion undercuts (A*): what is paid, and for each open need the least of its alternatives, where the price
of a node that several open needs could share is divided among these. To find a cheapest solution with shared nodes is
NP-hard (set cover is a special case), so steps are bounded: where they are used up, solutions are still returned, with
the bound that says how far from the cheapest they may be. Steps are counted, not seconds, costs are whole numbers, and
ties are broken by the nodes' numbers: equal input gives equal solutions on every machine.

The paper searches with two heuristics instead (NaviAgent App. B.2, :mod:`atc_research.naviagent.searches`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Literal, NamedTuple

OPEN = -1
"""In place of a supplier: the need stays open."""
Stopped = Literal["found", "all", "budget"]
"""Why a search ended: it has what was asked for; there is no more; its steps were used up."""


class Need(NamedTuple):
    """One of the things that a node needs.

    Attributes:
        open: what it costs to leave it open; not negative.
        suppliers: ``(cost, node)``, of each node once, the cheapest first; no cost is negative.
    """

    open: int
    suppliers: Sequence[tuple[int, int]] = ()


Item = tuple[int, int]
"""A node, and the number of one of its needs."""


@dataclass(frozen=True)
class Solution:
    """One way to supply a target.

    Attributes:
        cost: as the module says.
        nodes: those that are taken, suppliers before what they supply, the target last; without the free ones.
        chosen: for each need of these nodes the supplier, or :data:`OPEN`.
        proved: no solution that comes later or was not found is cheaper.
    """

    cost: int
    nodes: tuple[int, ...]
    chosen: Mapping[Item, int]
    proved: bool = True


@dataclass(frozen=True)
class Solutions:
    """What a search found, the cheapest first.

    Attributes:
        bound: no solution that was not found costs less; ``None`` where there is no other.
        steps: alternatives that were looked at, and moves between partial solutions.
    """

    found: tuple[Solution, ...]
    stopped: Stopped
    bound: int | None
    steps: int


def cheapest(
    needs: Callable[[int], Sequence[Need]],
    target: int,
    k: int = 1,
    budget: int = 8_000,
    *,
    call: int = 1_000,
    free: Collection[int] = (),
) -> Solutions:
    """The ``k`` cheapest solutions.

    Args:
        needs: of a node; asked once for each node that the search comes upon, equal for equal nodes.
        target: the node whose needs are to be supplied.
        budget: steps; at least one solution is returned even where they do not suffice.
        call: what taking a node costs.
        free: nodes that are there already: they cost nothing and need nothing.

    Raises:
        ValueError: ``k`` or the budget is below one, or a price is negative.
    """
    if k < 1 or budget < 1 or call < 0:
        raise ValueError(f"k and budget are at least 1 and call at least 0, not {k}, {budget} and {call}")
    return _Search(needs, target, budget, call, frozenset(free)).run(k)


_Agenda = tuple[Item, "_Agenda"] | None
"""Open needs, the next first: partial solutions share their tails."""


@dataclass(slots=True, eq=False)
class _Partial:
    """A partial solution: its parent's decisions and one more. Only the difference is kept.

    Attributes:
        taken: the decision took a node that was not there before.
        options: for the next open need: the bound with each alternative, and its supplier; the best first.
    """

    parent: _Partial | None
    item: Item
    supplier: int
    depth: int
    paid: int
    agenda: _Agenda
    taken: bool = False
    bound: int = 0
    options: list[tuple[int, int]] = field(default_factory=list)


class _Search:
    def __init__(
        self, needs: Callable[[int], Sequence[Need]], target: int, budget: int, call: int, free: frozenset[int]
    ) -> None:
        self._ask, self._target, self._budget, self._call, self._free = needs, target, budget, call, free
        self._needs: dict[int, Sequence[Need]] = dict.fromkeys(free, ())
        self._own: dict[int, int] = {}  # what a node costs at least, where its needs are known
        self._steps = self._number = self._greed = 0
        self._queue: list[tuple[int, int, int, _Partial, int]] = []
        # the partial solution in hand, written out
        self._inside: set[int] = {target, *free}
        self._chosen: dict[Item, int] = {}
        self._at = _Partial(None, (target, 0), OPEN, 0, 0, self._with_needs_of(target, None))

    def run(self, k: int) -> Solutions:
        found: list[Solution] = []
        seen: set[tuple[int, ...]] = set()
        self._look(self._at)
        self._push(self._at, -1)
        self._go_on(k, self._budget * 3 // 4, found, seen)
        if len(found) == k or not self._queue:
            bound = self._bound(*self._queue[0][-2:]) if self._queue else None
            return Solutions(tuple(found), "found" if len(found) == k else "all", bound, self._steps)
        bound = self._bound(*self._queue[0][-2:])
        proved, self._greed = len(found), 1
        queue, self._queue = self._queue, []
        for *_, partial, option in queue:
            self._push(partial, option)
        self._go_on(k, self._budget, found, seen)
        if not found:
            self._keep(self._completed(*heappop(self._queue)[-2:]), found, seen)
        more = sorted(found[proved:], key=lambda each: each.cost)
        found[proved:] = [replace(each, proved=each.cost <= bound) for each in more]
        return Solutions(tuple(found), "budget", bound, self._steps)

    def _go_on(self, k: int, budget: int, found: list[Solution], seen: set[tuple[int, ...]]) -> None:
        while self._queue and len(found) < k and self._steps < budget:
            *_, partial, option = heappop(self._queue)
            if option >= 0:
                bound = self._bound(partial, option)
                if option + 1 < len(partial.options):
                    self._push(partial, option + 1)
                partial = self._decided(partial, partial.options[option][1])
                self._look(partial)
                if partial.bound > bound:
                    self._push(partial, -1)
                    continue
            if partial.agenda is not None:
                self._push(partial, 0)
            else:
                self._keep(partial, found, seen)

    @staticmethod
    def _bound(partial: _Partial, option: int) -> int:
        return partial.bound if option < 0 else partial.options[option][0]

    def _keep(self, partial: _Partial, found: list[Solution], seen: set[tuple[int, ...]]) -> None:
        self._go(partial)
        nodes = self._ordered()
        key = tuple(sorted(nodes))
        if key not in seen:
            seen.add(key)
            found.append(Solution(partial.paid, nodes, dict(self._chosen)))

    def _push(self, partial: _Partial, option: int) -> None:
        """The least bound comes first; of equal ones what has decided most, as it is nearest to a solution. Once most
        steps are used up, what is still to be paid counts twice: a solution is to be had soon, if not the cheapest."""
        self._number += 1
        bound = self._bound(partial, option)
        heappush(
            self._queue,
            (bound + self._greed * (bound - partial.paid), -partial.depth, self._number, partial, option),
        )

    def _with_needs_of(self, node: int, rest: _Agenda) -> _Agenda:
        for number in reversed(range(len(self._needs_of(node)))):
            rest = ((node, number), rest)
        return rest

    def _needs_of(self, node: int) -> Sequence[Need]:
        known = self._needs.get(node)
        if known is None:
            known = self._needs[node] = self._ask(node)
            least = [min((need.open, *(cost for cost, _ in need.suppliers[:1]))) for need in known]
            if min(least, default=0) < 0:
                raise ValueError(f"node {node} has a need with a negative price")
            self._own[node] = self._call + sum(least)
        return known

    def _decided(self, parent: _Partial, supplier: int) -> _Partial:
        self._go(parent)
        assert parent.agenda is not None
        item, rest = parent.agenda
        need = self._needs[item[0]][item[1]]
        cost = need.open if supplier == OPEN else next(cost for cost, node in need.suppliers if node == supplier)
        taken = supplier != OPEN and supplier not in self._inside
        if taken:
            cost, rest = cost + self._call, self._with_needs_of(supplier, rest)
        child = _Partial(parent, item, supplier, parent.depth + 1, parent.paid + cost, rest, taken, parent.bound)
        self._go(child)
        return child

    def _go(self, to: _Partial) -> None:
        """Write a partial solution out: take back what only the one in hand decided, then decide the rest."""
        at, goal = self._at, to
        redo: list[_Partial] = []
        while at is not goal:
            self._steps += 1
            if goal.depth > at.depth:
                redo.append(goal)
                assert goal.parent is not None
                goal = goal.parent
            else:
                del self._chosen[at.item]
                if at.taken:
                    self._inside.discard(at.supplier)
                assert at.parent is not None
                at = at.parent
        for partial in reversed(redo):
            self._chosen[partial.item] = partial.supplier
            if partial.taken:
                self._inside.add(partial.supplier)
        self._at = to

    def _look(self, partial: _Partial) -> None:
        if partial.agenda is None:
            partial.bound = max(partial.bound, partial.paid)
            return
        inside, own, call = self._inside, self._own, self._call
        waiting: list[Need] = []
        agenda: _Agenda = partial.agenda
        while agenda is not None:
            (node, number), agenda = agenda
            waiting.append(self._needs[node][number])
        sharing: dict[int, int] = {}
        for need in waiting:
            self._steps += 1 + len(need.suppliers)
            for _, supplier in need.suppliers:
                sharing[supplier] = sharing.get(supplier, 0) + 1
        least = partial.paid
        for need in waiting[1:]:
            share = need.open
            for cost, supplier in need.suppliers:
                if cost >= share:
                    break
                extra = 0 if supplier in inside else own.get(supplier, call) // sharing[supplier]
                share = min(share, cost + extra)
            least += share
        (consumer, _), _ = partial.agenda
        options = [
            (cost + (0 if supplier in inside else own.get(supplier, call) // sharing[supplier]), supplier)
            for cost, supplier in waiting[0].suppliers
            if supplier not in inside or not self._depends(supplier, consumer)
        ]
        options = sorted([*options, (waiting[0].open, OPEN)], key=lambda option: (option[0], option[1] == OPEN))
        partial.bound = max(partial.bound, least + options[0][0])
        partial.options = [(max(partial.bound, least + share), supplier) for share, supplier in options]

    def _depends(self, node: int, on: int) -> bool:
        todo, seen = [node], {node}
        while todo:
            at = todo.pop()
            if at == on:
                return True
            for supplier in self._suppliers_of(at):
                if supplier not in seen:
                    seen.add(supplier)
                    todo.append(supplier)
        self._steps += len(seen)
        return False

    def _suppliers_of(self, node: int) -> Iterator[int]:
        for number in range(len(self._needs[node])):
            supplier = self._chosen.get((node, number), OPEN)
            if supplier != OPEN:
                yield supplier

    def _completed(self, partial: _Partial, option: int) -> _Partial:
        """It ends: no decision makes the partial solution dearer than it was with all its needs left open."""
        if option >= 0:
            partial = self._decided(partial, partial.options[option][1])
        self._go(partial)
        while partial.agenda is not None:
            (consumer, number), _ = partial.agenda
            need = self._needs[consumer][number]
            best = (need.open, OPEN)
            for cost, supplier in need.suppliers:
                if cost >= best[0]:
                    break
                if supplier not in self._inside:
                    at_once = cost + self._call + sum(each.open for each in self._needs_of(supplier))
                elif self._depends(supplier, consumer):
                    continue
                else:
                    at_once = cost
                best = min(best, (at_once, supplier), key=lambda each: each[0])
            partial = self._decided(partial, best[1])
        return partial

    def _ordered(self) -> tuple[int, ...]:
        """The nodes of the solution in hand, suppliers first."""
        ordered: dict[int, None] = {}
        todo = [(self._target, self._suppliers_of(self._target))]
        under = {self._target}
        while todo:
            node, suppliers = todo[-1]
            supplier = next(suppliers, None)
            if supplier is None:
                ordered[node] = None
                todo.pop()
            elif supplier not in under:
                under.add(supplier)
                todo.append((supplier, self._suppliers_of(supplier)))
        return tuple(node for node in ordered if node not in self._free or node == self._target)
