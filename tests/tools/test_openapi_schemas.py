"""Schemas of every OpenAPI version become JSON Schema 2020-12 that stands alone."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from atc.errors import ToolImportError
from atc.tools.openapi.importer import import_openapi, read_openapi
from tests.support.openapi import document, operation


def imported(returns: Any, schemas: dict[str, Any] | None = None, **rest: Any) -> Any:
    """``returns`` of an operation whose answer has this schema."""
    root = document({"/a": {"get": operation(returns=returns)}}, components={"schemas": schemas or {}}, **rest)
    return import_openapi(root)["op"].protocol.returns


def sent(body: Any, schemas: dict[str, Any] | None = None) -> dict[str, Any]:
    """The arguments' schema of an operation with this body."""
    root = document({"/a": {"post": operation(body=body)}}, components={"schemas": schemas or {}})
    return import_openapi(root)["op"].protocol.parameters


def accepts(schema: dict[str, Any], value: Any) -> bool:
    return jsonschema_rs.validator_for(schema, pattern_options=jsonschema_rs.RegexOptions(), offline=True).is_valid(
        value
    )


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"enum": ["a"], "type": "string", "nullable": True}, {"enum": ["a", None], "type": ["string", "null"]}),
        ({"minimum": 1, "exclusiveMinimum": True, "type": "number"}, {"type": "number", "exclusiveMinimum": 1}),
        ({"minimum": 1, "exclusiveMinimum": False}, {"minimum": 1}),
        ({"exclusiveMaximum": 3}, {"exclusiveMaximum": 3}),
        ({"type": "integer", "minimum": 1.0, "maximum": 1.5}, {"type": "integer", "minimum": 1, "maximum": 1.5}),
        ({"type": "string", "example": "x"}, {"type": "string", "examples": ["x"]}),
        ({"type": "float"}, {"type": "number"}),
        ({"type": "strange"}, None),
        ({"properties": {"a": {"type": "string"}}}, {"properties": {"a": {"type": "string"}}, "type": "object"}),
        ({"type": "array", "items": [{"type": "string"}]}, {"type": "array", "prefixItems": [{"type": "string"}]}),
        ({"type": "string", "enum": [1, 2]}, {"enum": [1, 2]}),
        ({"type": "string", "pattern": "^(?=a)b"}, {"type": "string"}),
        ({"type": "string", "pattern": "^[a-z]+$", "minLength": "1"}, {"type": "string", "pattern": "^[a-z]+$"}),
        ({"type": "object", "required": True}, {"type": "object"}),
        ({"type": "string", "description": "<p>A <b>b</b></p>", "xml": {}}, {"type": "string", "description": "A b"}),
        ({"additionalProperties": {"type": "int"}}, {"additionalProperties": {"type": "integer"}}),
    ],
)
def test_keywords(given: Any, made: Any) -> None:
    assert imported(given) == made


def test_references_become_local_definitions_and_only_those_that_are_reached() -> None:
    schemas = {
        "Used/One": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Two"}}},
        "Two": {"type": "string"},
        "Unused": {"type": "integer"},
    }
    made = imported({"type": "array", "items": {"$ref": "#/components/schemas/Used~1One"}}, schemas)
    assert made["items"] == {"$ref": "#/$defs/Used_One"}
    assert set(made["$defs"]) == {"Used_One", "Two"}
    assert accepts(made, [{"next": "x"}])
    assert not accepts(made, [{"next": 1}])


def test_cycles_stay_cycles() -> None:
    node = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/components/schemas/N"}}},
    }
    made = imported({"$ref": "#/components/schemas/N"}, {"N": node})
    assert made["type"] == "object"
    assert accepts(made, {"children": [{"children": []}]})
    assert not accepts(made, {"children": [{"children": 1}]})


def test_a_nullable_reference_allows_null() -> None:
    made = imported({"$ref": "#/components/schemas/S", "nullable": True}, {"S": {"type": "string"}})
    assert accepts(made, None)
    assert accepts(made, "x")
    assert not accepts(made, 1)


def test_all_of_is_merged_where_it_means_the_same() -> None:
    base = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
    child = {
        "allOf": [
            {"$ref": "#/components/schemas/Base"},
            {"properties": {"name": {"type": "string"}}, "required": ["name"]},
        ]
    }
    made = sent({"$ref": "#/components/schemas/Child"}, {"Base": base, "Child": child})
    assert list(made["properties"]) == ["id", "name"]
    assert made["required"] == ["id", "name"]


