"""What a document, a service's answer and a server's list of tools cost the host, by their worst known kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.index_cache import digest_of
from atc.schemas.names import UniqueNames, operation_names
from atc.tools.openapi.answers import value_of
from atc.tools.openapi.importer import read_openapi
from atc.tools.openapi.plan import Operation
from atc.tools.openapi.security import Credentials
from atc.tools.openapi.text import clean
from atc.tools.parse import _from_json, parse_document
from atc.tools.tool import Toolset
from tests.growth.harness import assert_linear

pytestmark = pytest.mark.slow

_SCHEMA = "#/components/schemas/"


def _document(paths: Any, **more: Any) -> dict[str, Any]:
    root = {"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": "https://x.example"}]}
    return {**root, "paths": paths, **more}


def _returning(schema: Any, **more: Any) -> dict[str, Any]:
    content = {"application/json": {"schema": schema, **more}}
    return {"responses": {"200": {"description": "d", "content": content}}}


def _answer(media_type: str, text: str) -> Any:
    operation = Operation("GET", "/a", accepts=(media_type,))
    body = text.encode()
    response = httpx.Response(200, headers={"content-type": media_type}, content=body)
    return value_of(operation, response, body, Credentials({}, None, None))


def _named(identifier: str) -> Any:
    return _document({"/a": {"get": {"operationId": identifier, "responses": {}}}})


def _properties(n: int, first: str = "p") -> dict[str, Any]:
    return {"type": "object", "properties": {f"{first}{i}": {"type": "string"} for i in range(n)}}


def _parameters(n: int) -> Any:
    listed = [{"name": f"q{i}", "in": "query", "schema": {"type": "string"}} for i in range(n)]
    return _document({"/a": {"get": {"parameters": listed, "responses": {}}}})


def _shared(n: int, **operation: Any) -> Any:
    """``n`` operations that refer to one schema with ``n`` properties."""
    made = {**_returning({"$ref": f"{_SCHEMA}S"}), **operation}
    return _document({f"/a{i}": {"get": made} for i in range(n)}, components={"schemas": {"S": _properties(n)}})


def _defined(n: int) -> Any:
    """``n`` operations, whose answers reach ``n`` definitions."""
    schemas = {f"T{i}": _properties(3) for i in range(n)}
    schemas["S"] = {"type": "object", "properties": {f"p{i}": {"$ref": f"{_SCHEMA}T{i}"} for i in range(n)}}
    paths = {f"/a{i}": {"get": _returning({"$ref": f"{_SCHEMA}S"})} for i in range(n)}
    return _document(paths, components={"schemas": schemas})


def _discriminator(n: int) -> Any:
    mapping = {f"S{i}": f"{_SCHEMA}S" for i in range(n)}
    either = {"oneOf": [{"$ref": f"{_SCHEMA}S"}] * n, "discriminator": {"propertyName": "k", "mapping": mapping}}
    return _document({"/a": {"get": _returning(either)}}, components={"schemas": {"S": {"type": "object"}}})


def _all_of(n: int) -> Any:
    return _document({"/a": {"get": _returning({"allOf": [{"required": [f"a{i}"]} for i in range(n)]})}})


def _all_of_one_property(n: int) -> Any:
    members = [{"properties": {"a": _properties(1, f"b{i}")}} for i in range(n)]
    return _document({"/a": {"get": _returning({"allOf": members})}})


def _family(n: int) -> Any:
    """Every schema names the property that tells, is above the next and a few, and is named by an operation."""
    tells = {"discriminator": {"propertyName": "k"}, "properties": {"k": {"type": "string"}}}
    above = [{"allOf": [{"$ref": f"{_SCHEMA}S{i // 2}"}, {"$ref": f"{_SCHEMA}S0"}], **tells} for i in range(1, n)]
    schemas = {"S0": tells, **{f"S{i}": node for i, node in enumerate(above, 1)}}
    paths = {f"/a{i}": {"get": _returning({"$ref": f"{_SCHEMA}S{i}"})} for i in range(0, n, 10)}
    return _document(paths, components={"schemas": schemas})


def _star(n: int) -> Any:
    """Many bases of one heir, which is the base of as many."""
    tells = {"discriminator": {"propertyName": "k"}, "properties": {"k": {"type": "string"}}}
    bases = {f"B{i}": tells for i in range(n)}
    heirs = {f"H{i}": {"allOf": [{"$ref": f"{_SCHEMA}X"}]} for i in range(n)}
    middle = {"allOf": [{"$ref": f"{_SCHEMA}B{i}"} for i in range(n)]}
    answer = _returning({"$ref": f"{_SCHEMA}B0"})
    return _document({"/a": {"get": answer}}, components={"schemas": {**bases, "X": middle, **heirs}})


def _together(n: int) -> Any:
    schema = {"type": "object", "properties": {"a": {}}, "required": [f"a{i}" for i in range(n)]}
    body = {"required": False, "content": {"application/json": {"schema": schema}}}
    return _document({"/a": {"post": {"requestBody": body, "responses": {}}}})


def _variables(n: int) -> Any:
    server = {"url": "https://x/" + "{v}" * n, "variables": {"v": {"default": "a" * n}}}
    return _document({"/a": {"get": {"responses": {}}}}, servers=[server])


@pytest.mark.parametrize(
    "make",
    [
        lambda n: _named("a" + "\u0301\u0327" * n),
        lambda n: _named("aB_" * n),
        lambda n: _document({"/a": {"get": _returning({"oneOf": [{"const": str(i)} for i in range(n)]})}}),
        lambda n: _document({"/a": {"get": _returning({"type": "string", "enum": [f"v{i}" for i in range(n)]})}}),
        _discriminator,
        _all_of,
        _all_of_one_property,
        _together,
        _variables,
        _parameters,
        _family,
        _star,
    ],
    ids=(
        "marks", "humps", "oneOf", "enum", "discriminator", "required-of-allOf", "property-of-allOf", "together",
        "variables", "parameters", "family", "star",
    ),
)  # fmt: skip
def test_an_import(make: Any) -> None:
    assert_linear(make, read_openapi, n=500, most=50_000)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"servers": [{"url": f"ftp://x{i}"} for i in range(2_000)]},
        {"security": [{f"s{i}": []} for i in range(2_000)]},
    ],
    ids=("schema", "servers", "security"),
)
def test_an_import_of_operations_that_share_what_is_large(more: Any) -> None:
    """Their number times its size would be quadratic."""

    def make(n: int) -> Any:
        return {**_shared(n), **more}

    assert_linear(make, read_openapi, n=50, most=400)


def test_operations_that_reach_the_same_definitions(tmp_path: Path) -> None:
    """Each is walked once, and written once."""

    def written(tools: Toolset) -> None:
        digest_of(tools, None)
        ToolIndex.build(tools, None).save(tmp_path)
        ToolIndex.load(tmp_path, None)

    assert_linear(_defined, read_openapi, n=50, most=400)
    assert_linear(lambda n: Toolset.from_openapi(_defined(n)), written, n=50, most=400)
    assert (tmp_path / "index.npz").stat().st_size < 3_000_000


def test_an_import_of_operations_with_one_great_example() -> None:
    def make(n: int) -> Any:
        content = {"application/json": {"example": ["a" * 10] * n * 10}}
        responses = {"200": {"$ref": "#/components/responses/R"}}
        paths = {f"/a{i}": {"get": {"responses": responses}} for i in range(n)}
        return _document(paths, components={"responses": {"R": {"description": "", "content": content}}})

    assert_linear(make, read_openapi, n=50, most=400)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: "[" + "[]," * n + "1]",
        lambda n: "e: &e {}\nm: &m [" + "*e," * n + "]\nb: {" + "<<: *m," * n + "}",
        lambda n: "a: &a [" + "1," * n + "]\nb: [" + "*a," * n + "]",
        lambda n: "".join(f"%TAG !a{i}! x\n" for i in range(n)) + "---\na",
        lambda n: json.dumps({"k" * n: {f"a{i}": 1 for i in range(n)}}),
    ],
    ids=("lists", "merges", "aliases", "directives", "long-key"),
)
def test_the_values_of_a_document(make: Any) -> None:
    assert_linear(make, lambda text: parse_document(text, "it"), most=100_000)


def test_a_text_without_an_end_where_values_are_counted() -> None:
    assert_linear(
        lambda n: "[" + "[]," * 9 + '"\\' * n, lambda text: _from_json(text, "it", 5, alone=True), most=100_000
    )


@pytest.mark.parametrize(
    ("media_type", "make"),
    [
        ("application/json", lambda n: "{" + ",".join(f'"k{i}":1' for i in range(n)) + ',"k0":1}'),
        ("application/json", lambda n: '["' + "\\ud800" * n + '"]'),
        ("text/csv", lambda n: ",".join("x" * 70 + str(i) for i in range(n) for _ in (0, 1)) + "\n"),
        ("application/xml", lambda n: "<a>" + "<b/>" * n + "</a>"),
        (
            "application/xml",
            lambda n: "<!DOCTYPE a [" + "".join(f"<!ATTLIST a b{i} CDATA 'x'>" for i in range(n)) + "]><a/>",
        ),
        ("application/json; charset=punycode", lambda n: "a" * n),
        ("application/x-ndjson", lambda n: "1\n" * n),
        ("application/json", lambda n: "[" + "[NaN," * 9 + '{"a":NaN,"a":1e999},' * n + "1" + "]" * 10),
        ("application/json", lambda n: "{" + '"a":NaN,' * n + '"b":1}'),
    ],
    ids=("key-twice", "halves", "columns-twice", "siblings", "attributes", "charset", "lines", "numbers", "one-key"),
)
def test_an_answer_of_a_service(media_type: str, make: Any) -> None:
    assert_linear(make, lambda text: _answer(media_type, text), most=100_000)


@pytest.mark.parametrize("tag", ["<a b=c ", "<!-- --", '<a b="', "[a]("])
def test_the_markup_of_a_description(tag: str) -> None:
    assert_linear(lambda n: tag * n, lambda text: clean(text, 10**9), most=50_000)


def test_names() -> None:
    assert_linear(lambda n: [("x" * 70, "get", f"/{i}") for i in range(n)], operation_names, most=2_000)

    def take(names: list[str]) -> None:
        unique = UniqueNames()
        for name in names:
            unique.take(name)

    assert_linear(lambda n: ["x" * 70 + str(i) for i in range(n) for _ in (0, 1)], take, most=10_000)
