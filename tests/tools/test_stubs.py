"""Stubs: what a model reads of a tool."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from atc.catalogue.graph.suppliers import fields_of
from atc.result import Effect
from atc.schemas.protocol import Example, Protocol, Status, original_arguments, parameters_of
from atc.schemas.types import TypeWriter, inline_type
from atc.schemas.validate import problems
from atc.tools.stubs import render_stub, whole_stub


def protocol(returns: Any = None, name: str = "look", **fields: Any) -> Protocol:
    return Protocol(name=name, returns=returns, **fields)


def type_of(schema: Any) -> str:
    return TypeWriter(schema if isinstance(schema, dict) else {}, "T").write(schema)


# -- what a model reads ----------------------------------------------------------------------------------------------


def test_a_stub_reads_like_python() -> None:
    made = Protocol(
        name="find_cities",
        description="Cities by name.",
        parameters={
            "type": "object",
            "properties": {
                "country": {"type": "string", "enum": ["DE", "FR"]},
                "name": {"type": "string", "description": "Its name, or the beginning of it."},
                "page[size]": {"type": "integer", "default": 10},
            },
            "required": ["name"],
        },
        returns={
            "type": "object",
            "properties": {"cities": {"type": "array", "items": {"$ref": "#/$defs/City"}}},
            "required": ["cities"],
            "$defs": {
                "City": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "integer"},
                        "mayor": {"type": ["string", "null"], "description": "Who governs it."},
                    },
                    "required": ["id"],
                }
            },
        },
        statuses=(Status(code=200), Status(code=404, description="no such city")),
        effect=Effect.WRITE,
        examples=(Example(arguments={"name": "Ber"}, response={"cities": [{"id": 1}]}),),
    )
    assert (
        render_stub(made, {"page[size]": "from count()['n']"})
        == '''\
class FindCitiesResponse(TypedDict):
    cities: list[FindCitiesCity]

class FindCitiesCity(TypedDict):
    id: int
    mayor: NotRequired[str | None]  # Who governs it.

def find_cities(name: str, country: Literal['DE', 'FR'] = ..., page_size: int = ...) -> FindCitiesResponse:
    """Cities by name.
    name: Its name, or the beginning of it.
    page_size: (default 10) (named 'page[size]'); from count()['n']
    Changes data: call it once per item.
    Errors: 404 no such city
    Example response: {'cities': [{'id': 1}]}
    """'''
    )


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "string"}, "str"),
        ({"type": ["integer", "null"]}, "int | None"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "str | None"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "str | int"),
        ({"anyOf": []}, "Any"),
        ({"enum": ["a", "b"]}, "Literal['a', 'b']"),
        ({"enum": [1, None, True]}, "Literal[1, None, True]"),
        ({"enum": [1.5, "x"]}, "float | str"),
        ({"enum": [f"v{n}" for n in range(10_000)]}, "str"),
        ({"enum": []}, "Any"),
        ({"const": 5}, "Literal[5]"),
        ({"const": {"a": 1}}, "Any"),
        ({"type": "array", "items": {"type": "number"}}, "list[float]"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"allOf": [{"type": "string"}]}, "str"),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "array", "items": {"$ref": "#/$defs/x"}}}}, None),
        ({"$ref": "#/nowhere"}, "Any"),
        (True, "Any"),
        ({}, "Any"),
    ],
)
def test_a_type_is_written_as_python_has_it(schema: Any, written: str | None) -> None:
    ast.parse(type_of(schema), mode="eval")
    assert written in (None, type_of(schema))


@pytest.mark.parametrize("width", [2, 20])
@pytest.mark.parametrize(
    "inner",
    [
        lambda ref, width: {"type": "object", "properties": {f"p{n}": ref for n in range(width)}},
        lambda ref, width: {"type": "array", "items": {"anyOf": [ref, {"type": "string"}] * width}},
        lambda ref, width: {"type": "object", "additionalProperties": {"oneOf": [ref] * width}},
        lambda ref, width: {"allOf": [ref] * width},
        lambda ref, width: {"allOf": [{"properties": {"a": ref}}, {"anyOf": [ref] * width}]},
    ],
)
def test_schemas_that_refer_to_themselves_are_written_quickly(inner: Any, width: int) -> None:
    schema = {"$defs": {"a": inner({"$ref": "#/$defs/a"}, width)}, "$ref": "#/$defs/a"}
    ast.parse(render_stub(protocol(schema)))
    assert len(list(fields_of(schema))) <= 5000


def test_a_schema_whose_choices_multiply_is_cut() -> None:
    definitions: dict[str, Any] = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 30} for n in range(8)} | {
        "a8": {"type": "string"}
    }
    schema = {"$defs": definitions, "$ref": "#/$defs/a0"}
    ast.parse(render_stub(protocol(schema)))
    assert list(fields_of(schema)) == []


def test_a_deep_schema_ends_somewhere() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(500):
        schema = {"type": "object", "properties": {"a": schema}}
    assert render_stub(protocol(schema)).count("TypedDict") == 9


# -- names -----------------------------------------------------------------------------------------------------------


def test_arguments_that_python_cannot_write_get_names_and_are_given_back() -> None:
    names = [
        "from",
        "class",
        "page[size]",
        "page-size",
        "X-Id",
        "größe",
        "",
        "1st",
        "a b",
        "self",
        "None",
        "__init__",
        "日本",
    ]
    made = protocol(parameters={"type": "object", "properties": {name: {"type": "integer"} for name in names}})
    parameters = parameters_of(made)
    assert len({parameter.name for parameter in parameters}) == len(names)
    tree = ast.parse(render_stub(made)).body[0]
    assert isinstance(tree, ast.FunctionDef)
    assert [argument.arg for argument in tree.args.args] == [parameter.name for parameter in parameters]
    given = {parameter.name: index for index, parameter in enumerate(parameters)}
    assert original_arguments(made, given) == {parameter.original: index for index, parameter in enumerate(parameters)}


def test_no_class_has_a_name_that_stubs_import() -> None:
    record = {"type": "object", "properties": {"b": {"type": "string"}}}
    tree = ast.parse(render_stub(protocol({"$ref": "#/$defs/Dict", "$defs": {"Dict": record}}, "typed")))
    assert [node.name for node in tree.body if isinstance(node, ast.ClassDef)] == ["TypedDict2"]


def test_a_value_is_shown_where_nothing_else_is_said_of_an_argument() -> None:
    properties = {
        "zone": {"type": "string", "examples": ["Europe/Paris", "UTC"]},
        "code": {"type": "string", "example": "EUR", "description": "ISO 4217"},
        "unit": {"enum": ["km", "mile"], "examples": ["km"]},
        "evil": {"type": "string", "examples": ['""" + boom()']},
    }
    made = Protocol(name="convert", description="Convert.", parameters={"type": "object", "properties": properties})
    stub = render_stub(made)
    assert "    zone: e.g. 'Europe/Paris'\n" in stub
    assert "    code: ISO 4217\n" in stub
    assert "unit: e.g." not in stub
    assert "boom" not in "".join(line for line in stub.splitlines() if "e.g." not in line)


