"""The picture of the tool graph: what is in it, where it stands, and that it is bounded."""

from __future__ import annotations

import json
import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as some

from atc.catalogue.graph.edges import Counts, Learnt, Substitute
from atc.serve.pages.tool_graph.drawing import HEIGHT, ORDER, WIDTH, Drawing, columns_of, drawing_of, layout_of
from atc.serve.pages.tool_graph.page import data_of, html_of, svg_of
from tests.support.graphs import GivenGraph, a_feed, a_tool

NAMES = [f"t{number}" for number in range(12)]
ENDS = some.tuples(some.sampled_from(NAMES), some.sampled_from(NAMES)).filter(lambda ends: ends[0] != ends[1])
GRAPHS = some.lists(some.tuples(ENDS, some.sampled_from("abc"), some.sampled_from(ORDER)), max_size=40).map(
    lambda edges: GivenGraph([a_tool(name, "a", "b", "c") for name in NAMES],
                             [a_feed(*ends, parameter, kind) for ends, parameter, kind in edges]))  # fmt: skip


@given(GRAPHS)
def test_every_tool_has_a_place_of_its_own_and_the_picture_is_the_same_again(graph: GivenGraph) -> None:
    drawing = drawing_of(graph)
    layout = layout_of(drawing)
    assert set(layout.places) == set(NAMES)
    boxes = sorted(layout.places.values())
    for (x, y), (other_x, other_y) in combinations(boxes, 2):
        assert other_x >= x + WIDTH or abs(other_y - y) >= HEIGHT
    assert all(x >= 0 and y >= 0 and x + WIDTH <= layout.width and y + HEIGHT <= layout.height for x, y in boxes)
    assert layout_of(drawing_of(graph)) == layout


def test_a_chain_runs_from_left_to_right_and_alternatives_do_not_push_it_on() -> None:
    tools = [a_tool(name, "id") for name in ("find", "get", "book", "also")]
    feeds = [a_feed("find", "get"), a_feed("get", "book"), a_feed("book", "also"), a_feed("find", "also")]
    drawing = drawing_of(GivenGraph(tools, feeds))
    assert columns_of(drawing.tools, drawing.edges) == {"find": 0, "get": 1, "book": 2, "also": 1}
    places = layout_of(drawing).places
    assert places["find"][0] < places["get"][0] < places["book"][0]


def test_tools_that_wait_for_each_other_stand_somewhere() -> None:
    circle = [a_feed("a", "b"), a_feed("b", "c"), a_feed("c", "a")]
    drawing = drawing_of(GivenGraph([a_tool(name, "id") for name in "abc"], circle))
    assert sorted(columns_of(drawing.tools, drawing.edges).values()) == [0, 1, 2]


def test_very_deep_graphs_are_folded_and_very_wide_ones_wrapped() -> None:
    names = [f"t{number}" for number in range(300)]
    chain = GivenGraph([a_tool(name, "id") for name in names], [a_feed(*ends) for ends in pairwise(names)])
    deep = layout_of(drawing_of(chain))
    assert max(deep.column.values()) < 40
    star = GivenGraph([a_tool(name, "id") for name in names], [a_feed("t0", name) for name in names[1:]])
    wide = layout_of(drawing_of(star))
    assert wide.height < 3 * wide.width


def a_star(many: int) -> GivenGraph:
    """One tool feeds all others, the later ones more surely."""
    names = [f"t{number:03}" for number in range(many)]
    feeds = [a_feed(names[0], name, weight=number / many) for number, name in enumerate(names) if number]
    return GivenGraph([a_tool(name, "id") for name in names], feeds)


def test_a_picture_is_bounded_and_says_what_is_left_out() -> None:
    graph = a_star(100)
    most = drawing_of(graph, most_tools=10)
    assert len(most.tools) == 10
    assert "t000" in most.tools
    assert most.left_out == ("10 of 100 tools are shown: those with the most edges.",)
    surest = drawing_of(graph, most_edges=5)
    assert [edge.consumer for edge in surest.edges] == ["t099", "t098", "t097", "t096", "t095"]
    assert surest.left_out == ("5 of 99 edges between them are shown: the surest.",)
    assert drawing_of(graph).left_out == ()


