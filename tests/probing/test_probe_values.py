"""Which values probing tries for an argument: those that were seen, and those that anybody would think of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from atc.probing.candidates import (
    MAX_COMBINATIONS,
    Candidate,
    Seen,
    ValuePool,
    candidates,
    combinations,
    is_word,
    least_sure,
)
from atc.schemas.identifiers import affinity, words_of
from tests.support.time import little_work

# -- which value fits which argument ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "tool", "field", "owner", "least", "most"),
    [
        ("city_id", "get_city", "city_id", "hotel", 1.0, 1.0),
        ("cityId", "get_city", "city_id", "hotel", 1.0, 1.0),
        ("from_city_id", "route", "city_id", "city", 0.8, 0.99),
        ("city_id", "get_city", "id", "cities", 0.8, 0.99),
        ("country_code", "find", "home_country_code", "user", 0.5, 0.9),
        ("currency", "convert", "code", "currencies", 0.3, 0.7),
        ("name", "find_countries", "name", "country", 0.3, 0.7),
        ("id", "get_city", "id", "list_cities", 0.3, 0.7),
        ("id", "get_city", "id", "list_hotels", 0, 0),
        ("city_id", "get_city", "id", "hotel", 0, 0),
        ("city_id", "get_city", "hotel_id", "hotel", 0, 0),
        ("name", "find_country", "name", "hotel", 0, 0),
        ("limit", "find", "name", "hotel", 0, 0),
        ("q", "search", "id", "hotel", 0, 0),
        ("", "search", "id", "hotel", 0, 0),
    ],
)
def test_affinity_of_a_parameter_and_a_field(
    parameter: str, tool: str, field: str, owner: str, least: float, most: float
) -> None:
    assert least <= affinity(parameter, tool, field, frozenset(words_of(owner))) <= most


def values(pool: ValuePool, parameter: str, tool: str, schema: dict[str, Any] | None = None) -> list[Any]:
    return [seen.value for _, seen in pool.fitting(parameter, tool, schema)]


def test_a_pool_offers_what_belongs_to_the_thing_first() -> None:
    pool = ValuePool()
    pool.add("list_hotels", {}, [{"id": 7, "city": {"id": 1, "name": "Rome"}}])
    pool.add("list_cities", {}, [{"city_id": 2}])
    assert values(pool, "city_id", "get_city") == [2, 1]
    assert values(pool, "hotel_id", "get_hotel") == [7]
    assert values(pool, "planet_id", "get_planet") == []


def test_a_pool_offers_the_ids_of_a_list_of_the_things_before_what_refers_to_them() -> None:
    pool = ValuePool()
    pool.add("list_orders", {}, {"items": [{"id": 50, "lines": [{"product_id": 3}, {"product_id": 4}]}]})
    pool.add("list_products", {}, {"items": [{"id": 1}, {"id": 2}]})
    assert values(pool, "product_id", "get_product") == [1, 2, 3, 4]
    assert values(pool, "order_id", "get_order") == [50]


def test_a_pool_tells_where_a_value_was_seen() -> None:
    pool = ValuePool()
    pool.add("list_cities", {"page": 2, "country": "IT"}, {"cities": [{"city_id": "x"}]})
    (_, seen), *_ = pool.fitting("city_id", "get_city")
    assert seen == Seen("x", "list_cities", (("country", "IT"), ("page", 2)), ("cities", 0, "city_id"))
    assert (seen.field, seen.owner) == ("city_id", frozenset({"city"}))


def test_a_value_of_another_type_does_not_fit() -> None:
    pool = ValuePool()
    pool.add(
        "list_cities", {}, [{"city_id": "x"}, {"city_id": 5}, {"city_id": 1.5}, {"city_id": True}, {"city_id": None}]
    )
    assert values(pool, "city_id", "t", {"type": "integer"}) == [5]
    assert sorted(values(pool, "city_id", "t", {"type": ["number", "null"]})) == [1.5, 5]
    assert values(pool, "city_id", "t", {"type": "boolean"}) == []
    assert len(values(pool, "city_id", "t")) == 3


def test_what_a_tool_answered_itself_comes_last() -> None:
    pool = ValuePool()
    pool.add("get_city", {}, {"city_id": "own"})
    pool.add("list_hotels", {}, {"city_id": "other"})
    assert values(pool, "city_id", "get_city") == ["other", "own"]


def test_a_pool_is_bounded_whatever_is_put_in() -> None:
    pool = ValuePool()
    deep: Any = {"city_id": 1}
    for _ in range(500):
        deep = [deep]
    pool.add("deep", {}, deep)
    pool.add("long", {}, {"city_id": "x" * 10_000, "empty": ""})
    pool.add("many", {}, [{"city_id": number} for number in range(1_000)])
    assert 1 <= len(pool.fitting("city_id", "t")) <= 8


def test_one_big_answer_does_not_take_the_place_of_all_others() -> None:
    pool = ValuePool()
    for page in range(3):
        pool.add("big", {"page": page}, {f"a{n}": {f"b{n}_{m}": n * m for m in range(150)} for n in range(150)})
    pool.add("list_cities", {}, [{"city_id": "c-1"}])
    assert values(pool, "city_id", "get_city") == ["c-1"]


def test_a_full_pool_is_asked_quickly() -> None:
    pool = ValuePool()
    for tool in range(400):
        pool.add(
            f"list_things{tool}",
            {},
            [{f"thing{tool}_id": row, "name": f"n{row}", f"size{tool}": row} for row in range(5)],
        )
    with little_work(20 * 0.1):
        for tool in range(20):
            assert values(pool, f"thing{tool}_id", f"get_thing{tool}")


# -- values before a model is asked -----------------------------------------------------------------------------------


def candidate_values(parameter: str, schema: dict[str, Any] | None = None, **options: Any) -> list[Any]:
    return [c.value for c in candidates(parameter, schema or {}, tool="t", pool=options.pop("pool", None), **options)]


def test_what_a_schema_tells_comes_first() -> None:
    assert candidate_values("x", {"const": 5})[0] == 5
    assert candidate_values("x", {"type": "string", "enum": ["a", "b"]})[:2] == ["a", "b"]
    assert candidate_values("page", {"type": "integer", "default": 3})[0] == 3
    assert candidate_values("x", {"example": "e", "examples": ["f"]})[:2] == ["f", "e"]


@pytest.mark.parametrize(
    ("parameter", "schema", "first"),
    [
        ("country_code", {}, "FR"),
        ("birth_date", {"type": "string"}, "2025-06-16"),
        ("lat", {}, 48.85),
        ("page", {}, 1),
        ("nights", {}, 10),
        ("contact", {"type": "string", "format": "email"}, "ada@example.org"),
        ("when", {"format": "date-time"}, "2025-06-16T12:00:00Z"),
        ("flag", {"type": "boolean"}, True),
        ("n", {"type": "integer"}, 1),
    ],
)
def test_what_the_world_has_agreed_on(parameter: str, schema: dict[str, Any], first: Any) -> None:
    assert candidate_values(parameter, schema)[0] == first


@pytest.mark.parametrize("schema", [{}, {"type": "integer"}, {"type": "string"}])
def test_nobody_is_sure_of_an_id_that_was_seen_nowhere(schema: dict[str, Any]) -> None:
    assert all(c.sure < 0.5 for c in candidates("city_id", schema, tool="t", pool=None))


def test_no_candidate_comes_twice() -> None:
    found = candidate_values("page", {"type": "integer", "enum": [1, 1, 2], "default": 1, "example": 1.0})
    assert found == [1, 2, 10]


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": "abc"},
        {"examples": {"a": 1}},
        {"type": 5},
        {"type": None},
        {"default": float("nan")},
        {"enum": [float("inf")]},
        {"type": [{"a": 1}]},
        {"default": {"a": [1]}},
        {"format": ["x"]},
    ],
)
def test_an_odd_schema_is_no_trouble(schema: dict[str, Any]) -> None:
    json.dumps(candidate_values("thing", schema), allow_nan=False)


@pytest.mark.parametrize(
    ("parameter", "word"), [("q", True), ("search_term", True), ("name", True), ("limit", False), ("", False)]
)
def test_a_word_is_for_somebody_who_knows_the_matter(parameter: str, word: bool) -> None:
    assert is_word(parameter) is word


def options(**named: list[Any]) -> dict[str, list[Candidate]]:
    return {
        name: [Candidate(value, 1.0 - index / 10) for index, value in enumerate(listed)]
        for name, listed in named.items()
    }


def plain(ways: Any) -> list[dict[str, Any]]:
    return [{name: candidate.value for name, candidate in way.items()} for way in ways]


def test_combinations_begin_with_the_likeliest_and_change_one_at_a_time() -> None:
    ways = plain(combinations(options(a=[1, 2], b=["x", "y"])))
    assert ways[0] == {"a": 1, "b": "x"}
    assert {"a": 2, "b": "x"} in ways[1:3]
    assert {"a": 1, "b": "y"} in ways[1:3]
    assert {"a": 2, "b": "y"} in ways
    assert len(ways) == len({json.dumps(way, sort_keys=True) for way in ways})


def test_combinations_are_bounded_and_need_a_value_for_each_argument() -> None:
    assert plain(combinations({})) == [{}]
    assert plain(combinations(options(a=[1], b=[]))) == []
    many = {f"p{n}": list(range(20)) for n in range(30)}
    assert len(plain(combinations(options(**many)))) <= MAX_COMBINATIONS


def test_two_ends_of_one_thing_are_tried_with_different_values() -> None:
    ways = plain(combinations(options(origin=["A", "B"], destination=["A", "B"])))
    assert ways[0] == {"origin": "A", "destination": "B"}


def test_a_way_is_as_sure_as_its_least_sure_value() -> None:
    assert least_sure({}) == 1.0
    assert least_sure({"a": Candidate(1, 0.9), "b": Candidate(1, 0.2)}) == 0.2
