"""Documents of all kinds become tools; what cannot is told, and a hostile document costs nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from atc.errors import ToolImportError, UsageError
from atc.result import Effect
from atc.schemas.protocol import Protocol, Provenance
from atc.tools.openapi.importer import import_openapi, read_openapi
from atc.tools.stubs import render_stub
from atc.tools.tool import Toolset
from tests.support.openapi import Answer, Server, call, document, operation
from tests.support.time import little_work

PETS = """
openapi: 3.1.0
info: {title: Pets, version: 2024-01-01}
servers: [{url: /v2}]
paths:
  /pets/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: integer}, example: 7, description: "<b>Which</b> pet"}
    get:
      operationId: getPet
      summary: Get a pet
      description: |
        ## Details
        Returns a [pet](https://example.org/pets) &amp; its **owner**.
        <p>Use `<id>` of a pet.</p>
      responses:
        200:
          description: The pet
          content:
            application/json:
              schema: {type: object, properties: {name: {type: string, examples: [Rex]}, on: {type: boolean}}}
        404: {description: No such pet}
    delete:
      responses: {"204": {description: gone}}
"""


def get(**rest: Any) -> dict[str, Any]:
    return {"get": operation(**rest)}


def test_an_operation_becomes_a_protocol(tmp_path: Path) -> None:
    file = tmp_path / "pets.yaml"
    file.write_text(PETS)
    tools = Toolset.from_openapi(file)
    protocol = tools["get_pet"].protocol
    assert protocol.description == "Get a pet\n\nDetails\nReturns a pet & its owner.\n\nUse `<id>` of a pet."
    assert protocol.parameters == {
        "type": "object",
        "properties": {"id": {"type": "integer", "description": "Which pet"}},
        "required": ["id"],
        "additionalProperties": False,
    }
    assert protocol.returns is not None
    assert protocol.returns["properties"]["on"] == {"type": "boolean"}
    assert [(status.code, status.description) for status in protocol.statuses] == [
        (200, "The pet"),
        (404, "No such pet"),
    ]
    assert protocol.examples[0].arguments == {"id": 7}
    assert protocol.examples[0].response == {"name": "Rex"}
    assert (protocol.effect, protocol.provenance) == (Effect.READ, Provenance.IMPORTED)
    assert (protocol.source.kind, protocol.source.location) == ("openapi", str(file))
    assert protocol.source.operation == "getPet"
    unnamed = tools["delete_pets_by_id"].protocol
    assert unnamed.source.operation == "DELETE /pets/{id}"
    assert (unnamed.effect, unnamed.returns) == (Effect.WRITE, {"type": "null"})


@pytest.mark.parametrize(
    ("method", "effect"),
    [("get", "read"), ("head", "read"), ("options", "read"), ("post", "write"), ("put", "write"), ("patch", "write")],
)
def test_the_method_tells_the_effect(method: str, effect: str) -> None:
    assert import_openapi(document({"/a": {method: operation()}}))["op"].protocol.effect == effect


def test_json_yaml_and_dict_give_the_same_tools(tmp_path: Path) -> None:
    root = document({"/a": get(returns={"type": "string"})})
    (tmp_path / "a.json").write_text(json.dumps(root))
    (tmp_path / "a.yaml").write_text("# YAML\n" + json.dumps(root, indent=1))
    schemas = [
        import_openapi(source)["op"].protocol.returns
        for source in (root, tmp_path / "a.json", str(tmp_path / "a.yaml"))
    ]
    assert schemas == [{"type": "string"}] * 3


def test_a_document_from_a_url_resolves_its_server_and_its_references(server: Server) -> None:
    root = document({"/pets": get(returns={"$ref": "more/schemas.yaml#/Pet"})}, servers=[{"url": "../v2/"}])
    server.answers = {
        "/docs/api.json": Answer(json.dumps(root).encode()),
        "/docs/more/schemas.yaml": Answer(b"Pet: {type: array, items: {$ref: '#/Toy'}}\nToy: {type: integer}\n"),
    }
    url = server.url + "/docs/api.json?token=hidden"
    assert "allow_remote_refs" in read_openapi(url).skipped[0][1]
    tools = import_openapi(url, allow_remote_refs=True)
    protocol = tools["op"].protocol
    assert protocol.returns == {
        "type": "array",
        "items": {"$ref": "#/$defs/Toy"},
        "$defs": {"Toy": {"type": "integer"}},
    }
    assert protocol.source.location == server.url + "/docs/api.json"
    call(tools)
    assert server.last.path == "/v2/pets"
    server.answers["/docs/api.json"] = Answer(b"", 404)
    with pytest.raises(ToolImportError, match="status 404") as caught:
        import_openapi(url)
    assert "hidden" not in str(caught.value)


EU = {"r": {"default": "eu"}}


@pytest.mark.parametrize(
    ("servers", "options", "expected"),
    [
        ([{"url": "https://a.org/"}], {}, "https://a.org"),
        ([{"url": "//a.org/x"}], {}, "https://a.org/x"),
        ([{"url": "{bad}"}, {"url": "https://b.org"}], {}, "https://b.org"),
        ([{"url": "https://{r}.org", "variables": EU}], {}, "https://eu.org"),
        ([{"url": "https://{r}.org", "variables": EU}], {"server_variables": {"r": "us"}}, "https://us.org"),
        ([{"url": "https://a.org"}], {"base_url": "http://localhost:8/v1/"}, "http://localhost:8/v1"),
        ([{"url": "http://a.org/v1"}, {"url": "https://a.org/v1"}], {}, "https://a.org/v1"),
        ([{"url": "http://a.org/1/"}, {"url": "https://b.org/1"}, {"url": "https://a.org/1"}], {}, "https://a.org/1"),
        ([{"url": "http://a.org/v1"}, {"url": "https://a.org/v2"}], {}, "http://a.org/v1"),
        ([{"url": "https://a.org"}, {"url": "http://b.org"}], {}, "https://a.org"),
        ([{"url": f"{way}://{{r}}.org", "variables": EU} for way in ("http", "https")], {}, "https://eu.org"),
        ([{"url": "/v1"}], {}, None),
        (None, {}, None),
    ],
)
def test_servers(servers: Any, options: dict[str, Any], expected: str | None) -> None:
    tools = import_openapi(document({"/a": get()}, servers=servers), **options)
    assert tools["op"].transport.operation.server == expected  # type: ignore[union-attr]


def test_every_operation_keeps_its_own_schemas() -> None:
    kinds = ["integer", "string", "boolean", "number"] * 50
    paths = {
        f"/{n}": {"get": {"parameters": [{"name": "x", "in": "query", "type": kind}], "responses": {}}}
        for n, kind in enumerate(kinds)
    }
    tools = import_openapi({"swagger": "2.0", "paths": paths})
    assert [protocol.parameters["properties"]["x"]["type"] for protocol in tools.protocols] == kinds


def test_a_server_variable_outside_its_enum_is_refused() -> None:
    servers = [{"url": "https://{r}.org", "variables": {"r": {"default": "eu", "enum": ["eu", "us"]}}}]
    with pytest.raises(UsageError, match=r"'evil.com/'; the document allows 'eu', 'us'"):
        import_openapi(document({"/a": get()}, servers=servers), server_variables={"r": "evil.com/"})


def test_names_are_unique_and_do_not_depend_on_what_is_kept() -> None:
    paths = {f"/{name}": get() for name in "abc"}
    tools = import_openapi(document(paths))
    assert list(tools) == ["op", "op_2", "op_3"]
    assert [tool.protocol.source.operation for tool in tools.values()] == ["op", "GET /b", "GET /c"]
    assert list(import_openapi(document(paths), only=["GET /c"])) == ["op_3"]
    assert list(import_openapi(document(paths), only=["op_*"])) == ["op_2", "op_3"]
    with pytest.raises(ToolImportError, match="'nope'"):
        import_openapi(document(paths), only=["op", "nope"])


def test_parameters_of_one_name_in_two_places_stay_apart() -> None:
    parameters = [{"name": "id", "in": place, "schema": {}} for place in ("path", "query", "header")]
    tools = import_openapi(document({"/a/{id}": get(parameters=parameters)}))
    assert list(tools["op"].protocol.parameters["properties"]) == ["id", "id_query", "id_header"]


def test_an_operations_parameters_replace_its_paths() -> None:
    item = {"parameters": [{"name": "n", "in": "query", "schema": {"type": "string"}}], **get()}
    item["get"]["parameters"] = [{"name": "n", "in": "query", "schema": {"type": "integer"}}]
    assert import_openapi(document({"/a": item}))["op"].protocol.parameters["properties"] == {"n": {"type": "integer"}}


def test_what_cannot_become_a_tool_is_told() -> None:
    root = document(
        {
            "/fine": get(),
            "/trace": {"trace": {}},
            "/broken": {"get": "text"},
            "/param": get(parameters=[{"name": "a\nb", "in": "header"}]),
            "relative": get(),
        }
    )
    result = read_openapi(root)
    assert list(result.toolset) == ["op"]
    reasons = dict(result.skipped)
    assert list(reasons) == ["TRACE /trace", "GET /broken", "GET /param", "GET relative"]
    assert "not a mapping" in reasons["GET /broken"]
    assert "only=" not in "".join(reasons.values())


def test_an_example_that_does_not_fit_the_arguments_is_not_shown() -> None:
    parameters = [{"name": "n", "in": "query", "required": True, "schema": {"type": "integer"}, "example": "many"}]
    assert import_openapi(document({"/a": get(parameters=parameters)}))["op"].protocol.examples == ()


def test_fields_that_the_example_of_a_response_has_and_its_schema_lacks_are_described() -> None:
    film = {"type": "object", "properties": {"id": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"page": {"type": "integer"}, "films": {"type": "array", "items": film}}}
    example = {"page": 1, "films": [{"id": 3, "title": "Up", "cast": None}], "results": [{"tags": ["a"], "ok": True}]}
    media = {"schema": schema, "example": example}
    node = get(responses={"200": {"description": "", "content": {"application/json": media}}})
    returns = import_openapi(document({"/a": node}))["op"].protocol.returns
    assert returns is not None
    known = returns["properties"]
    assert known["films"]["items"]["properties"] == {"id": {"type": "integer"}, "title": {"type": "string"}, "cast": {}}
    assert known["results"]["items"]["properties"]["tags"] == {"type": "array", "items": {"type": "string"}}
    del media["example"]
    plain = import_openapi(document({"/a": node}))["op"].protocol.returns
    assert plain is not None
    assert set(plain["properties"]) == {"page", "films"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "list at its root"),
        ("just text", "str at its root"),
        ("", "NoneType at its root"),
        ("{}", "neither 'openapi' nor 'swagger'"),
        ('{"openapi": "4.0"}', "version '4.0'"),
        ('{"swagger": "1.2"}', "version '1.2'"),
        ('{"openapi": "3.0.0"}', "no 'paths'"),
        ('{"openapi": "3.0.0", "paths": {}}', "no operation"),
        ('{"openapi": "3.0.0", "paths": {}', "not valid JSON"),
        ("openapi: 3.0.0\npaths: [}", "neither JSON nor valid YAML"),
        ("openapi: 3.0.0\n--- \nopenapi: 3.0.0", "second YAML document"),
        ("openapi: !!python/name:os.system x", "tag"),
        ("? [a, b]\n: 1", "line 1: a mapping key must be a scalar"),
        ("a: &a [*a]", "alias *a"),
    ],
)
def test_what_is_no_document_is_refused_by_name(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(content)
    with pytest.raises(ToolImportError) as caught:
        import_openapi(file)
    assert said in str(caught.value)


@pytest.mark.parametrize("source", ["/no/such/file.json", '{"openapi": "3.0.0"}', "http://127.0.0.1:1/x", "http://["])
def test_a_source_that_cannot_be_read_is_an_error(source: str) -> None:
    with pytest.raises(ToolImportError):
        import_openapi(source)


def test_a_dict_may_hold_json_values_only() -> None:
    with pytest.raises(ToolImportError, match="a set at /x"):
        import_openapi({**document({}), "x": {1, 2}})
    with pytest.raises(ToolImportError, match="key of type tuple"):
        import_openapi({**document({}), ("a",): 1})  # type: ignore[dict-item]
    root = document({"/a": get(responses={200: {"description": "a number for a key"}})})
    assert import_openapi(root)["op"].protocol.statuses[0].code == 200


def billion_laughs() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "openapi: 3.0.0\npaths: {}\n" + "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        billion_laughs(),
        "[" * 100_000,
        "{" * 100_000,
        '{"a":' * 100_000,
        "- " * 3_000 + "x",
        '{"openapi": "3.0.0", "paths": {}, "x": ' + "[" * 500 + "]" * 500 + "}",
        " " * 20_000_001,
        '{"openapi": "3.0.0", "x": ' + "9" * 10_000 + "}",
    ],
    ids=["laughs", "lists", "maps", "json", "dashes", "deep", "big", "digits"],
)
def test_hostile_documents_are_refused_quickly(tmp_path: Path, text: str) -> None:
    file = tmp_path / "hostile.yaml"
    file.write_text(text)
    with little_work(20), pytest.raises(ToolImportError):
        import_openapi(file)


def chain(kind: str, length: int) -> dict[str, Any]:
    def ref(n: int) -> dict[str, str]:
        return {"$ref": f"#/components/schemas/S{n}"}

    schemas = {f"S{n}": {kind: [ref(n + 1), ref(n + 1)], "title": str(n)} for n in range(length)}
    return document({"/a": get(returns=ref(0))}, components={"schemas": {**schemas, f"S{length}": {"type": "string"}}})


@pytest.mark.parametrize(
    "root",
    [
        chain("allOf", 60),
        chain("oneOf", 1_900),
        document(
            {"/a": get(returns={"$ref": "#/components/schemas/S"})},
            components={
                "schemas": {"S": {"properties": {f"p{n}": {"$ref": "#/components/schemas/S"} for n in range(30)}}}
            },
        ),
        document({"/a": get(returns={"enum": [f"value {n}" for n in range(10_000)]})}),
        document({"/a": get(description="<" * 100_000 + "[" * 100_000)}),
        document({"/a": get(returns={"type": "string", "pattern": "(((a{1,1000}){1,1000}){1,1000})"})}),
    ],
    ids=["allOf", "oneOf", "itself", "enum", "text", "pattern"],
)
def test_hostile_content_costs_little(root: dict[str, Any]) -> None:
    with little_work(20):
        protocol = import_openapi(root)["op"].protocol
    assert Protocol.model_validate_json(protocol.model_dump_json()) == protocol


def test_too_many_definitions_are_refused() -> None:
    assert "definitions" in read_openapi(chain("oneOf", 3_000)).skipped[0][1]


@pytest.mark.parametrize("host", ["api.example", "10.0.0.7", "127.evil.example", "localhost.example", "[fe80::1]"])
def test_a_credential_over_plain_http_needs_a_yes(host: str) -> None:
    schemes = {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}
    root = document(
        {"/a": {"get": operation(security=[{"key": []}])}},
        components={"securitySchemes": schemes},
        servers=[{"url": f"http://{host}"}],
    )
    assert list(import_openapi(root)) == ["op"]  # nothing secret is sent
    for given in ({"auth": {"key": "secret"}}, {"headers": {"X-Key": "secret"}}):
        with pytest.raises(UsageError, match="plain http") as caught:
            import_openapi(root, **given)
        assert "allow_http_credentials" in str(caught.value)
        assert list(import_openapi(root, **given, allow_http_credentials=True)) == ["op"]
        assert list(import_openapi(root, **given, base_url="https://api.example")) == ["op"]
        for here in ("127.0.0.1:80", "localhost:1", "[::1]:1", "127.8.8.8"):
            assert list(import_openapi(root, **given, base_url=f"http://{here}")) == ["op"]


def test_a_document_over_the_cap_says_how_to_raise_it(tmp_path: Path, server: Server) -> None:
    text = json.dumps(document({"/a": {"get": operation()}}, x=" " * 2000))
    (tmp_path / "a.json").write_text(text)
    server.answers["/a.json"] = Answer(text.encode())
    for source in (tmp_path / "a.json", f"{server.url}/a.json"):
        with pytest.raises(ToolImportError, match="max_document_bytes"):
            import_openapi(source, max_document_bytes=1000)
        assert list(import_openapi(source, max_document_bytes=10_000)) == ["op"]


def test_only_what_is_chosen_is_read_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.tools.openapi.importer.MAX_OPERATIONS", 2)
    paths = {f"/{name}": {"get": {"operationId": name}} for name in "abc"}
    paths["/d"] = {"get": {"operationId": "d", "requestBody": {"$ref": "#/nowhere"}}}
    with pytest.raises(ToolImportError, match="choose some with only="):
        import_openapi(document(paths))
    assert list(import_openapi(document(paths), only=["a", "GET /c"])) == ["a", "c"]
    assert read_openapi(document(paths), only=["a"]).skipped == []
    assert list(import_openapi(document(paths), only=["a", "elsewhere_*"], strict=False)) == ["a"]


def test_a_tool_keeps_its_name_whatever_else_is_imported() -> None:
    paths = {
        "/products/{pid}": {"get": {"operationId": "get_product_products__pid__get"}},
        "/a": {"get": {"operationId": "read_a_get"}},
        "/b": {"get": {"operationId": "read_b_get"}},
    }
    tools = import_openapi(document(paths))
    assert list(tools) == ["get_product", "read_a_get", "read_b_get"]
    assert tools["get_product"].protocol.source.operation == "get_product_products__pid__get"
    assert list(import_openapi(document(paths), only=["read_b_get"])) == ["read_b_get"]
    assert list(import_openapi(document(paths), only=["get_product_products_pid_get"])) == ["get_product"]


def of_fastapi() -> dict[str, Any]:
    """A document as FastAPI makes it."""
    book = {
        "type": "object",
        "title": "Book",
        "properties": {
            "id": {"type": "integer", "title": "Id"},
            "loans": {"type": "integer", "title": "Loans", "default": 0},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Note"},
        },
        "required": ["id"],
    }
    error = {"description": "Validation Error", "content": {"application/json": {"schema": {"type": "object"}}}}
    whole = {"200": {"description": "Successful Response", "content": {}}, "422": error}
    whole["200"]["content"] = {"application/json": {"schema": {"$ref": "#/components/schemas/Book"}}}
    add = {
        "summary": "Add Book",
        "description": "Add a book to the shelf.",
        "operationId": "add_book_books_post",
        "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Book"}}}},
        "responses": whole,
    }
    get = {"summary": "Get Book", "operationId": "get_book_books__id__get", "responses": whole}
    get["parameters"] = [
        {"name": "id", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1.0, "maximum": 9.0}}
    ]
    count = {
        "summary": "Number of books",
        "description": "Lost ones count.",
        "operationId": "count",
        "responses": whole,
    }
    paths = {"/books": {"get": count | {"responses": whole}, "post": add}, "/books/{id}": {"get": get}}
    schemas = {"Book": book, "HTTPValidationError": {"type": "object"}, "ValidationError": {"type": "object"}}
    return {"openapi": "3.1.0", "info": {"title": "FastAPI"}, "paths": paths, "components": {"schemas": schemas}}


def test_what_fastapi_repeats_is_said_once() -> None:
    tools = import_openapi(of_fastapi(), base_url="http://localhost")
    stubs = {name: render_stub(tool.protocol, plain=True) for name, tool in tools.items()}
    assert [tool.protocol.description for tool in tools.values()] == [
        "Number of books\n\nLost ones count.", "Add a book to the shelf.", "Get Book",
    ]  # fmt: skip
    assert "422" not in "".join(stubs.values())
    assert "id: (1 to 9)" in stubs["get_book"]
    assert [status.code for status in tools["get_book"].protocol.statuses] == [200, 422]


def test_a_field_with_a_default_is_in_every_response_of_fastapi_and_need_not_be_sent() -> None:
    root = of_fastapi()
    add = import_openapi(root, base_url="http://localhost")["add_book"].protocol
    assert "{'id': int, 'loans': int, 'note'?: str | None}" in render_stub(add, plain=True)
    assert add.required == ("id",)
    del root["components"]["schemas"]["HTTPValidationError"]  # of anyone else's, a default may stand for its absence
    other = import_openapi(root, base_url="http://localhost")["add_book"].protocol
    assert "'loans'?: int" in render_stub(other, plain=True)


def test_a_refusal_with_words_of_its_own_is_shown() -> None:
    root = of_fastapi()
    root["paths"]["/books/{id}"]["get"]["responses"]["422"] = {"description": "The id has a wrong check digit"}
    assert "Errors: 422 The id has a wrong check digit" in render_stub(
        import_openapi(root, base_url="http://localhost")["get_book"].protocol
    )
