"""Parameters that mean the same are one cluster, with the evidence; the paper's own table is the first test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from atc.graph.clusters import ParameterClusters
from atc.graph.edges import Counts, Learnt, Place
from atc.tools.protocol import Protocol


def tool(called: str, returns: Any = None, /, **parameters: str | tuple[str, str]) -> Protocol:
    """A tool; of each parameter the description, or that and the type."""
    pairs = {key: (about, "string") if isinstance(about, str) else about for key, about in parameters.items()}
    properties = {key: {"description": about, "type": kind} for key, (about, kind) in pairs.items()}
    return Protocol(name=called, parameters={"type": "object", "properties": properties}, returns=returns)


def clusters(*tools: Protocol, **options: Any) -> ParameterClusters:
    return ParameterClusters({each.name: each for each in tools}, **options)


def taken(tool: str, name: str) -> Place:
    return Place(tool, (name,), True)


TABLE = [
    tool("get_locations", name="Name of the city."),
    tool("get_hospital_list", city="The city where the hospital is located.", name="Name of the hospital."),
    tool(
        "find_cheapest_prescription",
        city_name="The name of the city where the user wants to search for the medication.",
    ),
]


def test_the_table_of_the_paper() -> None:
    found = clusters(*TABLE)
    assert found.members("city_name") == [
        taken("find_cheapest_prescription", "city_name"),
        taken("get_hospital_list", "city"),
        taken("get_locations", "name"),
    ]
    assert found.members("hospital_name") == [taken("get_hospital_list", "name")]
    assert found.of(taken("get_locations", "name")).why == ("description", "type")
    assert found.of(taken("get_hospital_list", "city")).why == ("name", "type")


def test_a_field_and_a_parameter_of_one_meaning_are_one_cluster() -> None:
    item = {"type": "object", "properties": {"id": {"type": "integer"}, "title": {"type": "string"}}}
    movies = {"type": "object", "properties": {"movies": {"type": "array", "items": item}}}
    found = clusters(tool("search", movies, query="Words"), tool("get_movie", movie_id=("Which", "string")))
    assert found.members("movie_id") == [
        Place("get_movie", ("movie_id",), True),
        Place("search", ("movies", "[]", "id"), False),
    ]
    assert found.of(Place("search", ("movies", "[]", "id"), False)).why[0] == "owner"
    assert found.members("movie_name") == [Place("search", ("movies", "[]", "title"), False)]


def test_what_is_called_alike_and_is_of_another_type_stays_apart() -> None:
    found = clusters(tool("a", date=("When", "string")), tool("b", date=("When", "integer")))
    assert found.of(taken("a", "date")).cluster != found.of(taken("b", "date")).cluster


def test_meanings_that_end_alike_join_where_their_descriptions_do() -> None:
    pick_up = tool("rent", pick_up_place_id="Google place identifier of a station on the map")
    other = tool("route", google_place_id="A Google place identifier, of a station on the map")
    far = tool("tidy", market_place_id="Stall at which somebody sells vegetables")
    found = clusters(pick_up, other, far)
    assert found.of(taken("rent", "pick_up_place_id")).cluster == found.of(taken("route", "google_place_id")).cluster
    assert found.of(taken("tidy", "market_place_id")).cluster == "market_place_id"
    joined = [found.of(each) for each in found.members(found.of(taken("rent", "pick_up_place_id")).cluster)]
    assert sum("likeness" in each.why for each in joined) == 1


class Letters:
    """Encodes a text by the letters that it begins with after the colon."""

    name, digest, dimensions = "letters", "00", 26

    def check(self) -> None: ...

    def encode(self, texts: Sequence[str]) -> Any:
        vectors = np.zeros((len(texts), 26), np.float32)
        for row, text in enumerate(texts):
            vectors[row, ord(text.split(": ")[1][0].lower()) - 97] = 1
        return vectors


def test_an_encoder_compares_by_meaning() -> None:
    tools = [tool("a", big_shop_id="Xylophones"), tool("b", small_shop_id="xenon"), tool("c", old_shop_id="yak")]
    found = clusters(*tools, encoder=Letters())
    homes = [found.of(taken(*each)).cluster for each in (("a", "big_shop_id"), ("b", "small_shop_id"))]
    assert homes[0] == homes[1] != found.of(taken("c", "old_shop_id")).cluster


def test_the_user_joins_and_parts() -> None:
    city, hospital = taken("get_locations", "name"), taken("get_hospital_list", "name")
    joined = clusters(*TABLE, same={(city, hospital): True})
    assert joined.of(city).cluster == joined.of(hospital).cluster
    assert "corrected" in joined.of(hospital).why
    town = taken("get_hospital_list", "city")
    parted = clusters(*TABLE, same={(city, town): False, (city, taken("get_locations", "gone")): True})
    assert parted.of(hospital).cluster == "hospital_name"
    assert parted.of(city).cluster != parted.of(town).cluster
    assert "corrected" in parted.of(town).why


def test_a_new_tool_joins_its_cluster_and_counts_nothing() -> None:
    found = clusters(*TABLE)
    seen = Learnt(feeds={("x", ("city",), "get_hospital_list", "city"): Counts(ok=3, failed=1, last=7)})
    assert found.counts("city_name", seen) == Counts(3, 1, 7)
    found.add({"weather": tool("weather", city="Where"), "pay": tool("pay", coupon_code="Of a coupon")})
    assert taken("weather", "city") in found.members("city_name")
    assert found.counts("city_name", seen) == Counts(3, 1, 7)
    assert found.counts("coupon_code", seen) == Counts()
    found.add({"weather": tool("weather", day="Which")})
    assert taken("weather", "city") not in found.members("city_name")


_WORD = st.sampled_from(["city", "id", "name", "from", "user", "code", "data", "", "ü", "home_city_id", "x" * 300])
_ABOUT = st.text(max_size=30) | st.sampled_from(["Name of the city", "the id", "id of", "city's code", "name of of"])


@given(st.lists(st.dictionaries(_WORD, _ABOUT, max_size=4), max_size=4), st.randoms())
def test_every_place_is_in_one_cluster_and_the_order_of_tools_changes_nothing(
    parameters: list[dict[str, str]], random: Any
) -> None:
    properties = [{name: {"description": about} for name, about in each.items()} for each in parameters]
    tools = {f"t{n}": Protocol(name=f"t{n}", parameters={"properties": each}) for n, each in enumerate(properties)}
    found = ParameterClusters(tools)
    places = [Place(key, (name,), True) for key, each in zip(tools, parameters, strict=True) for name in each]
    assert sorted(place for name in found.names for place in found.members(name)) == sorted(places)
    keys = list(tools)
    random.shuffle(keys)
    again = ParameterClusters({})
    for key in keys:
        again.add({key: tools[key]})
    assert all(again.of(place) == found.of(place) for place in places)
