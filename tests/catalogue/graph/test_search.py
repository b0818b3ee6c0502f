"""Paths through the tool graph: which tools come first, what feeds what, what stays open, and why it ended."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.catalogue.graph.edges import Evidence, Feed
from atc.catalogue.graph.search import Prices, ToolPath, best_paths, paths_between
from atc.catalogue.graph.suppliers import Supplier
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.errors import UsageError
from atc.result import Effect
from atc.schemas.protocol import JsonSchema, Protocol

CITIES: JsonSchema = {
    "type": "object",
    "properties": {"cities": {"type": "array", "items": {"properties": {"city_id": {"type": "string"}}}}},
}


def tool(
    name: str, *required: str, returns: JsonSchema | None = None, effect: Effect = Effect.READ, optional: str = ""
) -> Protocol:
    properties = {each: {"type": "string"} for each in (*required, *([optional] if optional else []))}
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return Protocol(name=name, description=name, parameters=parameters, returns=returns, effect=effect)


@dataclass
class Fake:
    """A graph of given edges: ``consumer.parameter -> {supplier: weight}``."""

    protocols: Mapping[str, Protocol]
    edges: Sequence[Feed]

    def feeds(self, consumer: str) -> Sequence[Feed]:
        return [each for each in self.edges if each.consumer == consumer]


def fake(
    edges: Mapping[str, Mapping[str, float]], *tools: Protocol, evidence: Evidence = "stated", seed: int | None = None
) -> Fake:
    feeds = []
    needed: dict[str, dict[str, None]] = {}
    for place, suppliers in edges.items():
        consumer, parameter = place.split(".")
        needed.setdefault(consumer, {})[parameter] = None
        for supplier, weight in suppliers.items():
            needed.setdefault(supplier, {})
            feeds.append(Feed(Supplier(supplier, ("id",)), consumer, parameter, evidence, weight))
    named = {name: tool(name, *parameters) for name, parameters in needed.items()} | {each.name: each for each in tools}
    if seed is not None:
        random.Random(seed).shuffle(feeds)
        order = sorted(named)
        random.Random(seed + 1).shuffle(order)
        named = {name: named[name] for name in order}
    return Fake(named, feeds)


def test_the_tool_graph_is_searched_as_it_is() -> None:
    graph = ToolGraph([tool("find_cities", "name", returns=CITIES), tool("weather", "city_id", "day")])
    best, *others = best_paths(graph, "weather")
    assert best.tools == ("find_cities", "weather")
    (feed,) = best.feeds
    assert (feed.supplier.path, feed.consumer, feed.parameter) == (("cities", "[]", "city_id"), "weather", "city_id")
    assert best.complete
    assert best.proved
    assert [(each.tools, each.open) for each in others] == [(("weather",), (("weather", "city_id"),))]
    assert others[0].stopped == "all"


def test_suppliers_of_suppliers_come_first_and_each_once() -> None:
    graph = fake({"pay.order": {"order": 1}, "pay.card": {"card": 1}, "order.user": {"me": 1}, "card.user": {"me": 1}})
    best = best_paths(graph, "pay", k=1)[0]
    assert set(best.tools) == {"me", "order", "card", "pay"}
    assert (best.tools[0], best.tools[-1]) == ("me", "pay")
    assert best.cost == 3
    assert len(best.feeds) == 4


def test_what_the_task_has_is_not_sought() -> None:
    graph = fake({"pay.order_id": {"order": 1}, "order.user_id": {"me": 1}})
    assert best_paths(graph, "pay")[0].tools == ("me", "order", "pay")
    assert best_paths(graph, "pay", {"order_id"})[0].tools == ("pay",)
    assert best_paths(graph, "pay", {"pay.order_id"})[0].complete
    assert best_paths(graph, "pay", {"order.user_id"})[0].tools == ("order", "pay")
    found = best_paths(graph, "pay", {"order"})[0]  # a tool that was found: not again, but it feeds
    assert found.tools == ("pay",)
    assert [each.supplier.tool for each in found.feeds] == ["order"]
    assert best_paths(graph, "pay", {"pay", "no such thing"})[0].tools == ("me", "order", "pay")


def test_what_no_tool_supplies_stays_open_and_is_named() -> None:
    graph = fake({"pay.order_id": {"order": 1}}, tool("pay", "order_id", "card_id", "day"), tool("order", "user_id"))
    best = best_paths(graph, "pay")[0]
    assert best.tools == ("order", "pay")
    assert set(best.open) == {("pay", "card_id"), ("order", "user_id")}  # a day is what a task states
    assert not best.complete


def test_a_target_without_suppliers_is_its_own_path() -> None:
    (path,) = best_paths(fake({}, tool("now")), "now")
    assert path == ToolPath(("now",), stopped="all")


def test_cycles_end() -> None:
    graph = fake({"a.id": {"b": 1, "a": 1}, "b.id": {"c": 1}, "c.id": {"a": 1, "b": 1}})
    for path in best_paths(graph, "a", k=9):
        assert len(set(path.tools)) == len(path.tools)
        assert all(path.tools.index(f.supplier.tool) < path.tools.index(f.consumer) for f in path.feeds)


def test_the_surer_supplier_comes_first_and_the_next_is_the_next_path() -> None:
    graph = fake({"pay.order": {"old": 0.4, "new": 0.9, "never": 0.0}})
    assert [each.tools for each in best_paths(graph, "pay")] == [("new", "pay"), ("old", "pay"), ("pay",)]


def test_by_names_alone_the_look_up_of_the_thing_is_meant() -> None:
    edges = {"images.movie_id": {"get_movie_credits": 0.9, "list_keywords": 0.9, "search_movie": 0.9}}
    assert best_paths(fake(edges, evidence="names"), "images")[0].tools == ("search_movie", "images")
    assert best_paths(fake(edges, evidence="seen"), "images")[0].tools == ("get_movie_credits", "images")


def test_what_only_reads_is_preferred_to_what_writes() -> None:
    graph = fake({"pay.order": {"a_create": 1, "b_find": 1}}, tool("a_create", effect=Effect.WRITE))
    assert best_paths(graph, "pay")[0].tools == ("b_find", "pay")


def test_optional_parameters_need_no_supplier() -> None:
    graph = fake({"pay.order_id": {"order": 1}}, tool("pay", optional="order_id"))
    assert best_paths(graph, "pay")[0].tools == ("pay",)


def test_of_one_suppliers_fields_the_surest_is_taken() -> None:
    graph = fake({"pay.order": {"order": 0.2}})
    surer = Feed(Supplier("order", ("deep", "id")), "pay", "order", "seen", 0.8)
    assert best_paths(Fake(graph.protocols, [*graph.edges, surer]), "pay")[0].feeds == (surer,)


def test_a_lower_price_of_open_parameters_asks_the_task_instead() -> None:
    graph = fake({"pay.order": {"order": 0.5}})
    assert best_paths(graph, "pay", prices=Prices(target=1))[0].open == (("pay", "order"),)


def test_what_runs_had_from_the_task_most_often_is_left_to_the_task() -> None:
    often, seldom = ({"pay.order": {"order": share}} for share in (0.9, 0.1))
    assert best_paths(fake(often, evidence="seen"), "pay")[0].tools == ("order", "pay")
    assert best_paths(fake(seldom, evidence="seen"), "pay")[0].open == (("pay", "order"),)
    assert best_paths(fake(seldom, evidence="stated"), "pay")[0].complete  # here the weight says which, not whether


def test_too_few_steps_are_said() -> None:
    edges = {f"t{n}.p{p}": {f"t{(n * 7 + p * 3 + i) % 60}": 0.5 for i in range(5)} for n in range(60) for p in range(3)}
    paths = best_paths(fake(edges), "t0", budget=50)
    assert paths
    assert {each.stopped for each in paths} == {"budget"}
    assert not paths[0].proved
    assert paths == best_paths(fake(edges), "t0", budget=50)


WEIGHTS = st.sampled_from([0.2, 0.5, 1.0])
NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
EDGES = st.dictionaries(
    st.builds("{}.{}".format, NAMES, st.sampled_from(["x", "y"])),
    st.dictionaries(NAMES, WEIGHTS, max_size=3),
    min_size=1,
    max_size=7,
)


@given(EDGES, st.integers(0, 99))
def test_the_order_of_tools_and_edges_changes_nothing(edges: Mapping[str, Mapping[str, float]], seed: int) -> None:
    graph, other = fake(edges), fake(edges, seed=seed)
    for target in graph.protocols:
        assert best_paths(graph, target, k=4) == best_paths(other, target, k=4)
    for source in graph.protocols:
        for target in set(graph.protocols) - {source}:
            assert paths_between(graph, source, target) == paths_between(other, source, target)


@given(EDGES)
def test_chains_are_what_trying_all_finds(edges: Mapping[str, Mapping[str, float]]) -> None:
    graph = fake(edges)
    links = {(each.supplier.tool, each.consumer) for each in graph.edges if each.supplier.tool != each.consumer}

    def all_from(chain: tuple[str, ...], target: str) -> list[tuple[str, ...]]:
        if chain[-1] == target:
            return [chain]
        return [
            found
            for supplier, consumer in sorted(links)
            if supplier == chain[-1] and consumer not in chain
            for found in all_from((*chain, consumer), target)
        ]

    for source in graph.protocols:
        for target in set(graph.protocols) - {source}:
            found = paths_between(graph, source, target, k=100)
            assert sorted(each.tools for each in found) == sorted(all_from((source,), target))
            assert [each.cost for each in found] == sorted(each.cost for each in found)


def test_a_chain_names_what_it_leaves_open() -> None:
    graph = fake({"pay.order": {"order": 1}, "pay.card": {"card": 1}, "order.user": {"me": 1, "log_in": 0.5}})
    (path,) = paths_between(graph, "me", "pay")
    assert path.tools == ("me", "order", "pay")
    assert path.open == (("pay", "card"),)
    assert [(each.supplier.tool, each.consumer) for each in path.feeds] == [("me", "order"), ("order", "pay")]
    assert paths_between(graph, "pay", "me") == []


def test_an_optional_argument_links_tools_that_no_required_one_does() -> None:
    edges = {"orders.customer_id": {"customers": 0.6, "order": 0.4}, "order.order_id": {"orders": 0.6}}
    graph = fake(edges, tool("orders", optional="customer_id"))
    assert paths_between(graph, "customers", "orders")[0].tools == ("customers", "orders")
    (path,) = paths_between(graph, "customers", "order")
    assert path.tools == ("customers", "orders", "order")
    assert [(each.supplier.tool, each.parameter) for each in path.feeds] == [
        ("customers", "customer_id"),
        ("orders", "order_id"),
    ]
    assert not path.open
    both = fake({"pay.order": {"order": 0.2}, "pay.note": {"order": 1}}, tool("pay", "order", optional="note"))
    assert [each.parameter for each in paths_between(both, "order", "pay")[0].feeds] == ["order"], "the required one"
    among = [replace(each, last=True) for each in graph.edges]
    assert paths_between(Fake(graph.protocols, among), "customers", "orders") == [], "no last choice is for an option"


def test_a_chain_over_a_write_comes_behind_all_that_only_read() -> None:
    edges = {"d.x": {"c": 0.2, "w": 1}, "c.x": {"b": 0.2}, "b.x": {"a": 0.2}, "w.x": {"a": 1}}
    graph = fake(edges, tool("w", "x", effect=Effect.WRITE))
    assert [each.tools for each in paths_between(graph, "a", "d")] == [("a", "b", "c", "d"), ("a", "w", "d")]
    from_write = fake({"d.x": {"w": 1, "c": 1}, "c.x": {"w": 1}}, tool("w", effect=Effect.WRITE))
    assert paths_between(from_write, "w", "d")[0].tools == ("w", "d"), "where one starts, one is"


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf")])
def test_prices_that_make_no_sense_are_named(price: float) -> None:
    with pytest.raises(UsageError, match="the price 'open' is from 0"):
        Prices(open=price)


def test_a_weight_that_is_no_number_is_no_edge() -> None:
    graph = fake({"pay.order_id": {"odd": float("nan"), "order": 0.1}})
    assert [each.tools for each in best_paths(graph, "pay")] == [("order", "pay"), ("pay",)]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda graph: best_paths(graph, "wheather"), "'wheather' is no tool of the graph"),
        (lambda graph: best_paths(graph, "pay", k=0), "at least 1, not 0"),
        (lambda graph: best_paths(graph, "pay", budget=0), "at least 1"),
        (lambda graph: paths_between(graph, "ordr", "pay"), "'ordr' is no tool"),
        (lambda graph: paths_between(graph, "pay", "pay"), "not from 'pay' to itself"),
    ],
)
def test_wrong_input_is_named(call: object, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        call(fake({"pay.order": {"order": 1}}))  # type: ignore[operator]
