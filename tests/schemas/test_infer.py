"""Observed values become a general schema: true of all that was seen, and saying no more than the evidence bears."""

from __future__ import annotations

import copy
import json
import tracemalloc
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.errors import UsageError
from atc.schemas.infer.evidence import MAX_DEPTH, MAX_FIELDS, MAX_NODES, MAX_VALUES
from atc.schemas.infer.shape import Shape
from atc.schemas.protocol import Protocol
from atc.schemas.validate import ensure_valid_schema, problems
from atc.tools.stubs import render_stub
from tests.support.time import little_work

PUBLISHED = Path(__file__).resolve().parents[2] / "protocols" / "protocol.schema.json"

KEYS = st.sampled_from(
    ["id", "name", "price", "next", "temp_c", "2024-01-01", "17", "USD", "EUR", "status", "token", "x"]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "on", "off", "2024-01-01", "2024-01-01T10:00:00Z", "12:30", "a@b.org", "https://a.b/c", "7"])
    | st.text(max_size=12)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=6),
    max_leaves=14,
)
MANY_VALUES = st.lists(VALUES, min_size=1, max_size=8)


def shape_of(*values: Any) -> Shape:
    shape = Shape()
    for value in values:
        shape.add(value)
    return shape


def schema_of(*values: Any) -> dict[str, Any]:
    return shape_of(*values).schema()


def field(name: str, *values: Any) -> dict[str, Any]:
    """What is said of one field that had these values."""
    return schema_of(*({name: value} for value in values))["properties"][name]  # type: ignore[no-any-return]


def fits(schema: dict[str, Any], value: Any) -> bool:
    return not problems(schema, value)


# --- what holds for every value ---------------------------------------------------------------------------------------


@given(MANY_VALUES)
def test_every_value_that_was_seen_fits(values: list[Any]) -> None:
    schema = schema_of(*values)
    assert [value for value in values if not fits(schema, value)] == []


@given(MANY_VALUES, MANY_VALUES)
def test_what_was_seen_still_fits_after_more_evidence(first: list[Any], more: list[Any]) -> None:
    shape = shape_of(*first)
    for value in more:
        shape.add(value)
    assert [value for value in first if not fits(shape.schema(), value)] == []


def in_any_order(schema: Any) -> Any:
    """A schema without what depends on the order of evidence alone: the order of names."""
    if isinstance(schema, dict):
        told = {key: in_any_order(value) for key, value in schema.items()}
        for key in ("required", "type"):
            if isinstance(told.get(key), list):
                told[key] = sorted(told[key])
        if str(told.get("description", "")).startswith(("paged", "keys")) or "paged" in str(
            told.get("description", "")
        ):
            told["description"] = sorted(str(told["description"]).replace(",", ";").split("; "))
        return told
    return [in_any_order(item) for item in schema] if isinstance(schema, list) else schema


@given(MANY_VALUES, MANY_VALUES)
def test_merging_is_adding_in_any_order(left: list[Any], right: list[Any]) -> None:
    one, other = shape_of(*left), shape_of(*right)
    one.root.merge(shape_of(*right).root)
    other.root.merge(shape_of(*left).root)
    assert in_any_order(one.schema()) == in_any_order(other.schema()) == in_any_order(schema_of(*left, *right))
    assert one.count == len(left) + len(right)


@given(MANY_VALUES, VALUES)
def test_evidence_survives_being_stored(values: list[Any], more: Any) -> None:
    shape = shape_of(*values)
    stored = json.loads(json.dumps(shape.to_json()))
    again = Shape.from_json(stored)
    assert again.to_json() == shape.to_json()
    shape.add(more)
    again.add(more)
    assert again.schema() == shape.schema()


def test_merging_leaves_the_other_as_it_is_and_shares_nothing_with_it() -> None:
    one, other = Shape(), shape_of({"a": [{"b": 1}]})
    before = copy.deepcopy(other.to_json())
    one.root.merge(other.root)
    one.add({"a": [{"b": "x", "c": 2}]})
    assert other.to_json() == before


@given(MANY_VALUES)
def test_what_is_inferred_is_a_protocol_whose_stub_can_be_written(values: list[Any]) -> None:
    schema = schema_of(*values)
    ensure_valid_schema(schema, "an inferred schema")
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    protocol = Protocol(name="probed", returns=schema)
    assert problems(json.loads(PUBLISHED.read_text("utf-8")), protocol.model_dump(mode="json")) == []
    render_stub(protocol)  # raises if the text is not the declarations that it should be


