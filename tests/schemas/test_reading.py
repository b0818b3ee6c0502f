"""Several schemas of one value are read as what the value may be, with every field that one of them names."""

from __future__ import annotations

from typing import Any

import pytest

from atc.schemas import reading
from atc.schemas.reading import Reader, alternatives, loosest, whole
from atc.schemas.validate import both, resolve

S, INT = {"type": "string"}, {"type": "integer"}


def record(*required: str, **properties: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties}
    return {**made, "required": [*required]} if required else made


DEFS = {"Base": record("id", id=INT), "Cat": record("lives", kind=S, lives=INT), "Dog": record(kind=S, bark=S)}
BASE, CAT, DOG = ({"$ref": f"#/$defs/{name}"} for name in DEFS)


def read(schema: Any, **more: Any) -> list[dict[str, Any]]:
    return [each.schema for each in alternatives({"$defs": {**DEFS, **more}}, schema)]


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        (BASE, [record("id", id=INT)]),
        ({**BASE, "properties": {"x": S}}, [record("id", id=INT, x=S)]),
        ({**BASE, "required": ["x"]}, [record("id", "x", id=INT)]),
        ({**BASE, "description": "one"}, [{**record("id", id=INT), "description": "one"}]),
        ({**BASE, "type": ["object", "null"]}, [record("id", id=INT)]),
        ({**CAT, "properties": {"kind": {"const": "c"}}}, [record("lives", kind={**S, "const": "c"}, lives=INT)]),
        ({"allOf": [BASE, record(x=S)], "properties": {"y": S}}, [record("id", id=INT, x=S, y=S)]),
        ({**BASE, "allOf": [record(x=S)]}, [record("id", id=INT, x=S)]),
        ({"oneOf": [CAT, DOG]}, [DEFS["Cat"], DEFS["Dog"]]),
        ({**record("id", id=INT), "oneOf": [CAT, DOG]}, [
            record("id", "lives", id=INT, kind=S, lives=INT), record("id", id=INT, kind=S, bark=S)]),
        ({"allOf": [BASE, {"anyOf": [record(a=S), record(b=S)]}]}, [
            record("id", id=INT, a=S), record("id", id=INT, b=S)]),
        ({**record(a=S, b=INT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, [record(a=S, b=INT)]),
        ({**record(a=S), "anyOf": [{"required": ["a"]}, {"type": "null"}]}, [record("a", a=S)]),
        ({"anyOf": [S, {"type": "null"}], "description": "x"}, [
            {**S, "description": "x"}, {"type": "null", "description": "x"}]),
        ({"type": "number", "allOf": [{"type": ["integer", "string"]}]}, [INT]),
        ({"enum": ["a", "b"], "allOf": [{"enum": ["b", "c"]}]}, [{"enum": ["b"]}]),
        ({"$ref": "#/$defs/none", **record(x=S)}, [record(x=S)]),
        (True, [{}]),
        ({}, [{}]),
    ],
)  # fmt: skip
def test_what_holds_of_one_value_is_joined(schema: Any, made: list[dict[str, Any]]) -> None:
    assert read(schema) == made


def test_an_inherited_field_keeps_what_both_say() -> None:
    (made,) = read({"allOf": [record(x={"$ref": "#/$defs/Base"}), record(x=record(y=S))]})
    assert read(made["properties"]["x"]) == [record("id", id=INT, y=S)]


def test_alternatives_have_the_names_of_their_definitions() -> None:
    root = {"$defs": {**DEFS, "Pet": {"oneOf": [CAT, DOG]}, "Puppy": {"allOf": [DOG, record(age=INT)]}}}
    named = [
        [each.name for each in alternatives(root, schema)]
        for schema in (BASE, {"$ref": "#/$defs/Pet"}, {"$ref": "#/$defs/Puppy"}, {**record(x=S), "oneOf": [CAT, DOG]})
    ]
    assert named == [["Base"], ["Cat", "Dog"], ["Puppy"], ["Cat", "Dog"]]
    assert [each.name for each in alternatives(root, {"allOf": [BASE, record(x=S)]})] == [""]


def test_cycles_end() -> None:
    a = {"allOf": [{"$ref": "#/$defs/b"}], **record(a=S)}
    b = {"allOf": [{"$ref": "#/$defs/a"}], **record(b=S)}
    assert read({"$ref": "#/$defs/a"}, a=a, b=b) == [record(b=S, a=S)]
    assert read({"$ref": "#/$defs/loop"}, loop={"anyOf": [{"$ref": "#/$defs/loop"}, S]}) == [{}, S]


def test_no_field_is_lost_where_choices_multiply() -> None:
    groups = [{"oneOf": [record("id", id=INT, **{f"f{g}_{n}": S}) for n in range(10)]} for g in range(4)]
    made = whole({}, {"allOf": groups})
    assert {f"f{g}_{n}" for g in range(4) for n in range(10)} | {"id"} == set(made["properties"])
    assert made["required"] == ["id"]
    assert "additionalProperties" not in made


