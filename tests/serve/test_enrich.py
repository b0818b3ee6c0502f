"""``--enrich``: tools as their servers have them, with output schemas that every answer fits."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client

from atc import Settings, Tool, Toolset
from atc.calls.approval import Approval, ApprovalRequest
from atc.errors import ToolError, UsageError
from atc.result import Effect
from atc.schemas.infer.outline import outline_of
from atc.schemas.protocol import Source
from atc.serve.mcp.enrich import PAGE, EnrichedFace
from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.output_schemas import filled_schema, fitted
from atc.serve.mcp.requests import ToolRequest
from atc.serve.mcp.single_calls import LEFT_OUT
from tests.support.tools import NUMBER, make_tool

TEXT = {"type": "string"}
MODES = ("legacy", "2026-07-28")


def served(
    name: str, call: Callable[[dict[str, Any]], Any], place: str = "https://one.example/mcp", **more: Any
) -> Tool:
    tool = make_tool(name, call, **more)
    source = Source(kind="mcp", location=place, operation=name.replace("_", "-"))
    return Tool(tool.protocol.model_copy(update={"source": source}), tool.transport)


def gateway(tmp_path: Path, *tools: Tool, **settings: Any) -> Gateway:
    return Gateway(Toolset(tools), Settings.load(catalogue=tmp_path / "catalogue", **settings))


@asynccontextmanager
async def client_of(face: EnrichedFace, mode: str, heard: list[Any] | None = None) -> AsyncIterator[Client]:
    async def hear(message: Any) -> None:
        if heard is not None:
            heard.append(type(message).__name__)

    try:
        async with Client(face.server, mode=mode, message_handler=hear, cache=None) as client:
            yield client
    finally:
        await face.aclose()


async def schemas(client: Client) -> dict[str, Any]:
    return {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}


def text_of(result: types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.parametrize("mode", MODES)
def test_a_schema_is_filled_in_after_the_first_answer_and_corrected_when_one_does_not_fit(
    tmp_path: Path, mode: str
) -> None:
    answers: list[Any] = [
        {"issues": [{"id": 1}], "total": 1},
        {"issues": [{"id": 2}], "total": 1},
        {"issues": "none", "total": 0},  # fits nothing that was seen
        {"issues": "none", "total": 0},
        [{"id": 3}],
        None,
    ]
    left = iter(answers)
    heard: list[str] = []

    async def told() -> None:
        face = EnrichedFace(gateway(tmp_path, served("list_issues", lambda _: next(left), repo=TEXT)))
        async with client_of(face, mode, heard) as client:
            assert await schemas(client) == {"list-issues": None}

            async def ask() -> types.CallToolResult:
                result = await client.call_tool("list-issues", {"repo": "x"})  # the SDK holds it to the schema
                assert not result.is_error
                return result

            assert (await ask()).structured_content is None  # that was not declared
            declared = (await schemas(client))["list-issues"]
            assert declared["properties"]["total"] == {"type": ["number", "null"]}
            assert "required" not in json.dumps(declared)
            assert (await ask()).structured_content == answers[1]
            odd = await ask()
            assert json.loads(text_of(odd)) == answers[2]  # whole, and unchanged
            assert odd.structured_content == {"total": 0}
            assert odd.meta is not None
            assert odd.meta[LEFT_OUT] == ["$.issues"]
            assert (await schemas(client))["list-issues"] != declared
            assert (await ask()).structured_content == answers[3]
            assert (await ask()).structured_content == {"result": answers[4]}
            face.gateway.catalogue.settle()
            assert "result" in (await schemas(client))["list-issues"]["properties"]
            assert (await ask()).structured_content == {"result": None}
        again = EnrichedFace(gateway(tmp_path, served("list_issues", lambda _: {}, repo=TEXT)))
        async with client_of(again, mode) as client:  # another process knows it
            assert (await schemas(client))["list-issues"]["properties"]["issues"]

    asyncio.run(told())
    if mode == "legacy":
        assert 2 <= heard.count("ToolListChangedNotification") <= 3


def test_calls_pass_the_broker_and_each_write_is_asked_about(tmp_path: Path) -> None:
    asked: list[ApprovalRequest] = []

    def approves(request: ToolRequest, run_id: str) -> Approval:
        def ask(about: ApprovalRequest) -> bool:
            asked.append(about)
            return len(asked) != 2

        return Approval(ask, earlier=request.client.earlier_writes(run_id))

    def down(_: dict[str, Any]) -> Any:
        raise ToolError("the service is down", status=503, outcome="refused")

    tools = [
        served("write", lambda _: {"done": True}, effect=Effect.WRITE, text=TEXT, required=("text",)),
        served("read", lambda given: given["n"], n=NUMBER, required=("n",)),
        served("down", down),
    ]

    async def told() -> None:
        async with client_of(EnrichedFace(gateway(tmp_path, *tools), approves), "legacy") as client:
            hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
            assert hints["write"] == types.ToolAnnotations(read_only_hint=False)
            assert hints["read"] == types.ToolAnnotations(read_only_hint=True)
            for number, arguments in enumerate(({"text": "a"}, {"text": "b"}, {"text": "a"})):
                result = await client.call_tool("write", arguments)
                assert result.is_error == (number == 1)
            assert [bool(each.repeats) for each in asked] == [False, False, True]
            assert not (await client.call_tool("read", {"n": 1})).is_error
            for name, arguments, words in (
                ("read", {"n": "x"}, "is not of type"),
                ("down", {}, "the service is down"),
                ("gone", {}, "there is no tool 'gone' here"),
            ):
                result = await client.call_tool(name, arguments)
                assert result.is_error
                assert words in text_of(result)
        async with client_of(EnrichedFace(gateway(tmp_path, *tools)), "legacy") as client:
            result = await client.call_tool("write", {"text": "c"})
            assert "nobody could be asked" in text_of(result)

    asyncio.run(told())
    assert len(asked) == 3


def test_the_list_has_pages_and_equal_names_are_told_apart(tmp_path: Path) -> None:
    many = [served(f"tool_{number}", lambda _: 1) for number in range(2 * PAGE)]
    twice = [
        Tool(tool.protocol.model_copy(update={"name": name}), tool.transport)
        for name, tool in (
            ("one_look", served("look", lambda _: "one")),
            ("two_look", served("look", lambda _: "two", "https://two.example/mcp")),
        )
    ]

    async def told() -> None:
        async with client_of(EnrichedFace(gateway(tmp_path, *many, *twice)), "legacy") as client:
            names, cursor = list[str](), None
            while True:
                page = await client.list_tools(cursor=cursor)
                names += [tool.name for tool in page.tools]
                assert len(page.tools) <= PAGE
                if (cursor := page.next_cursor) is None:
                    break
            assert len(set(names)) == len(names) == 2 * PAGE + 2
            assert {"tool-1", "one_look", "two_look"} <= set(names)
            assert "look" not in names
            assert text_of(await client.call_tool("two_look", {})) == "two"
            for wrong in ("-1", "x", "9" * 30, str(5 * PAGE)):
                with pytest.raises(MCPError, match="cursor"):
                    await client.list_tools(cursor=wrong)

    asyncio.run(told())


def test_without_learning_there_is_nothing_to_fill_in(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="learn"):
        EnrichedFace(gateway(tmp_path, served("look", lambda _: 1), learn=False))


KEYS = st.sampled_from(["id", "name", "items", "total", "result", "2026-01-01", "7", "x@y.example"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, width=16) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=14,
)


@given(st.lists(JSON, min_size=1, max_size=4), JSON)
def test_every_answer_fits_the_schema_that_was_filled_in(seen: list[Any], later: Any) -> None:
    schema = filled_schema(outline_of(seen).schema_seen())
    if schema is None:
        return
    jsonschema.Draft202012Validator.check_schema(schema)
    for value in [*seen, later]:
        content, left_out = fitted(value, schema)
        jsonschema.validate(content, schema, cls=jsonschema.Draft202012Validator)
        if not left_out:
            assert content == (value if isinstance(value, dict) else {"result": value})
    for value in seen:
        assert fitted(value, schema)[1] == []  # what was seen is never cut


BLOCKS = """
from mcp.server.mcpserver import MCPServer
from mcp_types import ImageContent, TextContent, ToolAnnotations

