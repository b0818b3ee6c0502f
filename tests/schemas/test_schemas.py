"""Schemas: values are held to them, what can safely be mended is, and nothing is invented."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.errors import ToolImportError
from atc.schemas import validate
from atc.schemas.validate import HALF, ensure_valid_schema, problems, resolve
from tests.support.repairs import repaired
from tests.support.time import little_work

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
NAME = st.text(max_size=2)
TYPE = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
SCHEMA = st.recursive(
    st.fixed_dictionaries({}, optional={"type": TYPE | st.lists(TYPE, min_size=1, max_size=2, unique=True)}),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(NAME, inner, max_size=3)},
            optional={"additionalProperties": st.booleans(), "required": st.lists(NAME, max_size=2, unique=True)},
        ),
    ),
    max_leaves=5,
)


def parameters(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


# -- problems --------------------------------------------------------------------------------------------------------


def test_a_problem_says_where_and_what() -> None:
    schema = parameters(
        trip={"type": "object", "properties": {"days": {"type": "array", "items": {"type": "integer"}}}}
    )
    (problem,) = problems(schema, {"trip": {"days": [1, "two"]}})
    assert str(problem) == '$.trip.days[1]: "two" is not of type "integer"'
    assert problem.keyword == "type"


def test_at_most_five_problems_are_told_and_none_is_long() -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    found = problems(schema, ["x" * 5000] * 100)
    assert len(found) == 5
    assert all(len(str(problem)) < 400 for problem in found)


def test_formats_and_patterns_never_hang() -> None:
    with little_work():
        assert problems({"type": "string", "pattern": "^(a+)+$"}, "a" * 50_000 + "!")


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, {"allOf": [{"$ref": "#"}]}]
)
def test_a_schema_that_only_refers_to_itself_allows_all(schema: dict[str, Any]) -> None:
    ensure_valid_schema(schema, "it")
    assert problems(schema, {"a": 1}) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integr"},
        {"required": 5},
        {"$ref": "http://example.com/x"},
        {"$ref": "#/nowhere"},
        {"pattern": "("},
        {"properties": []},
        {"minimum": "1"},
        {1: 2, "a": 3},
    ],
)
def test_a_schema_that_is_none_is_named(schema: Any) -> None:
    with pytest.raises(ToolImportError, match="the parameters of look is not a usable JSON Schema: "):
        ensure_valid_schema(schema, "the parameters of look")


# -- repair ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "given", "made"),
    [
        ({"type": "integer"}, "12", 12),
        ({"type": "integer"}, " -3 ", -3),
        ({"type": "integer"}, "1e3", 1000),
        ({"type": "integer"}, "1.5", "1.5"),
        ({"type": "integer"}, "0x10", "0x10"),
        ({"type": "integer"}, "1_000", "1_000"),
        ({"type": "integer"}, "NaN", "NaN"),
        ({"type": "integer"}, "007", "007"),
        ({"type": "integer"}, 4.0, 4),
        ({"type": "integer"}, 4.5, 4.5),
        ({"type": "integer"}, True, True),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "number"}, "9" * 30, "9" * 30),
        ({"type": "boolean"}, "FALSE", False),
        ({"type": "boolean"}, "perhaps", "perhaps"),
        ({"type": "boolean"}, 1, 1),
        ({"type": "string"}, 5, "5"),
        ({"type": "string"}, True, True),
        ({"type": ["string", "integer"]}, "5", "5"),
        ({"type": "array", "items": {"type": "string"}}, "a", ["a"]),
        ({"type": "array", "items": {"type": "integer"}}, "a", "a"),
        ({"type": "array", "items": {"type": "integer"}}, ["1", 2.0], [1, 2]),
        ({"$ref": "#/$defs/n", "$defs": {}}, "5", "5"),
    ],
)
def test_only_what_has_one_meaning_is_mended(schema: dict[str, Any], given: Any, made: Any) -> None:
    value, notes = repaired(parameters(x=schema), {"x": given})
    assert value == {"x": made}
    assert type(value["x"]) is type(made)
    assert bool(notes) == (given != made or type(given) is not type(made))


def test_repair_follows_references_and_keeps_open_objects() -> None:
    schema = {
        "type": "object",
        "properties": {
            "at": {"$ref": "#/$defs/Place"},
            "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "$defs": {
            "Place": {"type": "object", "properties": {"lat": {"type": "number"}}, "additionalProperties": False}
        },
    }
    value, notes = repaired(schema, {"at": {"lat": "1.5", "lon": 2}, "tags": {"a": "b"}, "more": 1})
    assert value == {"at": {"lat": 1.5}, "tags": {"a": "b"}}
    assert notes == ['took "1.5" as 1.5 for at.lat', "dropped unknown argument more", "dropped unknown argument at.lon"]


def test_what_is_missing_stays_missing_and_null_is_kept_where_it_may_be() -> None:
    schema = parameters(a={"type": "string"}, b={"type": ["string", "null"]}, c={}) | {"required": ["d"]}
    assert repaired(schema, {"a": None, "b": None, "c": None}) == (
        {"b": None, "c": None},
        ["left out a, which was null"],
    )


@given(SCHEMA, st.dictionaries(st.text(max_size=2), JSON, max_size=3))
def test_repair_never_breaks_and_never_spoils_what_fits(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    root = {"type": "object", "properties": {"a": schema, "b": schema}}
    value, notes = repaired(root, arguments)
    assert repaired(root, value)[0] == value, "once is enough"
    if not problems(root, arguments) and set(arguments) <= {"a", "b"} and not any("null" in note for note in notes):
        assert problems(root, value) == []


@given(st.text(max_size=8), JSON)
def test_a_reference_is_followed_or_is_nothing(reference: str, definitions: Any) -> None:
    assert isinstance(resolve({"$defs": definitions}, {"$ref": reference}), dict)


# -- the size of a value is a stranger's -----------------------------------------------------------------------------

NUMBERS = {**parameters(a={"type": "array", "items": {"type": "integer"}}, b={"type": "string"}), "required": ["b"]}


def errors_listed(monkeypatch: pytest.MonkeyPatch, schema: dict[str, Any], value: Any) -> tuple[int, list[Any]]:
    """How many values the validator is asked to list the errors of, and the problems that are found."""
    real, asked = validate._validator, []

    class Counting:
        def __init__(self, inner: Any) -> None:
            self.is_valid, self._inner = inner.is_valid, inner

        def iter_errors(self, shown: Any) -> Any:
            asked.append(json.dumps(shown).count(",") + 1)
            return self._inner.iter_errors(shown)

    with monkeypatch.context() as patched:
        patched.setattr(validate, "_validator", lambda text, with_bytes: Counting(real(text, with_bytes)))
        found = problems(schema, value)
    return sum(asked), found


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": [[]] * 190_000, "b": ""}, '$.a[0]: [] is not of type "integer"'),
        ({"a": [1] * 190_000}, '$: "b" is a required property'),
        ({"a": [1] * 190_000 + ["x"], "b": ""}, "$.a: something in it does not fit; it is too large"),
        ({"a": [1] * 999 + ["x"], "b": ""}, '$.a[999]: "x" is not of type "integer"'),
    ],
    ids=["all", "missing", "late", "small"],
)
def test_why_a_large_value_does_not_fit_is_asked_of_a_part(
    value: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, found = errors_listed(monkeypatch, NUMBERS, value)
    assert listed <= 10_000
    assert str(found[0]).startswith(said)


def test_what_was_left_out_is_never_missed() -> None:
    schema = {
        "type": "array",
        "minItems": 5_000,
        "contains": {"const": "last"},
        "items": {"type": ["integer", "string"]},
    }
    assert problems(schema, [0] * 6_000 + ["last"]) == []
    (found,) = problems(schema, [0] * 6_000)
    assert found.where == "$"
    wrong = problems(schema, [*[0] * 10, None, *[0] * 6_000, "last"])
    assert [str(problem) for problem in wrong] == ['$[10]: null is not of types "integer", "string"']
    either = {"anyOf": [{"type": "array", "minItems": 5_000, "items": {"type": "integer"}}, {"type": "null"}]}
    (found,) = problems(parameters(a=either), {"a": [0] * 6_000 + ["x"]})
    assert (found.where, found.keyword) == ("$.a", "")


def test_a_repair_of_many_items_is_told_in_few_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    made, notes = repaired(NUMBERS, {"a": ["1"] * 5_000})
    assert made == {"a": [1] * 5_000}
    assert (len(notes), notes[-1]) == (21, "and 4,980 more repairs")


def test_one_value_for_a_list_of_what_is_defined_elsewhere_becomes_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = parameters(rows={"type": "array", "items": {"type": "array", "items": {"$ref": "#/$defs/Size"}}})
    schema["$defs"] = {"Size": {"enum": ["s", "m"]}}
    written: list[Any] = []
    real = validate.schema_key
    monkeypatch.setattr(validate, "schema_key", lambda schema: written.append(schema) or real(schema))
    made, _ = repaired(schema, {"rows": ["s", "m", "z"] * 100})
    assert made == {"rows": [["s"], ["m"], "z"] * 100}
    assert len(written) == 1


def test_half_a_character_is_a_problem() -> None:
    text = {"type": "string"}
    for schema, value in [
        (text, "\ud800"),
        (parameters(a={"type": "array", "items": {"type": "integer"}}), {"a": ["x\udfff"]}),
        (parameters(a={"enum": ["x"]}), {"a": "\ud83d"}),
    ]:
        assert [problem.message for problem in problems(schema, value)] == [HALF]
    assert problems(text, "\U0001f600") == []


PRIORITY = {"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}], "$defs": {"P": {"enum": [1, 2, 3], "type": "integer"}}}
RECORD = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        (PRIORITY, "MEDIUM", '"MEDIUM" is not one of 1, 2, 3 or null'),
        (PRIORITY, 7, "7 is not one of 1, 2, 3 or null"),
        ({"enum": ["a", "b"]}, "c", '"c" is not one of "a" or "b"'),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "c", '"c" is not of type "integer" or "null"'),
        ({"oneOf": [{"type": "integer"}, {"const": "a"}]}, "c", '"c" is neither one of "a" nor of type "integer"'),
        ({"anyOf": [{"anyOf": [{"enum": ["q"]}]}, {"type": "null"}]}, "c", '"c" is not one of "q" or null'),
        ({"oneOf": [{"type": "integer"}, {"minimum": 3}]}, 5, "5 fits several alternatives, and must fit one alone"),
        (
            {"anyOf": [RECORD, {"type": "null"}]},
            {"a": "x"},
            '{"a": "x"} fits none of 2 alternatives; the closest one says of $.a: "x" is not of type "integer"',
        ),
    ],
)
def test_what_a_place_takes_is_told_by_its_values(schema: Any, value: Any, told: str) -> None:
    assert [problem.message for problem in problems(schema, value)] == [told]
    (inside,) = problems({"properties": {"x": schema}, "$defs": schema.get("$defs", {})}, {"x": value})
    assert (inside.message, inside.where) == (told, "$.x")


def test_many_values_are_counted_and_a_long_one_is_cut() -> None:
    (found,) = problems({"enum": [f"value_{n}" for n in range(100)]}, "x" * 1_000)
    assert len(found.message) < 400
    assert found.message.startswith('"xxx')
    assert '"value_0", "value_1", ' in found.message
    assert found.message.endswith(" others")


def test_alternatives_deep_in_one_another_are_no_endless_message() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(60):
        schema = {"anyOf": [schema, {"type": "null"}]}
    (found,) = problems(schema, "x")
    assert len(found.message) < 400