def test_what_is_near_a_tool_is_shown_the_surest_first() -> None:
    graph = a_star(100)
    assert drawing_of(graph, ["t007"], 1).tools == ("t000", "t007")
    assert drawing_of(graph, ["t007"], 0).tools == ("t007",)
    near = drawing_of(graph, ["t007"], 2, most_tools=4)
    assert near.tools == ("t000", "t007", "t098", "t099")
    assert near.left_out == ("4 of 100 tools are shown: what is near t007.",)
    twin = GivenGraph([a_tool(name, "id") for name in "abc"], (), [Substitute("a", "b", 0.5, {}, ("types",))])
    assert drawing_of(twin, ["a"], 1).tools == ("a", "b")


def hostile() -> Drawing:
    words = "</script><img src=x onerror=alert(1)>\x00\u202e & ]]>"
    tools = [a_tool("a", "<b>", description=words, service=words), a_tool("b", "<b>", **{"<i>id": {"type": "string"}})]
    learnt = Learnt(calls={"a": Counts(3, 1, 1.8e9)}, shapes={"a": {"type": "object", "properties": {"x": {}}}})
    substitutes = [Substitute("a", "b", 0.5, {"<b>": words}, ("types", "use"))]
    return drawing_of(GivenGraph(tools, [a_feed("b", "a", "<b>", "seen", 0.8, 2)], substitutes, learnt))


def test_the_page_has_the_facts_as_data_and_no_markup_of_strangers() -> None:
    page = html_of(hostile())
    assert page.count("<script") == 2
    assert page.count("<img") == 0
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert text is not None
    data = json.loads(text[1])
    assert data["edges"] == [[1, 0, ORDER.index("seen"), 1, [["id", "<b>", ORDER.index("seen"), 0.8, 2]]]]
    assert data["tools"][0]["calls"] == [3, 1, 1.8e9]
    assert data["tools"][0]["fields"] == ["x"]
    assert data["tools"][0]["arguments"] == [["<b>", "string", True]]
    assert data["tools"][1]["fields"] == ["<i>id"]
    assert data["substitutes"][0][:4] == [0, 1, 0.5, ["its types fit", "it took its place in runs"]]


def test_what_one_tool_can_put_into_the_page_is_bounded() -> None:
    fields = {f"field_{number}": {"type": "string"} for number in range(500)}
    tool = a_tool("a", *(f"p{number}" for number in range(500)), description="x" * 20_000, **fields)
    shown = data_of(drawing_of(GivenGraph([tool])))["tools"][0]
    assert (len(shown["text"]), len(shown["arguments"]), len(shown["fields"]), shown["more"]) == (
        601,
        80,
        80,
        [420, 420],
    )


def test_the_drawing_is_well_formed_static_and_plain() -> None:
    svg = svg_of(hostile())
    root = ElementTree.fromstring(svg)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags == {"svg", "title", "defs", "marker", "path", "rect", "g", "text"}
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert texts[:2] == ["a", "b"]
    assert {"seen in runs", "can take its place"} <= set(texts)
    assert svg.count("stroke-dasharray") == 2  # the edge, and its line in the legend
    assert ElementTree.fromstring(svg_of(drawing_of(GivenGraph([])))) is not None


@pytest.mark.slow
def test_two_thousand_tools_with_ten_thousand_edges_are_drawn() -> None:
    names = [f"t{number}" for number in range(2000)]
    ends = [(names[n % 2000], names[(n * 7919 + n // 2000 + 1) % 2000]) for n in range(10_000)]
    feeds: dict[str, list[object]] = {}
    for one, other in ends:
        feeds.setdefault(other, []).append(a_feed(one, other))
    graph = GivenGraph([a_tool(name, "id") for name in names])
    graph.feeds = lambda consumer: feeds.get(consumer, [])  # type: ignore[assignment,return-value]
    drawing = drawing_of(graph)
    page = html_of(drawing)
    assert len(drawing.tools) == 2000
    assert len(drawing.edges) > 9_000
    assert len(page) < 4_000_000