@pytest.mark.parametrize(
    "members",
    [
        [{"type": "object", "properties": {"a": {"type": "string"}}}, {"properties": {"a": {"type": "integer"}}}],
        [{"properties": {"a": {}}, "additionalProperties": False}, {"properties": {"b": {}}}],
        [{"oneOf": [{"required": ["a"]}]}, {"oneOf": [{"required": ["b"]}]}],
        [{"minimum": 1}, {"minimum": 2}],
    ],
)
def test_all_of_is_kept_where_a_merge_would_change_it(members: list[Any]) -> None:
    assert len(imported({"allOf": members})["allOf"]) == 2


def test_all_of_that_leads_back_to_itself_is_kept() -> None:
    schemas = {
        "A": {"allOf": [{"$ref": "#/components/schemas/B"}]},
        "B": {"allOf": [{"$ref": "#/components/schemas/A"}]},
    }
    assert imported({"$ref": "#/components/schemas/A"}, schemas) is not None


def test_a_discriminator_says_which_branch_has_which_value() -> None:
    schemas = {"Cat": {"type": "object", "properties": {"kind": {"type": "string"}}}, "Dog": {"type": "object"}}
    mapping = {"cat": "#/components/schemas/Cat", "dog": "#/components/schemas/Dog", "wolf": "#/components/schemas/Dog"}
    branches = [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}]
    made = imported({"oneOf": branches, "discriminator": {"propertyName": "kind", "mapping": mapping}}, schemas)
    assert accepts(made, {"kind": "wolf"})
    assert accepts(made, {"kind": "cat"})
    assert not accepts(made, {"kind": "bird"})


def test_read_only_is_not_sent_and_write_only_is_not_answered() -> None:
    user = {
        "type": "object",
        "required": ["id", "password"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "password": {"type": "string", "writeOnly": True},
            "made": {"$ref": "#/components/schemas/Made"},
        },
    }
    schemas = {"User": user, "Made": {"type": "string", "readOnly": True}}
    request, response = (
        sent({"$ref": "#/components/schemas/User"}, schemas),
        imported({"$ref": "#/components/schemas/User"}, schemas),
    )
    assert list(request["properties"]) == request["required"] == ["password"]
    assert list(response["properties"]) == ["id", "made"]
    assert response["required"] == ["id"]


def test_a_property_called_ref_or_enum_is_only_a_property() -> None:
    made = imported(
        {"type": "object", "properties": {"$ref": {"type": "string"}, "enum": {"type": "array", "items": {}}}}
    )
    assert list(made["properties"]) == ["$ref", "enum"]


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("https://example.org/s.json#/A", "allow_remote_refs"),
        ("other.yaml#/A", "never read"),
        ("/etc/passwd", "never read"),
        ("file:///etc/passwd", "never read"),
        ("#/components/schemas/Missing", "names nothing"),
        ("#anchor", "anchor"),
        (7, "must be a string"),
    ],
)
def test_a_reference_that_cannot_be_followed_is_named(ref: Any, said: str) -> None:
    root = document({"/a": {"get": operation(returns={"type": "array", "items": {"$ref": ref}})}})
    ((label, reason),) = read_openapi(root).skipped
    assert label == "GET /a"
    assert str(ref) in reason
    assert said in reason
    with pytest.raises(ToolImportError) as caught:
        import_openapi(root)
    assert str(ref) in str(caught.value)


def test_a_circle_of_bare_references_ends() -> None:
    schemas = {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}
    assert imported({"$ref": "#/components/schemas/A"}, schemas) is not None
    root = document({"/a": {"$ref": "#/paths/~1b"}, "/b": {"$ref": "#/paths/~1a"}})
    assert "circle" in read_openapi(root).skipped[0][1]


@pytest.mark.parametrize("keyword", ["x-enum-varnames", "x-enumNames"])
def test_the_names_of_an_enumerations_values_are_kept(keyword: str) -> None:
    named = {"type": "integer", "enum": [1, 3], keyword: ["LOW", "HIGH"]}
    assert imported(named) == {"type": "integer", "enum": [1, 3], "x-enum-varnames": ["LOW", "HIGH"]}


@pytest.mark.parametrize("names", [["LOW"], ["LOW", 5], "LOW", {"1": "LOW"}, ["1", "3"], None])
def test_wrong_names_of_values_are_left_out(names: Any) -> None:
    assert imported({"enum": [1, 3], "x-enum-varnames": names}) == {"enum": [1, 3]}