# --- types, null and presence -----------------------------------------------------------------------------------------


def test_a_field_that_was_always_there_is_required_and_says_how_often() -> None:
    schema = schema_of({"id": 1, "note": "x"}, {"id": 2}, {"id": 3, "note": None})
    assert schema["required"] == ["id"]
    assert schema["properties"]["id"]["x-atc-evidence"] == {"seen": 3, "of": 3}
    assert schema["properties"]["note"]["x-atc-evidence"] == {"seen": 2, "of": 3, "null": 1}
    assert schema["properties"]["note"]["type"] == ["string", "null"]


def test_one_object_proves_no_field_to_be_required() -> None:
    assert "required" not in schema_of({"id": 1})


def test_a_field_that_only_was_null_may_be_anything() -> None:
    said = field("end", None, None)
    assert "type" not in said
    assert said["description"] == "only null so far"
    assert fits(schema_of({"end": None}, {"end": None}), {"end": {"at": [1]}})
    assert field("end", None, "now")["type"] == ["string", "null"]


def test_whole_numbers_and_others_are_numbers() -> None:
    assert field("count", 1, 2)["type"] == "integer"
    assert field("count", 1, 2.5)["type"] == "number"


@pytest.mark.parametrize("name", ["price", "latitude", "temp_c", "averageScore"])
def test_whole_numbers_of_a_measure_do_not_rule_out_others(name: str) -> None:
    assert field(name, 28, 30)["type"] == "number"


@pytest.mark.parametrize("name", ["id", "page", "year", "total", "rate_id", "price_count"])
def test_what_is_counted_is_whole(name: str) -> None:
    assert field(name, 28, 30)["type"] == "integer"


def test_a_range_is_a_note_and_never_a_limit() -> None:
    schema = schema_of({"age": 3}, {"age": 90})
    assert schema["properties"]["age"]["x-atc-range"] == [3, 90]
    assert fits(schema, {"age": 1000})


def test_numbers_that_are_not_finite_or_beyond_bounds_do_no_harm() -> None:
    shape = shape_of({"x": float("nan")}, {"x": float("inf")}, {"x": 10**5000}, {"x": 2.0})
    assert shape.schema()["properties"]["x"]["x-atc-range"][0] == 2.0
    json.dumps(shape.to_json(), allow_nan=False)


# --- arrays -----------------------------------------------------------------------------------------------------------


def test_an_empty_array_does_not_poison_what_comes_later() -> None:
    only_empty = schema_of({"tags": []}, {"tags": []})
    assert only_empty["properties"]["tags"]["type"] == "array"
    assert "items" not in only_empty["properties"]["tags"]
    assert fits(only_empty, {"tags": ["a", 1]})
    assert schema_of({"tags": []}, {"tags": ["a"]})["properties"]["tags"]["items"]["type"] == "string"


def test_an_empty_object_does_not_poison_what_comes_later() -> None:
    schema = schema_of({"links": {}}, {"links": {"self": "https://a.b"}})
    assert schema["properties"]["links"]["properties"]["self"]["format"] == "uri"


def test_items_of_several_types_are_each_allowed() -> None:
    items = schema_of([1, "a", {"b": True}, None])["items"]
    assert sorted(items["type"]) == ["integer", "null", "object", "string"]
    assert items["properties"]["b"]["type"] == "boolean"


def test_rows_keep_the_type_of_each_position() -> None:
    schema = schema_of([["2024-01-01", 3, None], ["2024-01-02", 4.5, "x"]])["items"]
    assert [position["type"] for position in schema["prefixItems"]] == ["string", "number", ["string", "null"]]
    assert schema["description"] == "row of string, number, string or null"
    assert fits(schema, ["2024-01-03", 5, "y"])
    assert not fits(schema, [5, "2024-01-03", "y"])


def test_a_list_of_one_type_is_no_row_and_neither_are_lists_of_changing_length() -> None:
    assert "prefixItems" not in schema_of([[1.5, 2.5], [3.5, 4.5]])["items"]
    assert schema_of([[1.5, 2.5], [3.5, 4.5]])["items"]["description"] == "2 items so far"
    assert "prefixItems" not in schema_of([["a", 1], ["b", 2, "c"]])["items"]


