"""Paths through the tool graph: which tools come first, what feeds what, what stays open, and why it ended."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.catalogue.graph.edges import Evidence, Feed
from atc.catalogue.graph.suppliers import Supplier
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.errors import UsageError
from atc.result import Effect
from atc.schemas.protocol import JsonSchema, Protocol
from atc_research.naviagent.search import Prices, ToolPath, best_paths, must_be_given

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


def test_a_search_supplies_what_a_body_must_have_and_nothing_that_it_may() -> None:
    product = {"type": "object", "properties": {"product_id": {"type": "string"}}}
    items: JsonSchema = {"type": "array", "items": product}
    sells = Protocol(name="sells", returns={"type": "array", "items": product})

    def buys(*required: str) -> Protocol:
        lines = items | {"items": product | {"required": list(required)}}
        return Protocol(name="buys", parameters={"properties": {"lines": lines}, "required": ["lines"]})

    feed = Feed(Supplier("sells", ("[]", "product_id"), inside=("[]", "product_id")), "buys", "lines", "names", 0.6)
    for tool_, tools in ((buys("product_id"), ("sells", "buys")), (buys(), ("buys",))):
        assert best_paths(Fake({"sells": sells, "buys": tool_}, [feed]), "buys")[0].tools == tools


@pytest.mark.parametrize(
    "odd", [{"required": 1}, {"required": ["lines"], "properties": {"lines": []}}, {"properties": 1}]
)
def test_what_is_no_schema_demands_nothing(odd: JsonSchema) -> None:
    assert not must_be_given(odd, ("lines", "[]", "product_id"))


def test_a_weight_that_is_no_number_is_no_edge() -> None:
    graph = fake({"pay.order_id": {"odd": float("nan"), "order": 0.1}})
    assert [each.tools for each in best_paths(graph, "pay")] == [("order", "pay"), ("pay",)]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda graph: best_paths(graph, "wheather"), "'wheather' is no tool of the graph"),
        (lambda graph: best_paths(graph, "pay", k=0), "at least 1, not 0"),
        (lambda graph: best_paths(graph, "pay", budget=0), "at least 1"),
    ],
)
def test_wrong_input_is_named(call: object, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        call(fake({"pay.order": {"order": 1}}))  # type: ignore[operator]
