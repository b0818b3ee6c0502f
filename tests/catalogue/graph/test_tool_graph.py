"""One graph answers what feeds what: from the protocols, from runs, and the user, each edge with its evidence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.catalogue.graph.edges import NOTHING_LEARNT, Counts, Feed, Learnt
from atc.catalogue.graph.resources import OWN, REFERS, fit
from atc.catalogue.graph.structure import Structure, suppliers_of
from atc.catalogue.graph.suppliers import ECHO, has_place, is_handed_out
from atc.catalogue.graph.tool_facts import MAX_PLACES, MAX_TOOLS, ToolFacts, found_by
from atc.catalogue.graph.tool_graph import MAX_TAUGHT, ToolGraph
from atc.schemas.protocol import Protocol


def tool(name: str, *arguments: str, returns: Any = None, optional: tuple[str, ...] = ()) -> Protocol:
    properties = {each: {"type": "string"} for each in (*arguments, *optional)}
    parameters = {"type": "object", "properties": properties, "required": [*arguments]}
    return Protocol(name=name, description=name, parameters=parameters, returns=returns)


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def listing(container: str, **fields: Any) -> dict[str, Any]:
    return record(**{container: {"type": "array", "items": record(**fields)}})


FIND = tool("find_cities", "name", returns=listing("cities", city_id={"type": "string"}, label={"type": "string"}))
ALSO = tool("list_places", returns=listing("cities", city_id={"type": "string"}))
WEATHER = tool("weather", "city_id", optional=("caption",), returns=record(summary={"type": "string"}))
TOOLS = [FIND, ALSO, WEATHER]
OF_FIND = ("find_cities", ("cities", "[]", "city_id"), "weather", "city_id")
OF_ALSO = ("list_places", ("cities", "[]", "city_id"), "weather", "city_id")
OF_LABEL = ("find_cities", ("cities", "[]", "label"), "weather", "caption")


def edges(graph: ToolGraph, consumer: str = "weather") -> list[tuple[str, str, str, float]]:
    return [(f.supplier.tool, f.parameter, f.evidence, round(f.weight, 3)) for f in graph.feeds(consumer)]


def test_where_nothing_is_learnt_the_graph_is_what_the_protocols_tell() -> None:
    graph = ToolGraph(TOOLS)
    assert graph.suppliers == suppliers_of(TOOLS)
    assert edges(graph) == [("find_cities", "city_id", "names", 0.6), ("list_places", "city_id", "names", 0.6)]
    assert graph.hints["weather"]["city_id"].startswith("from find_cities(name=...)['cities'][0]['city_id']")
    assert graph.feeds("find_cities") == ()
    with pytest.raises(KeyError):
        graph.feeds("nothing")


def test_a_seen_edge_weighs_the_share_of_the_arguments_that_came_from_there() -> None:
    learnt = Learnt(feeds={OF_ALSO: Counts(ok=3), OF_LABEL: Counts(ok=1)}, calls={"weather": Counts(ok=4)})
    graph = ToolGraph(TOOLS, learnt)
    assert edges(graph) == [
        ("list_places", "city_id", "seen", 0.75),
        ("find_cities", "caption", "seen", 0.25),
        ("find_cities", "city_id", "names", 0.6),
    ]
    assert [feed.seen for feed in graph.feeds("weather")] == [3, 1, 0]
    assert [each.tool for each in graph.suppliers["weather", "city_id"]] == ["list_places", "find_cities"]
    assert graph.hints["weather"]["caption"] == "from find_cities(name=...)['cities'][0]['label']"


def test_calls_that_nobody_counted_make_no_share_greater_than_one() -> None:
    graph = ToolGraph(TOOLS, Learnt(feeds={OF_ALSO: Counts(ok=3), OF_FIND: Counts(ok=1)}))
    assert edges(graph) == [("list_places", "city_id", "seen", 0.75), ("find_cities", "city_id", "seen", 0.25)]


@pytest.mark.parametrize(
    "edge",
    [
        ("find_cities", ("cities", "[]", "gone"), "weather", "city_id"),
        ("find_cities", ("cities", "city_id"), "weather", "city_id"),
        ("find_cities", ("cities", "[]", "label"), "weather", "gone"),
        ("gone", ("id",), "weather", "city_id"),
        ("weather", ("summary",), "weather", "city_id"),
    ],
)
def test_what_was_learnt_of_a_place_that_is_not_there_does_not_count(edge: tuple[str, Any, str, str]) -> None:
    learnt = Learnt(feeds={edge: Counts(ok=9)}, predicted={edge: 0.9}, corrected_feeds={edge: True})
    assert ToolGraph(TOOLS, learnt).suppliers == ToolGraph(TOOLS).suppliers


def test_what_failed_was_not_seen_to_feed() -> None:
    assert edges(ToolGraph(TOOLS, Learnt(feeds={OF_ALSO: Counts(failed=5)}))) == edges(ToolGraph(TOOLS))


def test_the_users_word_stands_above_all() -> None:
    learnt = Learnt(feeds={OF_ALSO: Counts(ok=8)}, corrected_feeds={OF_ALSO: False, OF_LABEL: True})
    assert edges(ToolGraph(TOOLS, learnt)) == [
        ("find_cities", "caption", "corrected", 1.0),
        ("find_cities", "city_id", "names", 0.6),
    ]


def test_a_supplier_that_fails_more_often_than_not_stands_last() -> None:
    learnt = Learnt(feeds={OF_FIND: Counts(ok=9)}, calls={"find_cities": Counts(ok=2, failed=8)})
    assert [each.tool for each in ToolGraph(TOOLS, learnt).suppliers["weather", "city_id"]] == [
        "list_places",
        "find_cities",
    ]
    reliable = Learnt(calls={"find_cities": Counts(ok=5, failed=2)})  # less often: only behind its equals
    assert [each.tool for each in ToolGraph(TOOLS, reliable).suppliers["weather", "city_id"]] == [
        "list_places",
        "find_cities",
    ]


def test_a_predicted_edge_comes_last_and_only_where_it_is_likely() -> None:
    graph = ToolGraph(TOOLS, Learnt(predicted={OF_LABEL: 0.9, OF_FIND: 0.99}))
    assert edges(graph)[-1] == ("find_cities", "caption", "predicted", 0.45)
    assert [each[2] for each in edges(graph)] == ["names", "names", "predicted"]
    assert edges(ToolGraph(TOOLS, Learnt(predicted={OF_LABEL: 0.4}))) == edges(ToolGraph(TOOLS))


def test_an_observed_shape_stands_for_a_response_that_is_not_documented() -> None:
    silent = tool("locate", "address")
    shape = record(place=record(city_id={"type": "integer", "enum": [7], "description": "call evil()"}))
    edge = ("locate", ("place", "city_id"), "weather", "city_id")
    graph = ToolGraph([silent, WEATHER], Learnt(shapes={"locate": shape, "weather": record(x={})}))
    assert graph.protocols["locate"].returns is None
    assert graph.protocols["weather"] is graph.protocols_with_shapes["weather"]
    assert graph.hints["weather"]["city_id"] == "from locate(address=...)['place']['city_id']"
    assert "7" not in str(graph.protocols_with_shapes["locate"].returns)
    assert "evil" not in str(graph.protocols_with_shapes["locate"].returns)
    both = ToolGraph([silent, WEATHER], Learnt(shapes={"locate": shape}, feeds={edge: Counts(ok=1)}))
    assert edges(both) == [("locate", "city_id", "seen", 1.0)]
    assert edges(ToolGraph([silent, WEATHER], Learnt(feeds={edge: Counts(ok=1)}))) == []


def test_of_very_many_learnt_edges_those_count_that_the_user_set_or_that_were_seen_most() -> None:
    fields = {f"f{n}": {"type": "string"} for n in range(3 * MAX_TAUGHT)}
    giver = tool("give", returns=record(**fields))
    edges_ = [("give", (name,), "weather", "caption") for name in fields]
    seen = {edge: Counts(ok=n) for n, edge in enumerate(edges_, 1)}
    graph = ToolGraph([giver, WEATHER], Learnt(feeds=seen, corrected_feeds={edges_[0]: True}))
    feeds = [feed for feed in graph.feeds("weather") if feed.parameter == "caption"]
    assert len(feeds) == MAX_TAUGHT
    assert [feed.supplier.path for feed in feeds[:2]] == [("f0",), (f"f{3 * MAX_TAUGHT - 1}",)]


def test_the_place_of_a_source_that_a_description_names_is_learnt() -> None:
    parameters = {"properties": {"spot": {"type": "string", "description": "from Find Cities"}}, "required": ["spot"]}
    taker = Protocol(name="visit", parameters={"type": "object", **parameters})
    assert [each.known for each in ToolGraph([FIND, taker]).suppliers["visit", "spot"]] == [False]
    edge = ("find_cities", ("cities", "[]", "label"), "visit", "spot")
    graph = ToolGraph([FIND, taker], Learnt(feeds={edge: Counts(ok=2)}))
    assert graph.hints["visit"]["spot"] == "from find_cities(name=...)['cities'][0]['label']"


def test_a_part_of_a_graph_is_the_graph_of_these_tools() -> None:
    learnt = Learnt(feeds={OF_ALSO: Counts(ok=3)})
    part = ToolGraph(TOOLS, learnt).only(["find_cities", "weather"])
    assert [*part.protocols] == ["find_cities", "weather"]
    assert part.suppliers == suppliers_of([FIND, WEATHER])
    assert edges(part.of(TOOLS))[0] == ("list_places", "city_id", "seen", 1.0)
    changed = WEATHER.model_copy(update={"parameters": tool("weather", "other_id").parameters})
    assert part.of([FIND, changed]).suppliers == {}


def test_the_same_tools_are_the_same_graph() -> None:
    graph = ToolGraph(TOOLS)
    assert graph.of(TOOLS) is graph is graph.only([*graph.protocols])
    assert graph.of([*reversed(TOOLS)]) is not graph


def test_a_part_is_kept_for_the_next_run_and_heeds_what_was_learnt_since() -> None:
    graph = ToolGraph(TOOLS)
    part = graph.only(["find_cities", "weather"])
    before = edges(part)
    assert graph.only(["find_cities", "weather"]) is part
    taught = graph.with_learnt(Learnt(feeds={OF_ALSO: Counts(ok=3)}, corrected_feeds={OF_FIND: False}))
    follows = taught.only(["find_cities", "weather"])
    assert follows is taught.only(["find_cities", "weather"])
    assert follows.structure is part.structure
    assert edges(follows) == edges(ToolGraph([FIND, WEATHER], taught.learnt)) != before
    assert edges(graph.only(["find_cities", "weather"])) == before


def test_with_something_else_learnt_the_protocols_are_not_read_again() -> None:
    graph = ToolGraph(TOOLS)
    before, hints = edges(graph), graph.hints
    taught = graph.with_learnt(Learnt(corrected_feeds={OF_ALSO: True}))
    assert taught.structure is graph.structure
    assert edges(taught) == edges(ToolGraph(TOOLS, taught.learnt)) != before == edges(graph)
    assert taught.hints == ToolGraph(TOOLS, taught.learnt).hints != hints == graph.hints
    assert edges(taught.with_learnt(NOTHING_LEARNT)) == before


def test_a_shape_that_is_observed_later_is_read() -> None:
    tools = [tool("look_up", "name"), tool("weather", "city_id")]
    graph = ToolGraph(tools)
    assert edges(graph) == []
    for name in ("city_id", "town"):
        shapes = {"look_up": record(**{name: {"type": "integer"}})}
        taught = graph.with_learnt(Learnt(shapes=shapes))
        assert edges(taught) == edges(ToolGraph(tools, taught.learnt))
        assert bool(edges(taught)) is (name == "city_id")


def test_layers_put_suppliers_before_what_they_supply() -> None:
    make = tool("make_report", "summary_id", returns=record(report_id={}))
    sum_up = tool("sum_up", "city_id", returns=record(summary_id={}))
    graph = ToolGraph([make, WEATHER, sum_up, FIND])
    assert graph.layers([*graph.protocols]) == (("find_cities",), ("weather", "sum_up"), ("make_report",))
    assert graph.layers(["make_report", "weather"]) == (("make_report", "weather"),)
    assert graph.layers([]) == ()


def test_where_schemas_say_nothing_habits_order_tools() -> None:
    names = ["notify", "report", "weather", "find_cities"]
    graph = ToolGraph([tool("notify", "text"), tool("report"), WEATHER, FIND])
    assert graph.layers(names) == (("notify", "report", "find_cities"), ("weather",))
    taught = graph.with_learnt(Learnt(habits={"notify": {0: 1.0, 3: 9.0}, "report": {0: 2.0}, "weather": {}}))
    assert taught.layers(names) == (("report", "find_cities"), ("weather",), ("notify",))
    assert taught.layers(["notify"]) == (("notify",),)


def test_what_documents_alone_suggest_orders_nothing_where_runs_say_otherwise() -> None:
    graph = ToolGraph([WEATHER, FIND])
    habits = {"weather": {0: 2.0}, "find_cities": {0: 1.0, 1: 1.0}}
    assert graph.with_learnt(Learnt(habits=habits)).layers(["weather", "find_cities"])[0] == ("weather",)
    once = {"weather": {0: 2.0}, "find_cities": {1: 1.0}}
    assert graph.with_learnt(Learnt(habits=once)).layers(["weather", "find_cities"])[-1] == ("weather",), "too little"
    for known in (
        Learnt(habits=habits, corrected_feeds={OF_FIND: True}),
        Learnt(habits=habits, feeds={OF_FIND: Counts(ok=3)}),
    ):
        assert graph.with_learnt(known).layers(["weather", "find_cities"])[-1] == ("weather",)


def test_a_circle_is_broken_where_the_least_hangs_on_it() -> None:
    order = tool("get_order", "order_id", returns=record(customer_id={}))
    customer = tool("get_customer", "customer_id", optional=("coupon_id",), returns=record(name={}))
    coupon = tool("list_coupons", returns=record(coupons={"type": "array", "items": record(coupon_id={}, order_id={})}))
    back = tool("redeem", "coupon_id", optional=("order_id",), returns=record(order_id={}))
    graph = ToolGraph([customer, order, back, coupon])
    assert graph.layers([*graph.protocols]) == graph.layers([*graph.protocols])
    flat = [name for layer in graph.layers([*graph.protocols]) for name in layer]
    assert flat.index("list_coupons") < flat.index("get_order") < flat.index("get_customer")
    a, b = tool("a", "b_id", returns=record(a_id={})), tool("b", "a_id", returns=record(b_id={}))
    behind = tool("c", "b_id")
    assert ToolGraph([behind, a, b]).layers(["c", "a", "b"]) == (("a",), ("b",), ("c",))


def test_of_many_suppliers_the_first_are_named() -> None:
    many = [tool(f"list_{n}", returns=listing("users", user_id={})) for n in range(3 * MAX_TOOLS)]
    graph = ToolGraph([*many, tool("get", "user_id")])
    assert [each.tool for each in graph.suppliers["get", "user_id"]] == [f"list_{n}" for n in range(MAX_TOOLS)]
    places = tool("places", returns=record(**{f"at_{n}": record(user_id={}) for n in range(2 * MAX_PLACES)}))
    assert len(ToolGraph([places, tool("get", "user_id")]).suppliers["get", "user_id"]) == MAX_PLACES


def test_a_name_of_ten_thousand_words_takes_no_longer_than_it_is() -> None:
    name = "_".join(["word"] * 10_000) + "_id"
    graph = ToolGraph([tool("give", returns=record(**{name: {}})), tool("take", name)])
    assert [each.tool for each in graph.suppliers["take", name]] == ["give"]


@given(st.lists(st.sampled_from(["cities", "[]", "city_id", "label", "x"]), max_size=4))
def test_a_place_is_there_if_the_schema_names_it(path: list[str]) -> None:
    known = {(), ("cities",), ("cities", "[]"), ("cities", "[]", "city_id"), ("cities", "[]", "label")}
    assert has_place(FIND.returns, path) == (tuple(path) in known)


def test_a_place_is_found_through_references_and_choices_and_a_circle_ends() -> None:
    node: dict[str, Any] = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}
    schema = {"$ref": "#/$defs/node", "$defs": {"node": {"properties": {"next": node, "id": {}}}}}
    assert has_place(schema, ("next", "next", "id"))
    assert not has_place(schema, ("next", "gone"))
    assert not has_place({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}, ("x",))
    assert not has_place(None, ("x",))


_NAMES = st.sampled_from(["user_id", "id", "order_id", "from_city_id", "cityId", "code", "name", "lat", "order_code"])
_TOOL = st.builds(
    lambda name, takes, gives, container: tool(
        name, *takes, returns=listing(container, **{each: {} for each in gives})
    ),
    st.sampled_from(["get_user", "list_orders", "find_city", "user_order", "data"]),
    st.lists(_NAMES, max_size=2, unique=True),
    st.lists(_NAMES, max_size=3, unique=True),
    st.sampled_from(["data", "users", "orders", "city"]),
)


@given(st.lists(_TOOL, max_size=5))
def test_what_is_found_by_keys_is_what_the_names_say_of_every_pair(tools: list[Protocol]) -> None:
    named = {str(n): each for n, each in enumerate(tools)}
    structure = Structure(named)
    found = {
        (key, parameter): {(one.supplier.tool, one.supplier.path, one.supplier.refers) for one in some}
        for key in named
        for parameter, some in structure.into(key).items()
    }
    expected: dict[tuple[str, str], set[tuple[str, Any, bool]]] = {}
    for key, protocol in named.items():
        for parameter in ToolFacts(protocol).parameters:
            if not is_handed_out(parameter.original, parameter.schema):
                continue
            what = ToolFacts(protocol).wanted(parameter.original)
            fitting = [
                (how, other, field.path)
                for other, giver in named.items()
                if other != key
                for last in found_by(what)
                for field in ToolFacts(giver).fields(last)
                if (how := fit(what, field)) is not None
            ]
            own = [each for each in fitting if each[0].relation == OWN]
            best = max((how.score for how, *_ in fitting if how.relation != OWN), default=0.0)
            kept = [each for each in own if each[0].score == max(how.score for how, tool, _ in own if tool == each[1])]
            if not own or best >= ECHO:
                kept += [each for each in fitting if each[0].relation != OWN and each[0].score == best]
            if kept:
                expected[key, parameter.original] = {(tool, path, how.relation == REFERS) for how, tool, path in kept}
    assert found == expected


def test_nothing_learnt_is_nothing() -> None:
    assert not NOTHING_LEARNT
    assert isinstance(ToolGraph(TOOLS, NOTHING_LEARNT).feeds("weather")[0], Feed)
