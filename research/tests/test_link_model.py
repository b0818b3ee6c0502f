"""Features of edges between tools, and the model that predicts them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.catalogue.graph.tool_graph import ToolGraph
from atc.errors import UsageError
from atc.schemas.protocol import Protocol
from atc_research.naviagent.link_features import DIRECTED, FEATURES, LinkFeatures, step_of
from atc_research.naviagent.link_model import LinkModel, likeliest, load, predict_feeds, reversed_features, shipped


def protocol(
    name: str, takes: dict[str, Any] | None = None, gives: dict[str, Any] | None = None, about: str = ""
) -> Protocol:
    parameters = {"type": "object", "properties": takes, "required": list(takes)}
    returns = {"type": "object", "properties": gives} if gives is not None else None
    return Protocol(name=name, description=about, parameters=parameters, returns=returns)


TEXT = {"type": "string"}
TOOLS = {
    each.name: each
    for each in (
        protocol("search_hotels", {"city": TEXT}, {"hotel_name": TEXT, "stars": {"type": "integer"}}, "Find hotels"),
        protocol("reserve_room", {"hotel_name": TEXT}, {"confirmation": TEXT}, "Reserve a room of a hotel"),
        protocol("translate_text", {"text": TEXT, "language": TEXT}, {"translated": TEXT}, "Translate a text"),
        protocol("get_forecast", {"day": TEXT}, {"rain": {"type": "number"}}, "Weather of a day"),
        protocol("play_song", {"song_title": TEXT}, None, "Play music"),
    )
}


def test_the_provider_is_likelier_than_all_others_and_than_the_reverse() -> None:
    features = LinkFeatures(TOOLS)
    into = {key: shipped().chances(features.into(key)) for key in TOOLS}
    forward = into["reserve_room"][features.rows["search_hotels"]]
    assert forward == max(chance for key in TOOLS for row, chance in enumerate(into[key]) if row != features.rows[key])
    assert into["search_hotels"][features.rows["reserve_room"]] < 0.5 < forward
    assert likeliest(features, "reserve_room", shipped(), 1)[0][1] == "search_hotels"


def test_a_predicted_edge_names_field_and_parameter() -> None:
    found = predict_feeds(ToolGraph(TOOLS), threshold=0.5)
    assert ("search_hotels", ("hotel_name",), "reserve_room", "hotel_name") in found
    assert all(0.5 <= chance <= 1 for chance in found.values())
    assert not any(provider == consumer for provider, _, consumer, _ in found)
    assert predict_feeds(TOOLS, ["reserve_room"], threshold=0.5).keys() <= found.keys()
    with pytest.raises(UsageError, match="no tool is named 'gone'"):
        predict_feeds(TOOLS, ["gone"])
    assert predict_feeds(TOOLS, threshold=1.0) == {}
    assert predict_feeds({}) == predict_feeds({"play_song": TOOLS["play_song"]}) == {}


def test_types_that_exclude_each_other_are_no_place() -> None:
    tools = {
        "count_rooms": protocol("count_rooms", {}, {"room": {"type": "object"}}),
        "paint_room": protocol("paint_room", {"room": {"type": "integer"}}),
    }
    assert not list(LinkFeatures(tools).places("count_rooms", "paint_room"))


def test_the_reverse_of_an_edge_has_its_features_reversed() -> None:
    features = LinkFeatures(TOOLS)
    for one in TOOLS:
        for other in TOOLS:
            if one != other:
                edge = features.into(other)[[features.rows[one]]]
                back = features.into(one)[[features.rows[other]]]
                assert np.allclose(reversed_features(edge), back, atol=1e-6)
    assert len(FEATURES) == edge.shape[1] > 2 * DIRECTED


@given(
    st.dictionaries(st.text(max_size=12), st.sampled_from([TEXT, {}, {"type": ["string", "null"]}, True]), max_size=5)
)
def test_any_schema_has_features(properties: dict[str, Any]) -> None:
    tools = {
        **TOOLS,
        "odd": Protocol(name="odd", parameters={"properties": properties}, returns={"properties": properties}),
    }
    features = LinkFeatures(tools)
    for key in tools:
        assert np.isfinite(features.into(key)).all()
    assert all(0 <= chance <= 1 for chance in predict_feeds(tools, threshold=0.0).values())


def test_vectors_take_part_where_they_are_given() -> None:
    vectors = np.eye(len(TOOLS), dtype=np.float32)
    assert shipped(vectors=True).vectors
    assert LinkFeatures(TOOLS, vectors).into("play_song")[:, FEATURES.index("cosine")].tolist() == [0, 0, 0, 0, 1]
    predict_feeds(TOOLS, vectors=vectors)
    with pytest.raises(UsageError, match="vectors"):
        predict_feeds(TOOLS, model=shipped(vectors=True))


def test_a_model_comes_back_from_its_record() -> None:
    again = LinkModel.read(json.loads(json.dumps(shipped().record())))
    rows = LinkFeatures(TOOLS).into("reserve_room")
    assert np.array_equal(again.chances(rows), shipped().chances(rows))


@pytest.mark.parametrize(
    "change",
    [
        {"version": 9},
        {"weights": {}},
        {"weights": {name: [1e9, 0] for name in FEATURES}},
        {"weights": {name: ["1", 0] for name in FEATURES}},
        {"weights": {name: [float("nan"), 0] for name in FEATURES}},
        {"weights": {name: [1] for name in FEATURES}},
        {"bias": None},
    ],
)
def test_a_record_that_is_no_model_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="link model"):
        LinkModel.read({**shipped().record(), **change})
    with pytest.raises(UsageError, match="link model"):
        LinkModel.read([])


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "{}" + " " * 200_000])
def test_a_file_that_holds_no_model_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "links.json"
    file.write_text(text)
    with pytest.raises(UsageError, match="holds no link model"):
        load(file)
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "missing.json")


def test_verbs_have_an_order() -> None:
    assert step_of("searchHotels") < step_of("book_hotel") < step_of("cancel_booking")
    assert step_of("frobnicate") == 0.5
