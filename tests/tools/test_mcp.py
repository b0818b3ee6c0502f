"""MCP servers are tools: what they list can be called, what they break is told, what they are given stays secret."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import signal
import subprocess
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from mcp_types import CallToolResult, TextContent
from typer.testing import CliRunner

from atc import Agent, Toolset
from atc.cli import app
from atc.errors import ToolError, ToolImportError
from atc.models.fake import FakeModel
from atc.result import Effect
from atc.schemas.protocol import Provenance, parameters_of
from atc.schemas.validate import problems
from atc.tools.lenient_json import Oddities
from atc.tools.mcp.spec import Secrets, ServerSpec
from atc.tools.mcp.stdio import ServerLog, _Incoming
from atc.tools.mcp.transport import value_of
from atc.tools.sources import open_tools
from tests.support.mcp import called, entry, gone, one, raw_server, reading, refused, shop_command, shop_over_http

SECRET = "sk-very-secret-0001"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Toolset:
    return Toolset.from_mcp(shop_command(tmp_path_factory.mktemp("shop")), env={"SHOP_TOKEN": SECRET})


@pytest.fixture(autouse=True)
def _quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "slow" not in request.keywords:
        monkeypatch.setattr("atc.tools.mcp.stdio.GRACE_S", 0.3)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with shop_over_http(tmp_path_factory.mktemp("http")) as url:
        yield url


def raw_tools(folder: Path, tools: list[Any] | None = None, max_bytes: int = 5_000_000, **plan: Any) -> Toolset:
    return Toolset.from_mcp(raw_server(folder, tools, **plan), timeout_s=60, max_bytes=max_bytes)


# What a server lists


def test_a_servers_tools_become_protocols(shop: Toolset) -> None:
    protocol = shop["shop_get_item"].protocol
    assert protocol.description == "Get an item\n\nLook one up."
    assert protocol.parameters["required"] == ["product_id"]
    assert protocol.returns is not None
    assert protocol.returns["properties"]["price"] == {"$ref": "#/$defs/Price"}
    assert protocol.returns["$defs"]["Price"]["properties"]["cents"]["type"] == "integer"
    assert (protocol.source.kind, protocol.source.operation) == ("mcp", "shop.getItem")
    assert protocol.provenance is Provenance.IMPORTED
    assert SECRET not in repr(shop["shop_get_item"]) + protocol.model_dump_json()


def test_hints_tell_the_effect_and_can_be_left_aside(shop: Toolset, address: str) -> None:
    effects = {name: tool.protocol.effect for name, tool in shop.items()}
    assert effects["shop_get_item"] is Effect.READ
    assert (effects["order"], effects["drop"], effects["unsaid"]) == (Effect.WRITE, Effect.WRITE, Effect.UNKNOWN)
    doubted = Toolset.from_mcp(address, trust_hints=False, only=["shop.*", "say"])
    assert {tool.protocol.effect for tool in doubted.values()} == {Effect.UNKNOWN}
    assert list(doubted) == ["shop_get_item", "say"]


def test_all_pages_are_read_and_names_are_kept_apart(tmp_path: Path) -> None:
    pages = [{"tools": [entry("a.b"), entry("a-b")], "nextCursor": "1"}, {"tools": [entry("print")]}]
    tools = raw_tools(tmp_path, pages=pages)
    assert {name: tool.protocol.source.operation for name, tool in tools.items()} == {
        "a_b": "a.b",
        "a_b_2": "a-b",
        "print_": "print",
    }


def test_a_schema_that_cannot_be_used_costs_that_tool_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wrong = [
        {"name": "afar", "inputSchema": {"type": "object", "properties": {"x": {"$ref": "http://evil.example/x"}}}},
        {"name": "nowhere", "inputSchema": {"type": "object", "properties": {"x": {"$ref": "#/$defs/none"}}}},
    ]
    loop = {"type": "object", "properties": {"child": {"$ref": "#"}, "name": {"type": "string"}}}
    good = {"name": "good", "inputSchema": loop, "outputSchema": {"type": "object", "$ref": "file:///etc/passwd"}}
    with caplog.at_level(logging.WARNING):
        tools = raw_tools(tmp_path, [*wrong, good])
    assert list(tools) == ["good"]
    assert tools["good"].protocol.returns == {}  # there is a schema, of which nothing is known
    assert tools["good"].protocol.parameters["$defs"]
    assert "afar" in caplog.text
    assert "nowhere" in caplog.text


WRONG_TOOLS: dict[str, tuple[Any, str]] = {
    "no arguments": ({"name": "bad"}, "the tool 'bad' is left out: it has no inputSchema"),
    "arguments of a list": ({"name": "bad", "inputSchema": {"type": "array"}}, "its inputSchema is of 'array'"),
    "arguments of nothing": ({"name": "bad", "inputSchema": None}, "its inputSchema is a NoneType, not a schema"),
    "a title that is none": (entry("bad", title=5), "the tool 'bad' is left out: title"),
    "no name": ({"inputSchema": {"type": "object"}}, "tool 2 of a page is left out: name"),
    "no object": ("bad", "tool 2 of a page is left out: it is a str, not an object"),
    "a name that is there": (entry("good", description="other"), "two tools are named 'good': the first of them stays"),
}


@pytest.mark.parametrize("case", WRONG_TOOLS)
def test_a_wrong_tool_costs_itself_alone_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    wrong, words = WRONG_TOOLS[case]
    with caplog.at_level(logging.WARNING):
        tools = raw_tools(tmp_path, [entry("good", description="first"), wrong, entry("other")])
    assert list(tools) == ["good", "other"]
    assert tools["good"].protocol.description == "first"
    assert words in caplog.text


def test_an_output_schema_costs_no_tool(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    listed = entry("listed", outputSchema={"type": "array", "items": {"type": "string"}})
    item = {"type": "object", "properties": {"deps": {"type": "array", "items": {"$ref": "#/$defs/I"}}}}
    untyped = entry("untyped", outputSchema={"$ref": "#/$defs/I", "$defs": {"I": item}})  # MCP knows objects alone
    damaged = entry("damaged", outputSchema=[])
    with caplog.at_level(logging.WARNING):
        tools = raw_tools(tmp_path, [listed, untyped, damaged])
    assert tools["listed"].protocol.returns == {"type": "array", "items": {"type": "string"}}
    assert "deps" in (tools["untyped"].protocol.returns or {})["properties"]
    assert tools["damaged"].protocol.returns == {}
    assert "nothing is known about what the tool 'damaged' answers: its outputSchema is a list" in caplog.text
    assert "listed" not in caplog.text
    assert "untyped" not in caplog.text


def test_arguments_without_a_type_are_an_object_and_those_of_alternatives_are_all_shown(tmp_path: Path) -> None:
    a, b = ({"type": "object", "properties": {key: {"type": "string"}}, "required": [key]} for key in "ab")
    tools = raw_tools(
        tmp_path, [{"name": "none", "inputSchema": {}}, {"name": "either", "inputSchema": {"anyOf": [a, b]}}]
    )
    assert parameters_of(tools["none"].protocol) == []
    assert [(p.name, p.required) for p in parameters_of(tools["either"].protocol)] == [("a", False), ("b", False)]
    assert not problems(tools["either"].protocol.parameters, {"a": "x"})
    assert problems(tools["either"].protocol.parameters, {})


def test_a_list_that_goes_in_a_circle_ends_with_what_was_had(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pages = [{"tools": [entry("a")], "nextCursor": "1"}, {"tools": [entry("b")], "nextCursor": "1"}]
    with caplog.at_level(logging.WARNING):
        tools = raw_tools(tmp_path, pages=pages)
    assert list(tools) == ["a", "b"]
    assert "its list goes in a circle: page '1' comes twice" in caplog.text
    assert "two tools" not in caplog.text


def test_a_long_description_is_cut(tmp_path: Path) -> None:
    tools = raw_tools(tmp_path, [entry("long", description="word " * 200_000)])
    assert 10_000 < len(tools["long"].protocol.description) < 20_003


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"pages": [{"tools": [], "nextCursor": "0"}]}, "in a circle"),
        ({"pages": [{"tools": [entry(f"t{n}") for n in range(10_000)]}]}, "more than 5,000 tools"),
        (
            {"pages": [{"tools": [{"inputSchema": {"type": "object"}}]}]},
            "tool 1 of a page is left out: name: Field req",
        ),
        ({"pages": [{"tools": 5}]}, "does not speak MCP: tools"),
        ({"pages": [{}]}, "does not speak MCP: tools"),
        ({"pages": [{"tools": []}]}, "lists no tool"),
        ({"pages": [{"tools": [{"name": "a", "inputSchema": {"type": "array"}}]}]}, "inputSchema"),
    ],
)
def test_a_damaged_list_is_told(tmp_path: Path, plan: dict[str, Any], words: str) -> None:
    assert words in refused(raw_server(tmp_path, **plan))


@pytest.mark.parametrize("pages", [1, 3])
def test_a_list_that_is_too_long_is_told_with_the_setting_that_allows_more(tmp_path: Path, pages: int) -> None:
    listed = [{"tools": [entry(f"t{n}", description="x" * 3_000)], "nextCursor": f"{n + 1}"} for n in range(pages)]
    del listed[-1]["nextCursor"]
    command, *args = raw_server(tmp_path, pages=listed)
    most = {1: 1_000, 3: 5_000}[pages]
    said = refused({"command": command, "args": args, "max_bytes": most})
    assert f"of more than {most:,} bytes: let it say less, or allow more with `max_bytes`" in said
    assert len(Toolset.from_mcp([command, *args], max_bytes=20_000)) == pages


def test_a_list_can_be_read_where_a_loop_runs(tmp_path: Path) -> None:
    async def notebook() -> list[str]:
        return list(raw_tools(tmp_path, [entry("a")]))

    assert asyncio.run(notebook()) == ["a"]


# Calls


def test_calls_give_plain_values(shop: Toolset) -> None:
    texts = ['{"a": [1]}', "[1, 2]", "007", "12e3", "null", "{broken", " plain "]
    said = [("say", {"text": text}) for text in texts]
    got = called(shop, ("shop_get_item", {"product_id": "p"}), *said, ("many", {}), ("nothing", {}))
    assert got[0] == {"price": {"product_id": "p", "cents": 250}}
    assert got[1:8] == [{"a": [1]}, [1, 2], *texts[2:]]
    text, image, words, blob, link = got[8]
    assert text == "a"
    assert image == {"type": "image", "mime_type": "image/png", "bytes": 4}
    assert (words["text"], blob["bytes"], link["uri"], link["bytes"]) == ("words", 3, "file:///c", 7)
    assert got[9] is None


def test_a_tool_that_fails_says_why_and_whether_it_may_have_acted(address: str) -> None:
    closed, sold, missing = called(Toolset.from_mcp(address), ("drop", {}), ("unsaid", {}), ("shop_get_item", {}))
    assert "the shop is closed" in closed.message
    assert (closed.status, closed.outcome, sold.outcome) == ("error", "unknown", "unknown")
    assert missing.outcome == "refused"


@pytest.mark.parametrize(
    ("do", "status", "outcome", "cause"),
    [
        ({"reply": {"error": {"code": -32602, "message": "no such id"}}}, "invalid_params", "refused", None),
        ({"reply": {"error": {"code": -32603, "message": "oops"}}}, "internal_error", "unknown", None),
        ({"reply": {"result": {"content": "x"}}}, "bad_response", "unknown", "bad_response"),
        ({"reply": {"result": {}}}, "bad_response", "unknown", "bad_response"),
        ({"print": '{"jsonrpc": "2.0", "id": ', "sleep": 30}, "broken", "unknown", "broken"),
        ({"exit": 1}, "broken", "unknown", "broken"),
        ({"sleep": 30}, "timeout", "unknown", "unreachable"),
        ({"big": 3_000_000}, "too_large", "unknown", None),
    ],
    ids=str,
)
def test_what_goes_wrong_in_a_call_is_told_and_the_next_one_works(
    tmp_path: Path, do: dict[str, Any], status: str, outcome: str, cause: str | None
) -> None:
    source = raw_server(tmp_path, [entry("act"), entry("well")], calls={"act": do, "well": {"value": {"ok": 1}}})
    tools = Toolset.from_mcp(source, timeout_s=0.5 if do == {"sleep": 30} else 60, max_bytes=1_000_000)
    error, *rest = called(tools, ("act", {}), *([] if do == {"sleep": 30} else [("well", {})]))
    assert isinstance(error, ToolError)
    assert (error.status, error.outcome, error.cause) == (status, outcome, cause)
    assert rest in ([], [{"ok": 1}])


def test_what_a_server_prints_between_its_messages_is_passed_over(tmp_path: Path, capfd: Any) -> None:
    tools = raw_tools(tmp_path, calls={"a": {"print": "debug!", "value": [1]}}, stderr="loading…")
    assert called(tools, ("a", {})) == [[1]]
    assert capfd.readouterr() == ("", "")


def test_one_process_serves_a_run_from_whatever_task_and_is_gone_after_it(tmp_path: Path) -> None:
    tools = raw_tools(tmp_path, calls={"about": {"about": True}, "slow": {"sleep": 0.2}})

    async def run() -> set[int]:
        async with tools.opened(), tools.only("about").opened():
            first = asyncio.create_task(one(tools, "slow"))
            await asyncio.sleep(0.1)
            first.cancel()  # a call that is given up ends nothing but itself
            found = await asyncio.gather(*(asyncio.create_task(one(tools, "about")) for _ in range(5)))
            return {answer["pid"] for answer in found}

    (pid,) = asyncio.run(run())
    assert gone(pid)


def test_a_run_that_fails_leaves_no_process(tmp_path: Path) -> None:
    tools = raw_tools(tmp_path, calls={"about": {"about": True}})

    async def run() -> None:
        async with tools.opened():
            seen.append((await one(tools, "about"))["pid"])
            raise RuntimeError("stop")

    seen: list[int] = []
    with pytest.raises(RuntimeError, match="stop"):
        asyncio.run(run())
    assert gone(seen[0])


def test_without_a_run_a_call_holds_its_own_process(tmp_path: Path) -> None:
    tools = raw_tools(tmp_path, calls={"about": {"about": True}})
    assert gone(asyncio.run(one(tools, "about"))["pid"])


def test_a_server_may_say_a_great_deal_while_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.tools.mcp.stdio.GRACE_S", 60)
    tools = raw_tools(tmp_path, max_bytes=10_000, calls={"a": {"value": {}}}, last_words=str(tmp_path / "said"))
    (tmp_path / "said").unlink()  # by the server that was asked for its list
    assert called(tools, ("a", {})) == [{}]
    assert (tmp_path / "said").exists()


def test_who_waits_for_a_server_that_listens_no_more_is_told_at_the_next_call(tmp_path: Path) -> None:
    mark = tmp_path / "deaf"
    tools = raw_tools(tmp_path, calls={"deaf": {"deaf": str(mark), "sleep": 600}, "a": {"value": {}}})

    async def run() -> tuple[Any, Any]:
        async with tools.opened():
            first = asyncio.create_task(one(tools, "deaf"))
            while not mark.exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.01)
            await one(tools, "a")
            return await first, await one(tools, "a")

    error, after = asyncio.run(asyncio.wait_for(run(), 50))
    assert (error.status, error.outcome, after) == ("broken", "unknown", {})


def test_a_call_that_is_given_up_before_the_server_reads_it_is_never_sent(tmp_path: Path) -> None:
    heard = tmp_path / "calls"
    calls = {"busy": {"sleep": 1}, "late": {"value": {}}, "well": {"value": {}}}
    tools = raw_tools(tmp_path, calls=calls, calls_file=str(heard))

    async def run() -> None:
        async with tools.opened():
            await one(tools, "well")
            busy = asyncio.create_task(one(tools, "busy"))
            await asyncio.sleep(0.05)
            full = asyncio.create_task(one(tools, "well", {"text": "x" * 3_000_000}))
            await asyncio.sleep(0.05)
            late = asyncio.create_task(one(tools, "late"))
            await asyncio.sleep(0.05)
            late.cancel()
            await asyncio.gather(busy, full)
            assert await one(tools, "well") == {}

    asyncio.run(run())
    assert [json.loads(line)["name"] for line in heard.read_text().splitlines()] == ["well", "busy", "well", "well"]


def test_a_flood_of_messages_leaves_room_for_other_tasks() -> None:
    notice = json.dumps({"jsonrpc": "2.0", "method": "notifications/message"})

    async def run() -> tuple[int, int]:
        stdout = asyncio.StreamReader()
        stdout.feed_data(f"{notice}\n".encode() * 1_000)
        stdout.feed_eof()
        messages = _Incoming(cast(Process, None), stdout, ServerLog(), 1_000)
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        beside = asyncio.create_task(other())
        read = [message async for message in messages]
        beside.cancel()
        return len(read), turns

    read, turns = asyncio.run(run())
    assert read == 1_000
    assert turns > 50


@pytest.mark.slow
def test_a_server_that_will_not_end_is_ended(tmp_path: Path) -> None:
    mark = tmp_path / "calls"
    tools = raw_tools(tmp_path, calls={"a": {"value": {}}}, stubborn=True, calls_file=str(mark))
    began = time.monotonic()
    assert called(tools, ("a", {})) == [{}]
    assert time.monotonic() - began < 60
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(tmp_path) not in listed


@pytest.mark.slow
def test_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import asyncio, sys, json\nfrom atc import Toolset\n"
        f"tools = Toolset.from_mcp({raw_server(tmp_path, calls={'a': {'sleep': 60}, 'pid': {'value': {}}})!r})\n"
        "async def run():\n    async with tools.opened():\n        await tools['pid'].transport({})\n"
        "        print('ready', flush=True)\n        await tools['a'].transport({})\n"
        "asyncio.run(run())\n"
    )
    child = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in said
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(tmp_path) not in listed


# Secrets


def test_a_process_gets_little_and_what_it_says_of_its_secrets_is_masked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine-and-mine-alone")
    command = raw_server(tmp_path, calls={"about": {"about": True}, "say": {"echo": True}})
    tools = Toolset.from_mcp(
        command, env={"SHOP_TOKEN": SECRET, "SHOP_MODE": "on", "DATA": str(tmp_path)}, cwd=tmp_path
    )
    said, echo = called(tools, ("about", {}), ("say", {"text": f"it is {SECRET}"}))
    assert "OPENAI_API_KEY" not in said["env"]
    assert (said["env"]["SHOP_TOKEN"], said["env"]["SHOP_MODE"]) == ("[redacted]", "on")
    assert (said["env"]["DATA"], said["cwd"]) == (str(tmp_path), str(tmp_path))  # a folder that exists is no secret
    assert echo == {"text": "it is [redacted]"}


def test_secrets_on_the_command_line_are_not_shown(tmp_path: Path) -> None:
    source = [
        *raw_server(tmp_path, calls={"a": {"exit": 1}}, stderr=f"key {SECRET}"),
        "--api-key",
        SECRET,
        f"TOKEN={SECRET}b",
    ]
    tools = Toolset.from_mcp(source)
    (error,) = called(tools, ("a", {}))
    assert "it said: key [redacted]" in error.message
    assert SECRET not in error.message + tools["a"].protocol.model_dump_json() + repr(tools["a"])


# Over HTTP


def test_a_server_over_http_gives_the_same(address: str, shop: Toolset) -> None:
    tools = Toolset.from_mcp(address, headers={"X-Key": SECRET})
    assert [p.parameters for p in tools.protocols] == [p.parameters for p in shop.protocols]
    assert tools["order"].protocol.source.location == address
    item, mine, closed = called(
        tools, ("shop_get_item", {"product_id": "p"}), ("header", {"name": "x-key"}), ("drop", {})
    )
    assert item == {"price": {"product_id": "p", "cents": 250}}
    assert mine == "[redacted]"
    assert "the shop is closed" in closed.message


def test_a_large_answer_over_http_ends_that_call_alone(address: str) -> None:
    tools = Toolset.from_mcp(address, max_bytes=200_000)
    big, small = called(tools, ("say", {"text": "x" * 300_000}), ("say", {"text": "hi"}))
    assert isinstance(big, ToolError)
    assert small == "hi"
    assert "allow more with `max_bytes`" in refused({"url": address, "max_bytes": 1_000})


def test_a_server_that_went_away_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    with shop_over_http(tmp_path) as url:
        tools = Toolset.from_mcp(url)
    (error,) = called(tools, ("order", {"product_id": "p"}))
    assert (error.status, error.outcome, error.transient) == ("unreachable", "refused", True)
    assert error.cause == "unreachable"


# As sources on a command line, in runs and in probing


def test_a_word_names_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATC_TEST_WORD", "word-of-the-user")
    monkeypatch.chdir(tmp_path)
    one_, two = raw_server(tmp_path, [reading("look"), entry("x")]), raw_server(tmp_path, [entry("look"), entry("y")])
    assert list(open_tools([f"mcp:{' '.join(one_)}"])) == ["look", "x"]
    servers = {
        "first": {"command": one_[0], "args": one_[1:], "env": {"KEY": "${ATC_TEST_WORD}", "N": 5}},
        "my second": {"command": two[0], "args": two[1:], "autoApprove": []},
        "off": {"command": "nothing", "disabled": True},
    }
    Path("servers.json").write_text(json.dumps({"mcpServers": servers}))
    tools = open_tools(["servers.json"])
    assert list(tools) == ["first_look", "x", "my_second_look", "y"]
    assert tools["y"].protocol.source.location.startswith("my second (python")
    with pytest.raises(ToolImportError, match="there is no command 'nothing'"):
        open_tools(["mcp:nothing"])


def test_an_agent_acts_over_a_server(tmp_path: Path) -> None:
    mark = tmp_path / "calls"
    tools = raw_tools(
        tmp_path, calls={"look": {"value": {"n": 20}}, "more": {"value": {"n": 22}}}, calls_file=str(mark)
    )
    program = '```python\nanswer = look()["n"] + more()["n"]\n```'
    result = Agent(tools, model=FakeModel([program]), sentence=False).run("how many?")
    assert result.value == 42
    assert [json.loads(line)["name"] for line in mark.read_text().splitlines()] == ["look", "more"]


def test_probing_calls_what_reads_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mark = tmp_path / "calls"
    listed = [reading("lakes"), entry("drain", annotations={"readOnlyHint": False}), entry("who_knows")]
    value = {"lakes": [{"lake_id": 7, "name": "Inari"}]}
    command = raw_server(tmp_path, listed, calls={"lakes": {"value": value}}, calls_file=str(mark))
    ran = CliRunner().invoke(
        app, ["probe", "-t", f"mcp:{' '.join(command)}", "-o", "docs", "--set", "max_tries=0", "--json"]
    )
    lines = {line["tool"]: line["state"] for line in json.loads(ran.stdout)["lines"]}
    assert lines == {"lakes": "documented", "drain": "skipped", "who_knows": "skipped"}
    assert {json.loads(line)["name"] for line in mark.read_text().splitlines()} == {"lakes"}
    written = json.loads(Path("docs/lakes.json").read_text())
    assert written["returns"]["properties"]["lakes"]["items"]["properties"]["lake_id"]["type"] == "integer"


def test_what_is_wrong_with_an_answer_is_told_without_its_secrets() -> None:
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {f"key {SECRET}": deep}
    result = CallToolResult(content=[], structuredContent=deep)
    spec = ServerSpec("a server", Secrets([SECRET]))
    with pytest.raises(ToolError, match=r"nested deeper than 120 levels at /key \[redacted\]"):
        value_of("look", result, spec)


@pytest.mark.parametrize("form", ["structured", "one text", "two texts"])
def test_what_json_does_not_have_is_noted_and_ends_nothing(form: str) -> None:
    value = {f"key {SECRET}": math.nan, "n": 1}
    text = TextContent(type="text", text=json.dumps(value))
    content = [] if form == "structured" else [text] * (1 + (form == "two texts"))
    result = CallToolResult(content=content, structuredContent=value if form == "structured" else None)
    spec, odd = ServerSpec("a server", Secrets([SECRET])), Oddities()
    got = value_of("look", result, spec, odd)
    one = {"key [redacted]": None, "n": 1}
    assert got == ([one, one] if form == "two texts" else one)
    [note] = odd.notes(spec.secrets.value)
    assert note.startswith(f"{len(content) or 1} number")
    assert ("key [redacted]" in note, SECRET in note) == (True, False)


@pytest.mark.parametrize("listed", [reading, entry], ids=["read", "write"])
@pytest.mark.parametrize("form", ["text", "structured"])
def test_a_server_that_sends_nan_is_read_with_a_note(tmp_path: Path, listed: Any, form: str) -> None:
    value = {"mean": math.nan, "n": 2}
    do = {"value": value} if form == "text" else {"reply": {"result": {"content": [], "structuredContent": value}}}
    source = raw_server(tmp_path, [listed("a")], calls={"a": do})
    with Agent(Toolset.from_mcp(source), model=FakeModel([]), approve="always", keep_runs=False) as agent:
        result = agent.run_program("answer = a()")
    assert (result.status, result.value) == ("answered", {"mean": None, "n": 2})
    assert result.calls[0].notes == ("1 number (NaN or infinite) became null: mean",)