@pytest.mark.parametrize(
    ("schemas", "made"),
    [
        ([record("a", "b", a=S, b=S), record("a", a=INT)],
         {"type": ["object"], "properties": {"a": {"anyOf": [S, INT]}, "b": S}, "required": ["a"]}),
        ([record(a=S), S], {"type": ["object", "string"], "properties": {"a": S}}),
        ([record(a=S), {}], {"properties": {"a": S}, "additionalProperties": True}),
        ([record(a=S), {**record(b=S), "additionalProperties": INT}],
         {"type": ["object"], "properties": {"a": S, "b": S}, "additionalProperties": True}),
    ],
)  # fmt: skip
def test_one_schema_lets_through_what_any_of_several_does(schemas: list[Any], made: dict[str, Any]) -> None:
    assert loosest(schemas) == made


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"$ref": "#/$defs/wide"}] * 3_000},
        {"allOf": [record(**{f"p{n}": S}) for n in range(3_000)]},
        {"oneOf": [{"$ref": "#/$defs/wide"}] * 3_000, **record(x=S)},
        {"allOf": [{"oneOf": [{"$ref": "#/$defs/wide"}] * 30}] * 30},
        {"$ref": "#/$defs/d0"},
        {"$ref": "#/$defs/c0"},
    ],
)
def test_a_place_is_read_in_bounded_steps(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(5_000)}
    chain = {f"c{n}": {"$ref": f"#/$defs/c{n + 1}", **record(x=S)} for n in range(5_000)}
    root = {"$defs": {"wide": record(**{f"w{n}": S for n in range(2_000)}), **deep, **chain}}
    copied: list[int] = []

    def counted(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
        copied.append(1 + len(first.get("properties", ())) + len(second.get("properties", ())))
        return both(first, second)

    monkeypatch.setattr(reading, "both", counted)
    assert alternatives(root, schema)
    assert sum(copied) <= reading.MAX_COPIED + reading.MAX_PARTS


def test_a_reader_meets_references_choices_and_fields_alone() -> None:
    root = {"$defs": {**DEFS, "Pet": {"oneOf": [{**CAT, "properties": {"kind": {"const": "cat"}}}, DOG]}}}
    reader = Reader(root)
    simple = [BASE, {**BASE, "description": "x"}, {"oneOf": [CAT, S], "type": "object"}, record(x=S)]
    assert all(reader.read(schema) is schema for schema in simple)
    pet, name = reader.follow({"$ref": "#/$defs/Pet"})
    assert (list(pet), name) == (["oneOf"], "Pet")
    (cat, cats_name), (dog, _) = map(reader.follow, pet["oneOf"])
    assert (cat, cats_name) == (record("lives", kind={**S, "const": "cat"}, lives=INT), "Cat")
    assert dog is DEFS["Dog"]
    assert reader.follow(pet["oneOf"][0])[0] is cat  # the same object each time: by it, places are known


def test_a_reader_ends_where_a_definition_leads_back_to_itself_with_more_beside() -> None:
    node = record(next={"$ref": "#/$defs/Node", "properties": {"more": S}}, value=INT)
    reader = Reader({"$defs": {"Node": node}})
    here: Any = {"$ref": "#/$defs/Node"}
    seen = []
    for _ in range(4):
        schema, name = reader.follow(here)
        seen.append((id(schema), name, sorted(schema["properties"])))
        here = schema["properties"]["next"]
    assert seen[1] == seen[2] == seen[3] == (seen[1][0], "Node", ["more", "next", "value"])


def test_following_a_reference_keeps_what_stands_beside_it() -> None:
    assert resolve({"$defs": DEFS}, {**BASE, "properties": {"x": S}, "required": ["x"]}) == record(
        "id", "x", id=INT, x=S
    )


def test_both_have_the_last_word_where_only_one_can() -> None:
    assert both({"description": "a", "maxLength": 3}, {"description": "b"}) == {"description": "b", "maxLength": 3}
    assert both({"additionalProperties": False}, {"additionalProperties": True}) == {"additionalProperties": False}
    assert both({"items": S}, {"items": {"maxLength": 2}}) == {"items": {**S, "maxLength": 2}}
    assert both({"anyOf": [S]}, {"anyOf": [INT]}) == {"anyOf": [INT], "allOf": [{"anyOf": [S]}]}
    assert both({"$ref": "#/a"}, {"$ref": "#/b"}) == {"$ref": "#/b", "allOf": [{"$ref": "#/a"}]}
    deep: Any = {}
    for _ in range(10_000):
        deep = {"properties": {"a": deep}}
    assert both(deep, {"properties": {"a": {"properties": {"a": S}}}})
