"""The layers of a run as its steps, and where a run that was cut off goes on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.catalogue.graph.edges import Feed
from atc.catalogue.graph.suppliers import Supplier
from atc.catalogue.sketch import Sketch
from atc.tools.tool import Toolset
from atc_research.reto.layers import MAX_LAYERS, CutOff, Layers
from tests.support.tools import make_tool

NAMES = [f"tool_{letter}" for letter in "abcdefgh"]
TOOLS = Toolset(make_tool(name, None, required=("x",), x={"type": "string"}, y={"type": "string"}) for name in NAMES)


def feed(supplier: str, consumer: str, parameter: str = "x") -> Feed:
    return Feed(Supplier(f"tool_{supplier}", ("x",), ()), f"tool_{consumer}", parameter, "names", 1.0)


def context(layers: list[str], *feeds: Feed, tools: Toolset = TOOLS, **inputs: Any) -> Any:
    """What :class:`Layers` reads of a run: layers as letters."""
    named = tuple(tuple(f"tool_{letter}" for letter in layer) for layer in layers)
    into = SimpleNamespace(feeds=lambda name: [each for each in feeds if each.consumer == name])
    sketch, graph = Sketch(tools, layers=named), SimpleNamespace(of=lambda _: into)
    settings = SimpleNamespace(active_rules=frozenset())
    given = {"sketch": sketch, "settings": settings, "tools": tools, "inputs": inputs}
    return SimpleNamespace(whole_graph=graph, all_tools=TOOLS, **given)


def letters(layers: Layers) -> list[str]:
    return ["".join(name.removeprefix("tool_") for name in layer) for layer in layers.tools]


def of(layers: list[str], *feeds: Feed, names: str = "abcdefgh") -> list[str]:
    return letters(Layers.of(context(layers, *feeds, tools=TOOLS.only(*(f"tool_{each}" for each in names)))))


@pytest.mark.parametrize(
    ("layers", "names", "found"),
    [
        ([], "abc", ["abc"]),
        (["a", "b"], "ab", ["a", "b"]),
        (["a", "b"], "abc", ["ca", "b"]),  # what nobody placed comes first
        (["a", "", "b"], "ab", ["a", "b"]),
        (["a", "h", "b"], "ab", ["a", "b"]),  # what is not offered is in no layer
        (["a", "ba"], "ab", ["a", "ba"]),  # a tool may be in two
        (["a", "b", "c", "d", "e", "f", "g"], "abcdefg", ["a", "b", "c", "d", "efg"]),
    ],
)
def test_the_sketchs_layers_are_the_steps(layers: list[str], names: str, found: list[str]) -> None:
    assert of(layers, names=names) == found


def test_a_tool_is_as_early_as_one_supplier_of_each_required_argument_allows() -> None:
    assert of(["a", "b", "c"], feed("a", "b"), feed("b", "c"), names="abc") == ["a", "b", "c"]
    assert of(["a", "b", "c"], feed("a", "b"), feed("b", "c"), feed("a", "c"), names="abc") == ["a", "bc"]
    assert of(["a", "b"], feed("a", "b", "y"), names="ab") == ["ab"]  # it can be left out
    assert of(["a", "b", "c"], feed("a", "b", "y"), names="abc") == ["ab", "c"]  # nothing explains c: it stays
    assert of(["a", "d", "bc"], feed("a", "b"), names="abcd") == ["a", "d", "bc"]  # b stood later in earlier runs
    assert of(["a", "b", "ca"], feed("a", "b"), feed("b", "c"), names="abc") == ["a", "b", "ca"]


@given(
    st.lists(st.text("abcdefgh", max_size=4), max_size=8),
    st.lists(st.tuples(*[st.sampled_from("abcdefgh")] * 2, st.sampled_from("xy")), max_size=15),
)
def test_every_tool_has_a_step_and_there_are_few(layers: list[str], edges: list[tuple[str, str, str]]) -> None:
    made = Layers.of(context(layers, *(feed(*edge) for edge in edges)))
    assert {name for layer in made.tools for name in layer} == set(NAMES)
    assert all(made.tools)
    assert all(len(set(layer)) == len(layer) for layer in made.tools)
    assert len(made.names) == len(made.tools) <= MAX_LAYERS


def test_what_stays_on_offer() -> None:
    made = Layers.of(context(["abcd", "efg", "h"], feed("a", "e"), feed("b", "h"), feed("h", "f"), feed("a", "h")))
    assert letters(made)[0] == "abcd"

    def offered(step: int, done: str = "", skipped: tuple[int, ...] = ()) -> str:
        names = made.offered(step, {f"tool_{each}" for each in done}, skipped)
        return "".join(name.removeprefix("tool_") for name in names)

    assert offered(0) == "abcd"
    assert set(offered(1)) == {*letters(made)[1], "c", "d"}  # nothing is known of c and d
    assert set(offered(1, done="c")) == {*letters(made)[1], "d"}
    assert set(offered(1, skipped=(0,))) == {*letters(made)[1], *"abcd"}
    assert offered(1, skipped=(0,), done="abcd") == letters(made)[1]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"layers": "tool_a"},
        {"layers": [["tool_a"], ["tool_z"]], "variables": ["step1", "step2"]},
        {"layers": [["tool_a"], [3]], "variables": ["step1", "step2"]},
        {"layers": [["tool_a"], ["tool_b"]], "variables": ["step1"]},
        {"layers": [["tool_a"], ["tool_b"]], "variables": ["step1", "__import__"]},
        {"layers": [["tool_a"], ["tool_b"]], "variables": [1, {}]},
        {"layers": None, "variables": None},
        {"layers": [["tool_a"], ["tool_b"]], "variables": ["step1", "step1"]},
        {"layers": [["tool_a"], []], "variables": ["step1", "step2"]},
        {"layers": [["tool_a"]], "variables": ["step1"]},
        {"layers": [["tool_a"]] * 6, "variables": [f"step{n}" for n in range(6)]},
    ],
)
def test_a_trace_that_somebody_edited_gives_no_steps(data: dict[str, Any]) -> None:
    stored: Any = SimpleNamespace(latest=lambda: iter([{"kind": "layer_started", "data": data}]))
    assert CutOff.of(context([]), stored) is None


def test_a_run_goes_on_in_the_step_that_the_journal_names() -> None:
    began = {"layer": 1, "layers": [["tool_a"], ["tool_b"]], "variables": ["step1", "step2"], "tools": []}
    events = [
        {"kind": "program_written", "data": {"program": "whole = 1"}},
        {"kind": "layer_started", "data": began},
        {"kind": "program_written", "data": {"program": "answer = 1"}},
        {"kind": "program_written", "data": {"program": "answer = 2"}},
    ]
    stored: Any = SimpleNamespace(latest=lambda: iter(events))
    cut = CutOff.of(context([]), stored)
    assert cut is not None
    assert cut.programs == ("answer = 1", "answer = 2")
    cut = CutOff.of(context([], step1=7), stored)  # the stage is in the journal, and not yet in the trace
    assert cut is not None
    assert cut.programs == ()
    events += [{"kind": "stage_started", "data": {}}, {"kind": "layer_started", "data": began | {"layer": 2}}]
    cut = CutOff.of(context([], step1=7), stored)
    assert cut is not None
    assert cut.programs == ()