server = MCPServer("blocks")
READS = ToolAnnotations(read_only_hint=True)

@server.tool(annotations=READS, structured_output=False)
def picture():
    image = ImageContent(type="image", data="aGVsbG8=", mime_type="image/png")
    return [TextContent(type="text", text='{"id": 1}'), image]

@server.tool(annotations=READS)
def total(a: int, b: int) -> int:
    return a + b

@server.tool(annotations=READS, structured_output=False)
def fails() -> str:
    raise RuntimeError("down")

server.run()
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_blocks_and_declared_results_of_a_server_pass_unchanged(tmp_path: Path, mode: str) -> None:
    (tmp_path / "blocks.py").write_text(BLOCKS)
    tools = Toolset.from_mcp([sys.executable, str(tmp_path / "blocks.py")])

    async def told() -> None:
        face = EnrichedFace(Gateway(tools, Settings.load(catalogue=tmp_path / "catalogue")))
        async with client_of(face, mode) as client:
            declared = (await schemas(client))["total"]
            assert declared["required"] == ["result"]
            assert (await client.call_tool("total", {"a": 1, "b": 2})).structured_content == {"result": 3}
            for _ in range(2):
                result = await client.call_tool("picture", {})
                assert [block.type for block in result.content] == ["text", "image"]
                assert result.content[1] == types.ImageContent(type="image", data="aGVsbG8=", mime_type="image/png")
                await schemas(client)
            assert result.structured_content["result"][0] == {"id": 1}
            failed = await client.call_tool("fails", {})
            assert failed.is_error
            assert "fails" in text_of(failed)

    asyncio.run(told())


@pytest.mark.slow
def test_the_command_serves_the_tools_of_a_configuration_over_pipes(tmp_path: Path) -> None:
    (tmp_path / "blocks.py").write_text(BLOCKS)
    servers = {"blocks": {"command": sys.executable, "args": [str(tmp_path / "blocks.py")]}}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    command = ["-m", "atc", "mcp", "--enrich", "--probe-reads", "--tools", str(tmp_path / "servers.json")]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "ATC_CATALOGUE": str(tmp_path / "catalogue")}

    async def told() -> None:
        started = StdioServerParameters(command=sys.executable, args=command, env=environment)
        async with Client(stdio_client(started), cache=None) as client:
            for _ in range(200):  # what surely reads and needs nothing is called beside the serving
                declared = await schemas(client)
                if declared.get("picture") is not None:
                    break
                await asyncio.sleep(0.1)
            assert set(declared) == {"picture", "total", "fails"}
            assert "result" in declared["picture"]["properties"]
            assert declared["fails"] is None
            assert (await client.call_tool("total", {"a": 2, "b": 2})).structured_content == {"result": 4}

    asyncio.run(told())
