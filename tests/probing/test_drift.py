"""A service that moved is told field by field, and what chance explains is not called a change."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from atc.probing.drift import MAX_CHANGES, compare
from atc.schemas.infer.shape import Shape
from tests.schemas.test_infer import MANY_VALUES


def schema_of(*values: Any) -> dict[str, Any]:
    shape = Shape()
    for value in values:
        shape.add(value)
    return shape.schema()


def told(old: Any, new: Any) -> list[tuple[str, str]]:
    return [(change.path, change.kind) for change in compare(old, new)]


CITY = {"id": 1, "name": "Rome", "area": {"km2": 1285.5}, "tags": ["capital"]}


@given(MANY_VALUES)
def test_nothing_changed_where_nothing_changed(values: list[Any]) -> None:
    assert compare(schema_of(*values), schema_of(*values)) == []


@given(MANY_VALUES, MANY_VALUES)
def test_any_two_schemas_can_be_compared(old: list[Any], new: list[Any]) -> None:
    for change in compare(schema_of(*old), schema_of(*new)):
        assert change.path.startswith("$")


def test_fields_that_came_went_and_changed() -> None:
    old = schema_of(CITY, CITY, CITY)
    moved = {"id": "c1", "title": "Rome", "area": {"km2": None}, "tags": [7]}
    changes = compare(old, schema_of(moved, moved, moved))
    assert {(change.path, change.kind) for change in changes} == {
        ("$.id", "type_changed"),
        ("$.name", "gone"),
        ("$.title", "added"),
        ("$.area.km2", "now_nullable"),
        ("$.tags[]", "type_changed"),
    }
    gone = next(change for change in changes if change.kind == "gone")
    assert gone.evidence == {"before": {"seen": 3, "of": 3}, "after": {"seen": 0, "of": 3}}
    assert gone.before == "string"
    assert {change.path for change in changes if change.breaks} == {"$.id", "$.name", "$.tags[]"}


def test_an_optional_field_that_one_answer_lacks_is_not_gone() -> None:
    old = schema_of(CITY, CITY, {**CITY, "mayor": "x"})
    assert told(old, schema_of(CITY)) == []
    assert told(old, schema_of(CITY, CITY)) == []
    assert told(old, schema_of(*[CITY] * 12)) == [("$.mayor", "gone")]


def test_a_field_that_was_always_there_and_is_sometimes_not_is_now_optional() -> None:
    old, less = schema_of(CITY, CITY, CITY), {key: value for key, value in CITY.items() if key != "name"}
    assert told(old, schema_of(CITY, less)) == [("$.name", "now_optional")]
    assert told(old, schema_of(less)) == [("$.name", "now_optional")]  # one answer: not yet gone
    assert told(old, schema_of(less, less)) == [("$.name", "gone")]


def test_a_rare_field_that_was_not_seen_before_may_have_been_there() -> None:
    old = schema_of(CITY, CITY)
    assert told(old, schema_of(CITY, CITY, {**CITY, "mayor": "x"})) == [("$.mayor", "newly_seen")]
    assert told(schema_of(*[CITY] * 12), schema_of(*[{**CITY, "mayor": "x"}] * 3)) == [("$.mayor", "added")]


def test_less_than_was_known_is_no_change() -> None:
    old = schema_of({"x": 1.5, "y": "a", "z": None, "l": [1]}, {"x": None, "y": "a", "z": None, "l": []})
    new = schema_of({"x": 2, "y": "a", "z": "now known", "l": []}, {"x": 3, "y": "a", "z": "b", "l": []})
    assert told(old, new) == []


def test_formats_and_members() -> None:
    old = schema_of(
        *({"at": f"2024-01-0{day}", "state": state} for day, state in zip("123456789", "abababaab", strict=True))
    )
    new = schema_of(
        *({"at": f"0{day}.01.2024", "state": state} for day, state in zip("123456789", "acacacaca", strict=True))
    )
    assert told(old, new) == [("$.at", "format_changed"), ("$.state", "enum_changed")]
    fewer = schema_of(*({"at": "2024-01-01", "state": state} for state in "aabbaabb"))
    assert told(old, fewer) == []


def test_new_keys_of_a_dictionary_are_no_new_fields() -> None:
    old = schema_of({"2024-01-01": {"usd": 1.5}, "2024-01-02": {"usd": 2.5}})
    assert told(old, schema_of({"2025-06-07": {"usd": 3.5}})) == []
    assert told(old, schema_of({"2025-06-07": {"usd": "3.5"}})) == [("${}.usd", "type_changed")]


def test_a_record_that_became_a_dictionary() -> None:
    assert told(schema_of({"a": 1}, {"a": 2}), schema_of({"2024-01-01": 1})) == [("$", "now_dictionary")]


def test_written_schemas_are_taken_at_their_word() -> None:
    old = {
        "type": "object",
        "properties": {"city": {"$ref": "#/$defs/City"}, "old": {"type": "string"}},
        "$defs": {
            "City": {"anyOf": [{"type": "object", "properties": {"name": {"type": "string"}}}, {"type": "null"}]}
        },
    }
    new = {
        "type": "object",
        "properties": {"city": {"allOf": [{"type": "object", "properties": {"name": {"type": ["string", "null"]}}}]}},
    }
    assert told(old, new) == [("$.city.name", "now_nullable"), ("$.old", "gone")]


def test_an_alternative_that_lacks_a_field_makes_it_optional() -> None:
    record = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert told({"oneOf": [record, {"type": "null"}]}, {"oneOf": [record, {"type": "null"}]}) == []
    assert told(record, {"anyOf": [record, {"type": "null"}]}) == [("$", "now_nullable")]


def test_what_is_unknown_is_no_difference() -> None:
    assert compare(None, schema_of(CITY)) == compare(schema_of(CITY), None) == compare({}, schema_of(CITY)) == []


def test_schemas_without_end_are_compared_in_bounded_time() -> None:
    node = {"type": "object", "properties": {name: {"$ref": "#/$defs/Node"} for name in "abc"}}
    other = {"type": "object", "properties": {name: {"$ref": "#/$defs/Node"} for name in "abd"}}
    changes = compare(
        {"$ref": "#/$defs/Node", "$defs": {"Node": node}}, {"$ref": "#/$defs/Node", "$defs": {"Node": other}}
    )
    assert 0 < len(changes) <= MAX_CHANGES
    assert changes[-1].kind in ("gone", "added")
