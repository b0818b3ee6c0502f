"""The exact search gives what trying everything gives, whatever the graph; and it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc_research.naviagent.and_or import OPEN, Item, Need, Solution, cheapest

Graph = Sequence[Sequence[Need]]
CALL = 2


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to five nodes of up to two needs; cycles, shared suppliers and ties are common."""
    nodes = draw(st.integers(1, 5))
    suppliers = st.dictionaries(st.integers(0, nodes - 1), st.integers(0, 5), max_size=3)
    need = st.builds(lambda price, some: Need(price, _ordered(some)), st.integers(0, 9), suppliers)
    return draw(st.lists(st.lists(need, max_size=2), min_size=nodes, max_size=nodes))


def _ordered(suppliers: Mapping[int, int]) -> list[tuple[int, int]]:
    return sorted((cost, node) for node, cost in suppliers.items())


def everything(graph: Graph, free: frozenset[int] = frozenset()) -> list[int]:
    """The costs of all solutions of node 0 with different nodes, by trying all."""
    best: dict[frozenset[int], int] = {}

    def decide(chosen: dict[Item, int], waiting: list[Item], inside: frozenset[int], cost: int) -> None:
        if not waiting:
            best[inside] = min(best.get(inside, cost), cost)
            return
        (node, number), *rest = waiting
        need = graph[node][number]
        decide({**chosen, (node, number): OPEN}, rest, inside, cost + need.open)
        for price, supplier in need.suppliers:
            more = {**chosen, (node, number): supplier}
            if supplier in inside or supplier in free:
                if not leads(chosen, supplier, node):
                    decide(more, rest, inside, cost + price)
            else:
                decide(more, [*rest, *items(graph, supplier)], inside | {supplier}, cost + price + CALL)

    decide({}, items(graph, 0), frozenset({0}), 0)
    return sorted(best.values())


def items(graph: Graph, node: int) -> list[Item]:
    return [(node, number) for number in range(len(graph[node]))]


def leads(chosen: Mapping[Item, int], node: int, to: int) -> bool:
    """Whether a node takes something from another, or is it."""
    return node == to or any(leads(chosen, supplier, to) for (by, _), supplier in chosen.items() if by == node)


def cost_of(graph: Graph, solution: Solution) -> int:
    """What a solution costs by its choices; it asserts that they are allowed."""
    cost = CALL * (len(solution.nodes) - 1)
    for (node, number), supplier in solution.chosen.items():
        need = graph[node][number]
        cost += need.open if supplier == OPEN else next(price for price, each in need.suppliers if each == supplier)
        if supplier in solution.nodes:
            assert solution.nodes.index(supplier) < solution.nodes.index(node)
    return cost


@given(graphs(), st.integers(1, 6))
def test_it_finds_what_trying_everything_finds(graph: Graph, k: int) -> None:
    found = cheapest(graph.__getitem__, 0, k, 10**6, call=CALL)
    costs = everything(graph)
    assert [each.cost for each in found.found] == costs[:k]
    assert found.stopped == ("found" if len(costs) >= k else "all")
    assert len({frozenset(each.nodes) for each in found.found}) == len(found.found)
    for each in found.found:
        assert each.proved
        assert each.nodes[-1] == 0
        assert cost_of(graph, each) == each.cost
        assert set(each.chosen) == {item for node in each.nodes for item in items(graph, node)}


@given(graphs(), st.integers(1, 4))
def test_what_is_there_already_costs_nothing_and_needs_nothing(graph: Graph, free: int) -> None:
    if free < len(graph):
        found = cheapest(graph.__getitem__, 0, 3, 10**6, call=CALL, free=[free])
        assert [each.cost for each in found.found] == everything(graph, frozenset({free}))[:3]
        assert all(free not in each.nodes for each in found.found)


@given(graphs(), st.integers(1, 40))
def test_with_too_few_steps_it_still_answers_and_claims_no_more_than_is_true(graph: Graph, budget: int) -> None:
    found = cheapest(graph.__getitem__, 0, 2, budget, call=CALL)
    costs = everything(graph)
    assert found.found
    assert found.steps <= budget + 100  # what was begun is ended, and one solution is completed
    for place, each in enumerate(found.found):
        assert each.cost == cost_of(graph, each) >= costs[0]
        if each.proved:
            assert each.cost == costs[place]
        elif found.bound is not None:
            assert each.cost > found.bound
    assert cheapest(graph.__getitem__, 0, 2, budget, call=CALL) == found


@given(graphs(), st.permutations(range(5)))
def test_other_numbers_for_the_nodes_change_no_cost(graph: Graph, order: list[int]) -> None:
    names = [0, *(each for each in order if each and each < len(graph))]  # the target stays 0
    renamed: list[list[Need]] = [[] for _ in graph]
    for node, needs in enumerate(graph):
        renamed[names.index(node)] = [
            Need(need.open, _ordered({names.index(each): cost for cost, each in need.suppliers})) for need in needs
        ]
    before, after = (cheapest(each.__getitem__, 0, 4, 10**6, call=CALL) for each in (graph, renamed))
    assert [each.cost for each in before.found] == [each.cost for each in after.found]


def test_a_supplier_of_several_needs_is_paid_once() -> None:
    apart = [Need(99, [(0, 1)]), Need(99, [(0, 2)])]
    shared = [Need(99, [(0, 1), (1, 3)]), Need(99, [(0, 2), (1, 3)])]
    assert cheapest([apart, [], [], []].__getitem__, 0, call=5).found[0].cost == 10
    (best,) = cheapest([shared, [], [], []].__getitem__, 0, call=5).found
    assert (best.cost, best.nodes) == (7, (3, 0))


def test_a_target_that_needs_nothing_is_its_own_solution() -> None:
    found = cheapest(lambda node: (), 7, k=3)
    assert [each.nodes for each in found.found] == [(7,)]
    assert (found.stopped, found.bound) == ("all", None)


def test_a_node_cannot_supply_itself_by_a_detour() -> None:
    graph = [[Need(50, [(0, 1)])], [Need(20, [(0, 0)])]]
    found = cheapest(graph.__getitem__, 0, k=5, call=1)
    assert [(each.nodes, each.cost) for each in found.found] == [((1, 0), 21), ((0,), 50)]


@pytest.mark.parametrize("length", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_long_chain_needs_no_recursion(length: int) -> None:
    need = lambda node: [Need(10**9, [(1, node + 1)])] if node < length - 1 else []  # noqa: E731
    found = cheapest(need, 0, budget=10**6)
    assert found.found[0].nodes == tuple(reversed(range(length)))
    assert found.found[0].proved


def test_only_what_the_search_touches_is_asked_for() -> None:
    asked: list[int] = []

    def needs(node: int) -> list[Need]:
        asked.append(node)
        return [Need(9_000, [(10, 2 * node + 1), (2_000, 2 * node + 2)])] if node < 3 else []

    assert cheapest(needs, 0).found[0].nodes == (3, 1, 0)
    assert sorted(set(asked)) == sorted(asked) == [0, 1, 3]


@pytest.mark.parametrize(("k", "budget", "call"), [(0, 1, 1), (1, 0, 1), (1, 1, -1)])
def test_numbers_that_make_no_sense_are_named(k: int, budget: int, call: int) -> None:
    with pytest.raises(ValueError, match="at least"):
        cheapest(lambda node: (), 0, k, budget, call=call)
    with pytest.raises(ValueError, match="negative"):
        cheapest(lambda node: [Need(5), Need(-1)], 0)
