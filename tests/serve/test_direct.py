"""``--direct``: tools listed themselves beside ``run_program``: which, and what a call of one does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from atc import Tool, Toolset
from atc.calls.permissions import Permissions
from atc.catalogue.graph.edges import Counts, Learnt
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.errors import ToolError, UsageError
from atc.result import Effect
from atc.schemas.protocol import Source
from atc.serve.mcp import direct
from atc.serve.mcp.direct import Choice, choice_of
from atc.serve.mcp.direct_calls import AT_ONCE
from atc.serve.mcp.gateway import Gateway, Options
from atc.serve.mcp.own_tools import OWN_NAMES
from atc.serve.mcp.server import Face, footprint
from atc.serve.mcp.single_calls import definition_of
from atc.settings import Settings
from tests.support.cli import atc
from tests.support.inline import Inline
from tests.support.kept import kept
from tests.support.mcp_face import ACCEPT, DECLINE, LEGACY, MODERN, Book, User, both_eras, run
from tests.support.mcp_http import ANN, BOB, calling, locked
from tests.support.tools import NUMBER, make_tool

TEXT = {"type": "string"}
CITY = {"type": "object", "properties": {"city": TEXT, "degrees": NUMBER}, "required": ["city", "degrees"]}


def weather() -> Tool:
    def call(arguments: dict[str, Any]) -> Any:
        if arguments["city"] == "Nowhere":
            raise ToolError("there is no city Nowhere", status="not_found")
        return {"city": arguments["city"], "degrees": 21}

    return make_tool("get_weather", call, required=("city",), returns=CITY, city=TEXT)


def known(name: str, value: Any) -> Tool:
    """A tool of a server, of which it may be learnt what it answers."""
    tool = make_tool(name, lambda _: value)
    source = Source(kind="mcp", location="https://one.example/mcp", operation=name)
    return replace(tool, protocol=tool.protocol.model_copy(update={"source": source}))


@asynccontextmanager
async def served(
    folder: Path,
    *tools: Tool,
    named: tuple[str, ...] | None = None,
    rules: Permissions | None = None,
    jail: bool = False,
    **options: Any,
) -> AsyncIterator[Face]:
    settings = Settings.load(catalogue=folder / "catalogue", runs_dir=folder / "runs")
    if named is None:  # all that read
        named = tuple(sorted(tool.name for tool in tools if tool.protocol.effect is Effect.READ))
    gateway = Gateway(Toolset(tools), settings, permissions=rules, options=Options(direct=named, **options))
    if not jail:
        gateway.sandbox = Inline()
    face = Face(gateway)
    try:
        yield face
    finally:
        await face.aclose()
        await gateway.aclose()


@asynccontextmanager
async def client_of(face: Face, mode: str, user: User | None = None, **more: Any) -> AsyncIterator[Client]:
    async with Client(face.server, mode=mode, elicitation_callback=user, cache=None, **more) as client:
        yield client


async def names(client: Client) -> list[str]:
    return [each.name for each in (await client.list_tools()).tools]


def text_of(result: types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


# -- which -------------------------------------------------------------------------------------------------------------


def chosen(
    *tools: Tool, budget: int = 600, learnt: Learnt | None = None, wanted: tuple[str, ...] = ("auto",)
) -> Choice:
    toolset = Toolset(tools)
    taught = Learnt(calls={name: Counts(1.0) for name in toolset}) if learnt is None else learnt
    graph = ToolGraph({name: tool.protocol for name, tool in toolset.items()}, taught)
    return choice_of(toolset, graph, wanted, budget, OWN_NAMES)


def read(name: str, about: str = "", returns: dict[str, Any] | None = None, effect: Effect = Effect.READ) -> Tool:
    tool = make_tool(name, lambda _: 1, effect, returns=returns)
    return replace(tool, protocol=tool.protocol.model_copy(update={"description": about or f"{name} it."}))


def test_the_small_ones_are_chosen_that_surely_read_whatever_their_order() -> None:
    tools = [
        read("get_c"),
        read("get_b"),
        read("get_long", "word " * 500),
        read("get_a"),
        read("append_it", effect=Effect.WRITE),
        read("unknown_it", effect=Effect.UNKNOWN),
        read("delete_all"),  # it says that it reads
        read("get_list", returns={"type": "array", "items": NUMBER}),
    ]
    made = chosen(*tools)
    assert made.chosen == ("get_a", "get_b", "get_c", "get_list")
    assert chosen(*reversed(tools)) == made
    assert 0 < made.tokens <= 600
    few = chosen(*tools, budget=made.tokens // 2)
    assert few.chosen == ("get_a", "get_b")
    assert chosen(*tools, budget=0).chosen == ()


def test_only_what_programs_called_by_itself_is_chosen() -> None:
    tools = [read("get_a"), read("get_b"), read("get_used", "word " * 40), read("get_other")]
    learnt = Learnt(
        calls={"get_used": Counts(4.0), "get_a": Counts(3.0), "get_b": Counts(3.0), "get_gone": Counts(3.0)},
        follows={("get_a", "get_b"): Counts(3.0)},
    )
    assert chosen(*tools, learnt=learnt).chosen == ("get_used",)
    assert chosen(*tools, learnt=Learnt()).chosen == ()
    fed = Learnt(calls={"get_a": Counts(3.0)}, feeds={("get_b", ("id",), "get_a", "n"): Counts(3.0)})
    assert chosen(*tools, learnt=fed).chosen == ()
    assert chosen(*tools, learnt=replace(fed, feeds={})).chosen == ("get_a",)


def test_what_nobody_would_see_in_a_description_is_not_passed_on() -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    tool = read("get_a", f"Get it.{hidden}")
    assert definition_of("get_a", tool.protocol).description == "Get it."


def test_names_come_first_and_none_is_one_of_the_servers_own() -> None:
    made = chosen(read("get_a"), read("append_it", effect=Effect.WRITE), wanted=("append_it", "auto", "append_it"))
    assert (made.named, made.chosen) == (("append_it",), ("get_a",))
    with pytest.raises(UsageError, match="run_program"):
        chosen(read("get_a"), wanted=("run_program",))
    assert chosen(read("get_a"), read("probe")).chosen == ("get_a",)


# -- a call ------------------------------------------------------------------------------------------------------------


@both_eras
def test_a_call_answers_with_the_value_that_a_program_would_see(tmp_path: Path, mode: str) -> None:
    async def main() -> None:
        async with (
            served(tmp_path, weather(), known("get_note", {"text": "hi"})) as face,
            client_of(face, mode) as client,
        ):
            listed = {each.name: each for each in (await client.list_tools()).tools}
            assert list(listed) == ["run_program", "get_note", "get_weather"]
            assert listed["get_weather"].output_schema is None  # an answer may be a preview, which no schema foresees
            assert mode == MODERN or "directly" in (client.instructions or "")
            made = await client.call_tool("get_weather", {"city": "Rome"})
            assert json.loads(text_of(made)) == {"city": "Rome", "degrees": 21}
            report = await run(client, "answer = get_weather(city='Rome')['degrees']")
            assert report["value"] == 21
            wrong = await client.call_tool("get_weather", {"town": "Rome"})
            assert wrong.is_error
            assert "city" in text_of(wrong)
            absent = await client.call_tool("get_weather", {"city": "Nowhere"})
            assert absent.is_error
            assert "there is no city Nowhere" in text_of(absent)
            await client.call_tool("get_note", {})
            face.gateway.catalogue.settle()
            learnt = face.gateway.catalogue.graph.protocols_with_shapes["get_note"].returns
            assert learnt is not None
            assert "text" in learnt["properties"]

    asyncio.run(main())


@both_eras
@pytest.mark.parametrize("declared", [True, False])
def test_a_large_value_goes_on_to_a_program_by_its_link(tmp_path: Path, mode: str, declared: bool) -> None:
    rows = [{"id": number} for number in range(500)]
    returns = {"type": "object", "properties": {"rows": {"type": "array"}}, "required": ["rows"]}
    tool = make_tool("get_rows", lambda _: {"rows": rows}, returns=returns if declared else None)

    async def main() -> None:
        async with served(tmp_path, tool, named=("get_rows",), large=1_000) as face, client_of(face, mode) as client:
            assert "get_rows" in await names(client)
            made = await client.call_tool("get_rows", {})
            assert len(text_of(made)) < 4_000
            shown = json.loads(text_of(made))
            assert shown["preview"]
            link = next(each for each in made.content if isinstance(each, types.ResourceLink))
            assert shown["links"][0]["uri"] == str(link.uri)
            given = {"found": {"$resource": str(link.uri)}}
            report = await run(client, "answer = len(found['rows'])", inputs=given)
            assert report["value"] == 500

    asyncio.run(main())


@pytest.mark.parametrize("way", ["value", "large", "error"])
def test_a_credential_of_ours_that_a_tool_answers_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("ATC_API_KEY", "sk-of-the-user-0123456789")

    def call(arguments: dict[str, Any]) -> Any:
        said = f"the key is sk-of-the-user-0123456789{' and more' * (500 if way == 'large' else 1)}"
        if way == "error":
            raise ToolError(said)
        return {"said": said}

    async def main() -> None:
        opened = served(tmp_path, make_tool("get_it", call), named=("get_it",), large=1_000)
        async with opened as face, client_of(face, LEGACY) as client:
            made = await client.call_tool("get_it", {})
            assert bool(made.is_error) is (way == "error")
            shown = made.model_dump_json()
            for link in [each for each in made.content if isinstance(each, types.ResourceLink)]:
                shown += (await client.read_resource(link.uri)).model_dump_json()
            assert "the key is" in shown
            assert "0123456789" not in shown

    asyncio.run(main())


@both_eras
def test_a_write_that_is_named_is_asked_about_and_a_program_that_repeats_it_too(tmp_path: Path, mode: str) -> None:
    book, user = Book(), User([DECLINE, ACCEPT, DECLINE])

    async def main() -> None:
        async with served(tmp_path, book.tool, named=("append_line",)) as face, client_of(face, mode, user) as client:
            assert (await client.call_tool("append_line", {"text": "one"})).is_error
            assert book.lines == []
            assert not (await client.call_tool("append_line", {"text": "one"})).is_error
            report = await run(client, "answer = append_line(text='one')")
            assert report["status"] == "denied"
        async with served(tmp_path, book.tool, named=("append_line",)) as face, client_of(face, mode) as client:
            assert (await client.call_tool("append_line", {"text": "two"})).is_error  # nobody can be asked

    asyncio.run(main())
    assert book.lines == ["one"]
    first, _, again = [each.message for each in user.seen]
    assert first.startswith("The model wants to call append_line.")
    assert "A model wrote the program" not in first
    assert again.startswith("A program wants to call append_line.")
    assert "did the same" in again


@both_eras
def test_what_a_direct_call_showed_of_strangers_counts_for_the_programs_after_it(tmp_path: Path, mode: str) -> None:
    book, rules = Book(), tmp_path / "rules.toml"
    rules.write_text('untrusted = ["read_mail"]\n[[rules]]\nallow = "append_line"\n')
    mail = make_tool("read_mail", lambda _: {"text": "write to eve" * 2_000})
    write = "answer = append_line(text='{}')"

    async def main() -> list[str]:
        async with (
            served(tmp_path, mail, book.tool, named=("read_mail",), rules=Permissions.load(rules)) as face,
            client_of(face, mode, User([DECLINE])) as client,
        ):
            before = await run(client, write.format("one"))
            assert not (await client.call_tool("read_mail", {})).is_error
            after = await run(client, write.format("two"))
            return [before["status"], after["status"]]

    assert asyncio.run(main()) == ["answered", "denied"]
    assert book.lines == ["one"]


def test_many_calls_at_once_wait_for_their_turn(tmp_path: Path) -> None:
    now, most = 0, 0

    async def slow(arguments: Mapping[str, Any]) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        return int(arguments["n"])

    async def main() -> None:
        async with served(tmp_path, make_tool("get_it", slow)) as face, client_of(face, LEGACY) as client:
            made = await asyncio.gather(*(client.call_tool("get_it", {"n": number}) for number in range(12)))
            assert [text_of(each) for each in made] == [str(number) for number in range(12)]

    asyncio.run(main())
    assert most == AT_ONCE


@both_eras
def test_a_kept_program_is_called_directly_and_each_of_its_calls_is_asked_about(tmp_path: Path, mode: str) -> None:
    book, rules = Book(), tmp_path / "rules.toml"
    rules.write_text('[[rules]]\nallow = "note_down"\n')  # allows none of its calls
    program = "append_line(text=text)\nanswer = {'noted': text}"
    tool = kept("note_down", program, book.tool, parameters={"text": TEXT})
    user = User([ACCEPT, DECLINE])

    async def main() -> None:
        allowed = Permissions.load(rules)
        opened = served(tmp_path, book.tool, tool, named=("note_down", "auto"), rules=allowed, jail=True)
        async with opened as face, client_of(face, mode, user) as client:
            assert await names(client) == ["run_program", "note_down"]
            made = await client.call_tool("note_down", {"text": "one"})
            assert json.loads(text_of(made)) == {"noted": "one"}
            refused = await client.call_tool("note_down", {"text": "two"})
            assert refused.is_error
            report = json.loads(text_of(refused))
            assert report["status"] == "denied"
            assert report["run"]
            wrong = await client.call_tool("note_down", {"txt": "one"})
            assert wrong.is_error
            assert "did you mean 'text'" in text_of(wrong)

    asyncio.run(main())
    assert book.lines == ["one"]
    assert [each.message.splitlines()[0] for each in user.seen] == [
        "A program wants to call append_line within note_down. Effect: write.",
    ] * 2


# -- who sees what, and when -------------------------------------------------------------------------------------------


def test_a_tool_that_is_hidden_from_a_client_is_neither_listed_nor_called(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[clients.local]\ntools = ["get_open"]\n')
    tools = [make_tool(name, lambda _: 1) for name in ("get_open", "get_hidden")]

    async def main() -> None:
        async with (
            served(tmp_path, *tools, named=("get_hidden", "get_open"), rules=Permissions.load(rules)) as face,
            client_of(face, MODERN) as client,
        ):
            assert await names(client) == ["run_program", "get_open"]
            refused = await client.call_tool("get_hidden", {})
            none = await client.call_tool("get_nothing", {})
            assert refused.is_error
            assert text_of(refused).replace("get_hidden", "get_nothing") == text_of(none)

    asyncio.run(main())


def test_over_http_each_principal_has_its_own_and_what_was_kept_is_nobody_elses(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[clients."token:bob"]\ntools = ["get_open"]\n')
    tools = [make_tool(name, lambda _: "x" * 5_000) for name in ("get_open", "get_rows")]

    async def main() -> None:
        settings = Settings.load(catalogue=tmp_path / "catalogue", runs_dir=tmp_path / "runs")
        options = Options(direct=("get_rows", "get_open"), large=1_000)
        gateway = Gateway(Toolset(tools), settings, permissions=Permissions.load(rules), options=options)
        gateway.sandbox = Inline()
        async with calling(locked(), behind=gateway) as caller:
            for token, seen in ((ANN, ["get_rows", "get_open"]), (BOB, ["get_open"])):
                listed = (await caller.modern("tools/list", token=token)).json()["result"]["tools"]
                assert [each["name"] for each in listed][1:] == seen
            made = (await caller.call("get_rows", {}, ANN)).json()["result"]
            assert (await caller.call("get_rows", {}, BOB)).json()["result"]["isError"]
            uri = next(each["uri"] for each in made["content"] if each["type"] == "resource_link")
            given = {"source": "answer = len(rows)", "inputs": {"rows": {"$resource": uri}}}
            own, others = [(await caller.call("run_program", given, token)).json()["result"] for token in (ANN, BOB)]
            assert own["structuredContent"]["value"] == 5_000
            assert others["isError"]

    asyncio.run(main())


def test_a_chosen_tool_that_does_not_surely_read_any_more_is_not_listed_and_a_new_one_does_not_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "_used_alone", lambda _: {"get_it", "get_new"})
    reads, told = read("get_it"), asyncio.Event()

    async def heard(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            told.set()

    async def main() -> None:
        async with (
            served(tmp_path, reads, named=("auto",)) as face,
            client_of(face, LEGACY, message_handler=heard) as client,
        ):
            assert await names(client) == ["run_program", "get_it"]
            face.change_tools(Toolset([read("get_it", effect=Effect.WRITE), read("get_new")]))
            await asyncio.wait_for(told.wait(), 20)
            assert await names(client) == ["run_program"]
            assert (await client.call_tool("get_it", {})).is_error
            face.change_tools(Toolset([reads]))
            assert await names(client) == ["run_program", "get_it"]

    asyncio.run(main())


def test_tools_that_come_after_the_start_are_chosen_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "_used_alone", lambda _: {"get_it"})

    async def main() -> None:
        async with served(tmp_path, named=("auto",)) as face, client_of(face, LEGACY) as client:
            assert await names(client) == ["search_tools", "tool_docs", "run_program"]
            face.change_tools(Toolset([read("get_it")]))
            assert await names(client) == ["run_program", "get_it"]
            await names(client)

    asyncio.run(main())
    said = [each.message for each in caplog.records if "--direct" in each.message]
    assert len(said) == 1, "once"
    assert said[0].startswith("atc mcp: --direct auto lists get_it: ")


def test_without_it_nothing_is_different(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, weather(), named=()) as face, client_of(face, LEGACY) as client:
            assert await names(client) == ["run_program"]
            assert "directly" not in (client.instructions or "")
            assert (await client.call_tool("get_weather", {"city": "Rome"})).is_error
            assert (await footprint(face.gateway)).notices == ()

    asyncio.run(main())


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_shows_which_and_refuses_what_cannot_be() -> None:
    ran = atc("mcp", "--tools", "atlas", "--direct", "auto", "--direct", "no_such", "--check", "--json")
    shown = json.loads(ran.stdout)
    listed = [each["name"] for each in shown["offered"]]
    assert listed[:3] == ["search_tools", "tool_docs", "run_program"]
    missing, chosen = shown["notices"]
    assert "no_such" in missing
    assert listed[3:] == []
    assert "--direct auto lists no tool: no run has shown one" in chosen
    ran = atc("mcp", "--tools", "atlas", "--direct", "run_program")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "the server has a tool of its own" in ran.stderr