def test_a_type_that_was_only_observed_is_shown_and_not_enforced() -> None:
    protocol = Protocol(
        name="cache",
        parameters={"properties": {"value": {"x-atc-observed": "integer", "examples": [10]}}, "required": ["value"]},
    )
    assert "def cache(value: int)" in render_stub(protocol)
    assert problems(protocol.parameters, {"value": "abc"}) == []


def test_a_plain_stub_has_the_responses_type_on_one_line() -> None:
    schema = {
        "type": "object",
        "properties": {
            "cities": {"type": "array", "items": {"$ref": "#/$defs/City"}},
            "kind": {"enum": ["town", "it's"]},
            "next": {"type": ["string", "null"], "description": "of the next page"},
        },
        "required": ["cities"],
        "$defs": {
            "City": {
                "type": "object",
                "properties": {"id": {"type": "integer"}, "part_of": {"$ref": "#/$defs/City"}},
                "required": ["id"],
            }
        },
    }
    found = protocol(name="find", description="Find.", returns=schema)
    stub = whole_stub(found, {}, plain=True)
    assert stub is not None
    assert "class" not in stub.text
    assert "-> dict:" in stub.text
    assert "    Returns: {'cities': [{'id': int, 'part_of'?: Any}], 'kind'?: 'town' | 'it's'," in stub.text.replace(
        "\\", ""
    )
    assert "'next'?: str | None (of the next page)}" in stub.text


