"""Probing, as a user may rely on it: tools without documents get documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs

from atc.calls.contract import CallReply
from atc.errors import ToolError
from atc.probing.prober import probe
from atc.schemas.protocol import Provenance
from atc.tools.documents import load_protocols, protocol_schema
from atc.tools.functions import tool
from atc.tools.stubs import render_stubs
from atc.tools.tool import Toolset
from tests.support.probe import Oracle, Says, Service, line, probed, states
from tests.support.probe_services import LIBRARY, add_library, missing
from tests.support.sandbox import in_sandbox
from tests.support.tools import make_tool

# -- alone, and in a chain --------------------------------------------------------------------------------------------


def test_a_tool_that_needs_nothing_is_documented_by_one_call_and_no_model(service: Service) -> None:
    service.route("list_shelves", "/shelves", {"shelves": [{"shelf_id": "s-1", "room": None}]})
    model = Oracle()
    report = probed(service.tools(), model)
    found = line(report, "list_shelves")
    assert (found.state, found.reason, found.round, found.calls, found.helpers) == ("documented", "", 1, 1, ())
    assert found.fields >= 2
    assert model.count("values") == 0
    (protocol,) = report.protocols
    assert protocol.provenance is Provenance.INFERRED
    assert protocol.returns is not None
    shelf = protocol.returns["properties"]["shelves"]["items"]["properties"]
    assert shelf["shelf_id"]["type"] == "string"
    assert shelf["shelf_id"]["x-atc-evidence"] == {"seen": 1, "of": 1}


def test_ids_travel_down_a_chain_of_tools_without_a_word_of_the_model(service: Service) -> None:
    add_library(service)
    model = Oracle()
    report = probed(service.tools(), model)
    assert states(report) == dict.fromkeys(LIBRARY, "documented")
    assert report.complete
    assert model.prompts  # it was asked, and had nothing to say
    rounds = [line(report, name).round for name in LIBRARY]
    assert rounds[0] == 1
    assert rounds == sorted(rounds)
    assert [line(report, name).helpers for name in LIBRARY[:2]] == [(), ("list_shelves",)]
    assert "list_books" in line(report, "get_book").helpers
    assert "get_book" in line(report, "get_author").helpers
    assert service.twice() == []


def test_one_round_probes_each_tool_alone(service: Service) -> None:
    add_library(service)
    report = probed(service.tools(), rounds=1)
    assert states(report) == {**dict.fromkeys(LIBRARY, "undocumented"), "list_shelves": "documented"}
    assert all(each.reason for each in report.lines[1:])
    assert not report.complete


def test_several_instances_tell_of_optional_fields_nulls_and_statuses(service: Service, folder: str) -> None:
    add_library(service)
    service.route(
        "get_reader",
        "/readers/{book_id}",
        lambda a: (
            {"b-3": {"name": "Ada", "age": 36}, "b-8": {"name": "Alan", "age": None, "card": 7}}.get(a["book_id"])
            or missing()
        ),
    )
    report = probed(service.tools(), folder=folder)
    book = load_protocols(folder)["get_book"].protocol
    assert book.returns is not None
    assert len(book.examples) == 2
    assert sorted(book.returns["properties"]) == ["author_id", "isbn", "title", "year"]
    assert sorted(book.returns["properties"]["isbn"]["type"]) == ["null", "string"]
    assert book.returns["properties"]["isbn"]["x-atc-evidence"]["null"] >= 1
    reader = next(each for each in report.protocols if each.name == "get_reader")
    assert reader.returns is not None
    assert reader.returns["required"] == ["name", "age"]
    assert reader.returns["properties"]["card"]["x-atc-evidence"]["seen"] == 1
    assert "404" in {str(status.code) for status in book.statuses}
    for protocol in report.protocols:
        for example in protocol.examples:
            jsonschema_rs.validate(protocol.returns or {}, example.response)
            jsonschema_rs.validate(protocol.parameters, example.arguments)


def test_what_a_service_refuses_for_teaches_the_required_arguments(service: Service) -> None:
    def quote(arguments: dict[str, str]) -> Any:
        for name in ("currency", "amount"):
            if name not in arguments:
                return wrong({"loc": ["query", name], "msg": "Field required", "type": "missing"})
        if arguments["currency"] not in ("CHF", "SEK"):
            return wrong({"loc": ["query", "currency"], "msg": "Input should be 'CHF' or 'SEK'", "type": "enum"})
        return {"amount": float(arguments["amount"]), "currency": arguments["currency"], "fee": 0.5}

    service.route("quote", "/quote", quote)  # the document declares none of them
    report = probed(service.tools(undeclared=True))
    assert states(report) == {"quote": "documented"}
    (protocol,) = report.protocols
    assert set(protocol.required) == {"currency", "amount"}
    assert protocol.parameters["properties"]["currency"]["enum"] == ["CHF", "SEK"]
    assert service.twice() == []


def wrong(problem: dict[str, Any]) -> Says:
    return Says(json.dumps({"detail": [problem]}), 422)


def test_a_declared_type_stands_and_an_optional_argument_is_tried(service: Service) -> None:
    service.route(
        "search",
        "/search",
        lambda a: {"page": int(a.get("page", 1)), "country": a["country"]},
        need="country",
        query="page",
        country={"type": "string", "description": "ISO code"},
        page={"type": "integer", "minimum": 1},
    )
    report = probed(service.tools())
    (protocol,) = report.protocols
    assert protocol.parameters["properties"]["page"]["type"] == "integer"
    assert protocol.parameters["properties"]["country"]["description"] == "ISO code"
    assert protocol.required == ("country",)
    assert {"page" in hit.arguments for hit in service.hits} == {True, False}


# -- documents --------------------------------------------------------------------------------------------------------


def test_documents_fit_the_published_schema_and_make_stubs_that_compile(service: Service, folder: str) -> None:
    add_library(service)
    report = probed(service.tools(), folder=folder)
    files = sorted(Path(folder).glob("*.json"))
    assert [file.stem for file in files] == sorted(LIBRARY)
    for file in files:
        jsonschema_rs.validate(protocol_schema(), json.loads(file.read_text()))
    loaded = load_protocols(folder)
    assert {p.name: p for p in loaded.protocols} == {p.name: p for p in report.protocols}
    stubs = render_stubs(loaded.protocols)
    compile(stubs, "stubs", "exec")
    assert all(f"def {name}(" in stubs for name in LIBRARY)


def test_the_program_of_an_example_runs_again_and_gives_its_response(service: Service) -> None:
    add_library(service)
    tools = service.tools()
    report = probed(tools)
    again = 0
    for protocol in report.protocols:
        assert protocol.examples[0].program
        for example in (each for each in protocol.examples if each.program):
            assert example.description
            outcome = in_sandbox(
                example.program,
                {name: called(tools, name) for name in LIBRARY},
                {name: list(tools[name].protocol.parameters["properties"]) for name in LIBRARY},
            )
            assert outcome.kind == "finished", outcome
            assert outcome.value == example.response
            again += 1
    assert again == len(LIBRARY)


def called(tools: Toolset, name: str) -> Any:
    transport = tools[name].transport
    assert transport is not None

    async def call(arguments: dict[str, Any]) -> Any:
        try:
            return await transport(arguments)
        except ToolError as error:
            return CallReply(error=error.message, status=error.status)

    return call


def test_a_tool_without_a_description_gets_a_sentence_and_one_with_keeps_its_own(service: Service) -> None:
    service.route("list_shelves", "/shelves", [{"shelf_id": "s-1"}])
    kept = make_tool("kept", lambda _: {"n": 1})
    model = Oracle(sentence='"Lists all shelves."\nAnd more.')
    report = probed(service.tools() + Toolset([kept]), model)
    assert [p.description for p in report.protocols] == ["Lists all shelves.", "kept it."]
    assert model.count("sentence") == 1


def test_functions_without_hints_are_probed_too() -> None:
    @tool(effect="read")
    def rivers(country):  # type: ignore[no-untyped-def]
        return [{"river": "Loire", "km": 1012}] if country == "FR" else []

    report = probe([rivers], model=Oracle())
    assert states(report) == {"rivers": "documented"}
    (protocol,) = report.protocols
    assert protocol.parameters["properties"]["country"]["type"] == "string"
    assert protocol.returns is not None
    assert protocol.returns["items"]["properties"]["km"]["type"] == "integer"


def test_what_a_source_declares_of_its_response_is_not_overwritten() -> None:
    returns = {"type": "object", "properties": {"n": {"type": "integer", "description": "how many"}}}
    report = probed(Toolset([make_tool("count", lambda _: {"n": 1, "extra": 2}, returns=returns)]))
    assert report.protocols[0].returns == returns
