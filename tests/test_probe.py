"""Probing, as a user may rely on it: tools without documents get documents, and nothing is called that may not be."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from support_probe import Oracle, Says, Service, line, probed, prober, python, running, states
from support_sandbox import in_sandbox
from support_tools import make_tool

from atc.errors import ModelUnavailable, SandboxUnavailable, ToolError, UsageError
from atc.execution.broker import ApprovalRequest
from atc.execution.sandbox import CallReply, Sandbox
from atc.probing.gate import Budget
from atc.probing.prober import Prober, Progress, probe
from atc.probing.report import Report
from atc.settings import Settings
from atc.tools.documents import load_protocols, protocol_schema
from atc.tools.functions import tool
from atc.tools.protocol import Effect, Protocol, Provenance
from atc.tools.stubs import render_stubs
from atc.tools.tool import Tool, Toolset

AUTHORS = {"a-71": "Ursula", "a-94": "Stanisław"}
BOOKS = {
    "b-3": {"title": "The Dispossessed", "author_id": "a-71", "year": 1974, "isbn": None},
    "b-8": {"title": "Solaris", "author_id": "a-94", "year": 1961, "isbn": "0156027607"},
    "b-9": {"title": "Eden", "author_id": "a-94", "year": 1958, "isbn": None},
}


def missing(what: str = "thing") -> Says:
    return Says(json.dumps({"detail": f"there is no such {what}"}), 404)


@pytest.fixture
def service() -> Iterator[Service]:
    with running() as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "documents")


def add_library(service: Service) -> None:
    """shelves → books of a shelf → a book → its author: each needs an id out of the one before."""
    service.route(
        "list_shelves",
        "/shelves",
        {"shelves": [{"shelf_id": "s-1", "room": "north"}, {"shelf_id": "s-2", "room": "south"}]},
    )
    on = {"s-1": ["b-3", "b-8"], "s-2": ["b-9"]}
    service.route(
        "list_books",
        "/shelves/{shelf_id}/books",
        lambda a: (
            [{"book_id": b, "title": BOOKS[b]["title"]} for b in on[a["shelf_id"]]]
            if a["shelf_id"] in on
            else missing("shelf")
        ),
    )
    service.route("get_book", "/books/{book_id}", lambda a: BOOKS.get(a["book_id"]) or missing("book"))
    service.route(
        "get_author",
        "/authors/{author_id}",
        lambda a: {"name": AUTHORS[a["author_id"]]} if a["author_id"] in AUTHORS else missing("author"),
    )


LIBRARY = ("list_shelves", "list_books", "get_book", "get_author")


# -- alone, and in a chain --------------------------------------------------------------------------------------------


def test_a_tool_that_needs_nothing_is_documented_by_one_call_and_no_model(service: Service) -> None:
    service.route("list_shelves", "/shelves", {"shelves": [{"shelf_id": "s-1", "room": None}]})
    model = Oracle()
    report = probed(service.tools(), model)
    found = line(report, "list_shelves")
    assert (found.state, found.reason, found.round, found.calls, found.helpers) == ("documented", "", 1, 1, ())
    assert found.fields >= 2
    assert model.count("program") == 0
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
    assert states(report) == {**dict.fromkeys(LIBRARY, "not"), "list_shelves": "documented"}
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
        for example in protocol.examples:
            assert example.program
            assert example.description
            outcome = in_sandbox(
                example.program,
                {name: called(tools, name) for name in LIBRARY},
                {name: list(tools[name].protocol.parameters["properties"]) for name in LIBRARY},
            )
            assert outcome.kind == "finished", outcome
            assert outcome.value == example.response
            again += 1
    assert again >= 2 * len(LIBRARY) - 1


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


# -- the model, where structure is not enough -------------------------------------------------------------------------


def add_search(service: Service) -> None:
    def find(arguments: dict[str, str]) -> Any:
        if arguments["name"] != "Stalker":
            return Says(json.dumps({"detail": "no film of this name; try a Russian one"}), 404)
        return {"film": "Stalker", "minutes": 167}

    service.route("find_film", "/films", find, need="name", name={"type": "string"})


def test_the_model_is_asked_where_structure_has_no_value_and_told_what_failed(service: Service) -> None:
    add_search(service)
    model = Oracle(
        {
            "find_film": [
                python("# Question: Is there a film Alien?", "answer = find_film(name='Alien')"),
                python("# Question: How long is Stalker?", "answer = find_film(name='Stalker')"),
            ]
        }
    )
    report = probed(service.tools(), model)
    assert states(report) == {"find_film": "documented"}
    prompts = [
        messages[-1].content
        for messages, (kind, _) in zip(model.prompts, model.asked, strict=True)
        if kind == "program"
    ]
    assert len(prompts) == 2
    assert "Russian" not in prompts[0]
    assert "find_film(name='Alien')" in prompts[1]
    assert "no film of this name; try a Russian one" in prompts[1]
    example = report.protocols[0].examples[0]
    assert (example.description, example.arguments) == ("How long is Stalker?", {"name": "Stalker"})
    assert example.program == "# Question: How long is Stalker?\nanswer = find_film(name='Stalker')\n"
    assert report.model_calls == len(model.asked)


def test_the_model_is_told_what_is_wrong_with_its_program(service: Service) -> None:
    add_search(service)
    model = Oracle(
        {
            "find_film": [
                python("answer = find_film(name=films[0])"),
                python("answer = find_film(name='Stalker')"),
            ]
        }
    )
    assert states(probed(service.tools(), model)) == {"find_film": "documented"}
    prompts = [
        messages[-1].content
        for messages, (kind, _) in zip(model.prompts, model.asked, strict=True)
        if kind == "program"
    ]
    assert "films" in prompts[1]
    assert "NameError" in prompts[1]


def test_a_tool_that_only_a_broken_program_called_has_that_as_its_reason(service: Service) -> None:
    add_search(service)
    report = probed(service.tools(), Oracle({"find_film": [python("answer = find_film(name=films[0])")]}), rounds=1)
    assert line(report, "find_film").state == "not"
    assert "films" in line(report, "find_film").reason


def test_the_model_is_asked_for_helpers_where_no_name_fits(service: Service) -> None:
    service.route("catalogue", "/catalogue", [{"label": "Stalker"}])
    add_search(service)
    model = Oracle(
        {
            "find_film": [
                "I do not know.",
                "I do not know.",
                "I do not know.",
                python("answer = find_film(name=catalogue()[0]['label'])"),
            ]
        },
        {"find_film": "catalogue, and perhaps drop_database"},
    )
    report = probed(service.tools(), model)
    assert states(report) == {"catalogue": "documented", "find_film": "documented"}
    assert line(report, "find_film").helpers == ("catalogue",)
    assert line(report, "find_film").round == 2
    assert len(service.asked("catalogue")) == 1


def test_a_model_that_fails_costs_only_what_needs_it(service: Service) -> None:
    add_library(service)
    add_search(service)
    report = probed(service.tools(), Oracle())  # it raises ModelError when it is asked for a program
    assert states(report) == {**dict.fromkeys(LIBRARY, "documented"), "find_film": "not"}


def test_a_model_that_cannot_be_had_is_said_as_it_is(service: Service) -> None:
    add_search(service)
    with pytest.raises(ModelUnavailable, match="no key"):
        probed(service.tools(), Oracle({"find_film": [ModelUnavailable("no key")]}))


class Nowhere(Sandbox):
    """A sandbox that cannot be had when it comes to it."""

    name = "nowhere"

    async def prepare(self) -> None:
        return

    async def run(self, job: Any, call: Any) -> Any:
        raise SandboxUnavailable("no namespaces left")

    async def aclose(self) -> None:
        return


def test_a_sandbox_that_cannot_be_had_is_said_as_it_is(service: Service) -> None:
    add_library(service)
    with pytest.raises(SandboxUnavailable, match="no namespaces left"):
        probed(service.tools(), sandbox=Nowhere())
    assert service.hits == []


# -- effects ----------------------------------------------------------------------------------------------------------


TELLTALE = {
    "delete_user": "/a",
    "deletePost": "/b",
    "DeleteComment": "/c",
    "DELETE_ALL": "/d",
    "send_mail": "/e",
    "users_delete": "/f",
    "user.remove": "/g",
    "do_purge": "/h",
    "bulkDelete": "/i",
    "destroy_user": "/j",
    "erase_disk": "/k",
    "logout": "/l",
    "op1": "/x/delete_user",
    "op2": "/users/{user_id}/delete",
    "op3": "/api/v1/purge",
    "op4": "/users/{user_id}/activate",
    "op5": "/admin/shutdown",
    "op6": "/cart/checkout",
}
HARMLESS = {
    "get_user": "/a",
    "list_orders": "/b",
    "getOrderById": "/c",
    "get_post": "/d",
    "user_settings": "/e",
    "search": "/f",
    "address_book": "/g",
    "op1": "/orders",
    "op2": "/api/v2/posts",
    "op3": "/stores/open_hours",
    "op4": "/removals_firms",
    "op5": "/pins",
}


def add_all(service: Service, templates: dict[str, str]) -> None:
    """Operations by their names; ``op…`` have none, as in a document of methods and paths only."""
    for name, template in templates.items():
        service.route(name, template, {"n": 1}, named=not name.startswith("op"))


def test_a_get_whose_name_tells_of_an_effect_is_not_called(service: Service) -> None:
    add_all(service, TELLTALE)
    report = probed(service.tools())
    assert [hit.target for hit in service.hits] == []
    assert [each.tool for each in report.lines if each.state != "skipped"] == []
    assert all("--allow-effects" in each.reason for each in report.lines)
    assert report.protocols == ()
    assert report.complete


def test_a_get_whose_name_only_resembles_an_effect_is_called(service: Service) -> None:
    add_all(service, HARMLESS)
    report = probed(service.tools())
    assert [each.tool for each in report.lines if each.state != "documented"] == []
    assert len(service.hits) == len(HARMLESS)


def test_what_writes_is_listed_and_not_called(service: Service) -> None:
    add_library(service)
    methods = ("POST", "PUT", "PATCH", "DELETE")
    for method in methods:
        service.route(f"get_{method.lower()}", f"/{method.lower()}", {"n": 1}, method=method)
    report = probed(service.tools(), Oracle({"get_author": [python("answer = get_post()")]}))
    assert {hit.method for hit in service.hits} == {"GET"}
    for method in methods:
        found = line(report, f"get_{method.lower()}")
        assert found.state == "skipped"
        assert "write" in found.reason
    assert report.count("documented") == len(LIBRARY)


def test_a_function_of_unknown_effect_is_not_called() -> None:
    called: list[int] = []
    report = probed(Toolset([make_tool("mystery", lambda _: called.append(1), Effect.UNKNOWN)]))
    assert (called, states(report)) == ([], {"mystery": "skipped"})


def test_every_call_with_an_effect_is_asked_about(service: Service) -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    service.route("list_rooms", "/rooms", [{"room_id": "r-7"}])
    service.route("book_room", "/rooms/{room_id}/booking", {"booking": 1}, method="POST")
    service.route("cancel_all", "/cancel", {"gone": 3}, method="DELETE")
    report = probed(service.tools(), allow_effects=("book_*",), approve=approve)
    assert states(report) == {"list_rooms": "documented", "book_room": "documented", "cancel_all": "skipped"}
    assert {request.tool for request in asked} == {"book_room"}
    assert len(asked) == len(service.asked("book_room"))


def test_a_get_with_a_telltale_name_that_was_allowed_is_asked_about_too(service: Service) -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return False

    service.route("delete_everything", "/everything", {"gone": 3})
    report = probed(service.tools(), allow_effects=("delete_*",), approve=approve)
    assert [request.tool for request in asked] == ["delete_everything"]
    assert service.hits == []
    assert states(report) == {"delete_everything": "not"}


def test_a_call_that_was_denied_is_not_made_and_the_tool_says_so(service: Service) -> None:
    service.route("book_room", "/booking", {"booking": 1}, method="POST")
    asked: list[ApprovalRequest] = []
    report = probed(service.tools(), allow_effects=("*",), approve=lambda request: bool(asked.append(request)))
    assert service.hits == []
    assert len(asked) == 1
    assert line(report, "book_room").state == "not"
    assert "not approve" in line(report, "book_room").reason


def test_effects_that_nobody_approves_are_refused_at_once(service: Service) -> None:
    service.route("book_room", "/booking", {"booking": 1}, method="POST")
    with pytest.raises(UsageError, match="approve"):
        prober(service.tools(), allow_effects=("*",))
    with pytest.raises(UsageError, match="no tool"):
        prober(Toolset())


def test_a_tool_that_can_only_be_shown_is_skipped() -> None:
    report = probed(Toolset([Tool(Protocol(name="shown", effect=Effect.READ)), make_tool("fine", lambda _: {"n": 1})]))
    assert states(report) == {"shown": "skipped", "fine": "documented"}
    assert "transport" in line(report, "shown").reason


# -- stopping and going on --------------------------------------------------------------------------------------------


class Stop(Exception):
    pass


def stopping(after: int) -> Any:
    told: list[Progress] = []

    def progress(made: Progress) -> None:
        told.append(made)
        if len(told) == after:
            raise Stop("enough")

    return progress


@pytest.mark.parametrize("after", [1, 3])
def test_probing_that_was_stopped_goes_on_and_asks_nothing_twice(service: Service, folder: str, after: int) -> None:
    add_library(service)
    for number in range(3):
        service.route(
            f"get_extra{number}",
            f"/extra/{number}/{{book_id}}",
            lambda a: {"n": 1} if a["book_id"] in BOOKS else missing(),
        )
    with pytest.raises(Stop, match="enough"):
        probed(service.tools(), folder=folder, on_progress=stopping(after))
    before = Counter(hit.target for hit in service.hits)
    report = probed(service.tools(), folder=folder)
    assert report.count("documented") == len(LIBRARY) + 3
    helpers = {"/shelves", "/shelves/s-1/books", "/shelves/s-2/books", "/books/b-3", "/books/b-8", "/books/b-9"}
    again = [target for target in service.twice() if target in before and target not in helpers]
    assert len(again) <= 3  # those that were under way at the stop; what later tools need may be fetched anew
    assert len(load_protocols(folder)) == len(LIBRARY) + 3


def test_what_is_documented_is_not_probed_again(service: Service, folder: str) -> None:
    add_library(service)
    first = probed(service.tools(), folder=folder)
    before = len(service.hits)
    again = probed(service.tools(), folder=folder)
    assert len(service.hits) == before
    assert again.protocols == first.protocols
    assert [each.model_copy(update={"calls": 0}) for each in again.lines] == [
        each.model_copy(update={"calls": 0}) for each in first.lines
    ]


def test_a_call_that_was_refused_is_not_made_again_after_a_stop(service: Service, folder: str) -> None:
    service.route("get_thing", "/things/{thing_id}", lambda _: missing(), thing_id={"type": "integer"})
    probed(service.tools(), folder=folder)
    assert service.hits
    probed(service.tools(), folder=folder)
    assert service.twice() == []


def test_cancelled_probing_keeps_what_it_knows(service: Service, folder: str) -> None:
    service.route("list_shelves", "/shelves", [{"shelf_id": "s-1"}])
    service.route("slow", "/slow", lambda _: time.sleep(3))
    known = asyncio.Event()
    made = prober(service.tools(), folder=folder, on_progress=lambda _: known.set())

    async def go() -> None:
        running = asyncio.create_task(made.aprobe())
        await known.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(asyncio.wait_for(go(), 10))
    assert list(load_protocols(folder)) == ["list_shelves"]


def test_a_tool_that_was_documented_with_leave_stays_so_without(service: Service, folder: str) -> None:
    service.route("book_room", "/booking", {"booking": 1}, method="POST")
    assert states(probed(service.tools(), folder=folder, allow_effects=("*",), approve=lambda _: True)) == {
        "book_room": "documented"
    }
    before = len(service.hits)
    report = probed(service.tools(), folder=folder)
    assert states(report) == {"book_room": "documented"}
    assert len(service.hits) == before


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"name": "list_shelves"}', "\ufffd", "[" * 50_000, '{"name": 1, "state": []}']
)
def test_a_damaged_record_is_named(service: Service, folder: str, text: str) -> None:
    service.route("list_shelves", "/shelves", [{"shelf_id": "s-1"}])
    probed(service.tools(), folder=folder)
    file = Path(folder) / ".probe" / "list_shelves.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"list_shelves\.json.*remove it"):
        probed(service.tools(), folder=folder)


def test_a_folder_that_cannot_be_made_is_named(service: Service, tmp_path: Path) -> None:
    service.route("list_shelves", "/shelves", [{"shelf_id": "s-1"}])
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file/documents"):
        probed(service.tools(), folder=str(tmp_path / "file" / "documents"))
    assert service.hits == []


# -- on the way -------------------------------------------------------------------------------------------------------


def test_tools_of_a_round_are_probed_at_the_same_time(service: Service) -> None:
    for number in range(4):
        service.route(f"slow_{number}", f"/slow/{number}", lambda _: (time.sleep(0.4), {"n": 1})[1])
    probed(service.tools())
    times = [hit.at for hit in service.hits]
    assert len(times) == 4
    assert max(times) - min(times) < 0.35


def test_progress_is_told_of_every_tool(service: Service) -> None:
    add_library(service)
    told: list[tuple[str, str, int]] = []
    report = probed(service.tools(), on_progress=lambda p: told.append((p.record.name, p.record.state, p.round)))
    assert {name for name, state, _ in told if state == "documented"} == set(LIBRARY)
    assert [round for _, _, round in told] == sorted(round for _, _, round in told)
    assert all(line(report, name).round == round for name, state, round in told if state == "documented")


def test_a_report_says_what_it_cost(service: Service) -> None:
    add_library(service)
    model = Oracle()
    report = probed(service.tools(), model)
    assert model.count("sentence") == len(LIBRARY)
    replies = len(model.asked) - model.count("program")  # it raises when it is asked for a program
    assert report.calls == len(service.hits) == sum(each.calls for each in report.lines)
    assert {each.tool: each.calls for each in report.lines} == Counter(hit.tool for hit in service.hits)
    assert (report.model_calls, report.prompt_tokens) == (len(model.asked), 10 * replies)
    assert report.response_bytes > 100
    again = Report.model_validate({**report.to_json(), "protocols": []})
    assert again.lines == report.lines
    assert json.loads(json.dumps(report.to_json()))["calls"] == report.calls


def test_probing_ends_when_a_round_adds_nothing(service: Service) -> None:
    service.route("get_thing", "/things/{thing_id}", lambda _: missing())
    told: list[int] = []
    probed(service.tools(), rounds=50, on_progress=lambda p: told.append(p.round))
    assert max(told) <= 2


def test_it_works_inside_a_running_loop(service: Service) -> None:
    service.route("list_shelves", "/shelves", [{"shelf_id": "s-1"}])

    async def go() -> Report:
        return probed(service.tools())

    assert states(asyncio.run(go())) == {"list_shelves": "documented"}


def test_no_model_is_opened_where_none_is_needed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.route("list_shelves", "/shelves", [{"shelf_id": "s-1"}])
    described = Toolset(
        Tool(t.protocol.model_copy(update={"description": "Lists shelves."}), t.transport)
        for t in service.tools().values()
    )
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_MODEL", "none")
    with Prober(described, settings=Settings.load(), budget=Budget()) as made:
        assert states(made.probe()) == {"list_shelves": "documented"}