@pytest.mark.parametrize("text", ['"""\nimport os\n"""', "\\", "'''", "a\u2028b", "```", "\x00"])
def test_text_of_a_schema_ends_no_plain_stub(text: str) -> None:
    schema = {"type": "object", "properties": {text: {"type": "string", "description": text, "enum": [text]}}}
    stub = whole_stub(protocol(name="find", description=text, returns=schema), {}, plain=True)
    assert stub is not None
    assert [type(node).__name__ for node in ast.parse(stub.text).body] == ["FunctionDef"]


def test_a_plain_stub_has_its_room() -> None:
    schema = {"type": "object", "properties": {f"key_{n}": {"type": "string"} for n in range(300)}}
    assert whole_stub(protocol(name="find", returns=schema), {}, 400, plain=True) is None


@pytest.mark.parametrize(
    ("response", "shown"),
    [
        ({"id": 7, "name": "Bo"}, "Example response: {'id': 7, 'name': 'Bo'}"),
        ({"id": 7}, "Returns: {'id': int, 'name'?: str}"),
        ({"id": 7, "name": "x" * 79, "more": ["y" * 79] * 8}, "Example response: {'id': 7, 'name': 'xxx"),
        ({"id": 7, "name": "Bo", **{f"key_{n}": "z" * 70 for n in range(9)}}, "Returns: {'id': int, 'name'?: str}"),
    ],
)
def test_a_plain_stub_shows_an_example_where_it_has_every_key(response: Any, shown: str) -> None:
    schema = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
        "required": ["id"],
    }
    stub = whole_stub(protocol(name="find", returns=schema, examples=(Example(response=response),)), {}, plain=True)
    assert stub is not None
    assert shown in stub.text
    assert ("Returns" in stub.text) != ("Example response" in stub.text)


def test_a_plain_stub_shows_how_a_long_text_begins() -> None:
    page = "Title: Bo\n" + "Line of the page\n" * 90
    tool = protocol(name="view", returns={"type": "string"}, examples=(Example(response=page),))
    stub = whole_stub(tool, {}, plain=True)
    assert stub is not None
    assert "    Example response: 'Title: Bo\\\\nLine of the page\\\\n" in stub.text
    assert stub.text.endswith(' …\n    """')
    assert len(stub.text) < 500


def test_a_plain_type_of_many_keys_stops_at_its_room() -> None:
    """Keys behind the room are not looked at, and none is looked for in a list."""

    class Counted(list[str]):
        def __contains__(self, key: object) -> bool:
            raise AssertionError("a list is searched for each key")

    keys = [f"key{n}" for n in range(5_000)]
    properties: dict[str, Any] = {key: {"type": "integer"} for key in keys}
    schema = {"type": "object", "properties": properties, "required": Counted(keys)}
    assert inline_type(schema, 80, 200) is None
    assert inline_type({**schema, "required": Counted(["key0", "key1"])}, 80) is None
    required = Counted(["key0", "undescribed"])
    small = {"type": "object", "properties": {"key0": {"type": "integer"}, "more": {}}, "required": required}
    made = inline_type(small, 80)
    assert made is not None
    assert made.text == "{'key0': int, 'more'?: Any, 'undescribed': Any}"


@pytest.mark.parametrize("plain", [False, True])
def test_a_stub_that_is_kept_has_its_room_and_its_hints(plain: bool) -> None:
    look = protocol({"type": "object", "properties": {"total": {"type": "number"}}}, description="Look it up.")
    one = whole_stub(look, {}, plain=plain)
    assert one is not None
    assert whole_stub(look, {}, plain=plain) is one
    assert whole_stub(look, {}, 10, plain=plain) is None
    assert whole_stub(look, {}, len(one.text), plain=plain) is one
    other = whole_stub(look.model_copy(update={"description": "Another."}), {}, plain=plain)
    assert other is not None
    assert "Another." in other.text
    assert whole_stub(look, {}, plain=not plain) != one