# --- hostile input ----------------------------------------------------------------------------------------------------


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": [value]}
    return value


def test_depth_is_bounded() -> None:
    schema = schema_of(deep(400))
    assert fits(schema, deep(30))
    assert json.dumps(schema).count("properties") <= MAX_DEPTH


def test_a_hundred_thousand_keys_are_one_dictionary() -> None:
    with little_work():
        shape = shape_of({f"key {number}": number for number in range(100_000)})
    assert shape.schema()["additionalProperties"]["type"] == "integer"
    assert len(json.dumps(shape.to_json())) < 2000


def test_more_keys_than_a_record_may_have_in_any_order_of_evidence() -> None:
    left = {f"a{number}x": number for number in range(MAX_FIELDS - 10)}
    right = {f"b{number}x": number for number in range(20)}
    one, other = shape_of(left), shape_of(right)
    one.root.merge(shape_of(right).root)
    other.root.merge(shape_of(left).root)
    assert one.schema() == other.schema() == schema_of(left, right)
    assert "properties" not in one.schema()


def test_what_is_kept_is_bounded_whatever_is_fed() -> None:
    tracemalloc.start()
    shape = Shape()
    for number in range(40):
        shape.add({f"k{i}": {f"f{number}x{j}": "v" * 1000 + str(j) for j in range(40)} for i in range(60)})
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 40e6
    assert json.dumps(shape.to_json()).count('"count"') <= 3 * MAX_NODES
    ensure_valid_schema(shape.schema(), "the schema of a full shape")


def test_a_shape_that_is_full_still_fits_all_that_was_seen() -> None:
    values = [{f"k{i}": {f"f{n}_{j}": [n] for j in range(30)} for i in range(40)} for n in range(12)]
    values.append({"k0": {"late": {"x": 1}}, "late": [{"y": 2}]})
    schema = schema_of(*values)
    assert [value for value in values if not fits(schema, value)] == []


def test_huge_strings_cost_little_and_leave_nothing() -> None:
    with little_work():
        shape = shape_of(*({"body": "a1-" * 3_000_000} for _ in range(3)), {"x" * 1_000_000: 1})
    assert len(json.dumps(shape.to_json())) < 2000


@pytest.mark.parametrize(
    "text", ["a" * 1900 + "!", "1." * 900, "a-" * 900 + "!", ":" * 1900, "P" + "1Y" * 900, "a@" + "b." * 900]
)
def test_no_string_makes_the_forms_slow(text: str) -> None:
    with little_work():
        shape_of(*([text] * 20))


def test_only_few_and_short_values_are_remembered() -> None:
    shape = shape_of(*(f"value {number}" for number in range(MAX_VALUES + 1)))
    assert "value 1" not in json.dumps(shape.to_json())


def test_what_is_no_json_may_be_anything() -> None:
    assert fits(schema_of({"x": object()}, {"x": 1}), {"x": "anything"})
    assert schema_of({1: "a", "name": "b"}, {1: "c", "name": "d"})["properties"].keys() == {"1", "name"}


@pytest.mark.parametrize(
    "stored",
    [
        None,
        {},
        {"version": 99, "shape": {}},
        {"version": 1},
        {"version": 1, "shape": {"count": -1, "support": 0}},
        {"version": 1, "shape": {"count": 1, "support": 1, "strings": {"count": 1}}},
        {"version": 1, "shape": {"count": 1, "support": 1, "objects": {"count": 1, "lost": False, "fields": []}}},
    ],
)
def test_damaged_evidence_is_refused_with_what_to_do(stored: Any) -> None:
    with pytest.raises(UsageError, match="probe the tool again"):
        Shape.from_json(stored)


def test_secrets_are_neither_in_the_schema_nor_in_stored_evidence() -> None:
    shape = Shape()
    for number in range(20):
        shape.add(
            {"session_token": "first" if number % 2 else "second", "note": "sk-" + "a1" * 15, "pan": "4111111111111111"}
        )
    text = json.dumps([shape.schema(), shape.to_json()])
    assert "first" not in text
    assert "a1a1" not in text
    assert "4111" not in text
