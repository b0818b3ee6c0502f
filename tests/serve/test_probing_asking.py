"""``probe`` asks the client's user as programs do, in both protocol eras."""

from __future__ import annotations

import asyncio
from pathlib import Path

from atc import Tool
from atc.probing.reads import probe_reads
from atc.result import Effect
from atc.schemas.protocol import Source
from atc.serve.mcp.gateway import Options
from atc.serve.mcp.probing import approval_at_start
from tests.support.mcp_face import DECLINE, LEGACY, User, both_eras, connected, gateway_of
from tests.support.permissions import file_of
from tests.support.tools import make_tool


def stable(tool: Tool) -> Tool:
    source = Source(kind="mcp", location="https://one.example/mcp", operation=tool.name)
    return Tool(tool.protocol.model_copy(update={"source": source}), tool.transport)


PROBING = Options(extras=("probe",))


@both_eras
def test_a_probe_of_a_read_asks_nobody_and_one_of_a_write_asks_each_time(mode: str) -> None:
    names = {"type": "string", "enum": ["a"]}
    written: list[object] = []

    def write(arguments: dict[str, object]) -> dict[str, int]:
        written.append(arguments)
        return {"id": 1}

    tools = [make_tool("look", lambda _: {"size": 1}, of=names), make_tool("change", write, Effect.WRITE, of=names)]
    user = User([DECLINE])

    async def told() -> None:
        async with (
            gateway_of(*map(stable, tools), jail=True, options=PROBING) as served,
            connected(served, mode, user) as client,
        ):
            assert "probe" in [tool.name for tool in (await client.list_tools()).tools]
            found = (await client.call_tool("probe", {"tool": "look"})).structured_content
            assert found["state"] == "observed"
            assert "size" in found["stub"]
            assert user.seen == []
            found = (await client.call_tool("probe", {"tool": "change"})).structured_content
            assert found["state"] == "nothing"
            assert user.seen
            assert (await client.call_tool("probe", {"tool": "gone"})).is_error

    asyncio.run(told())
    assert written == []


def test_a_read_that_is_denied_is_not_made_by_any_of_them(tmp_path: Path) -> None:
    made: list[object] = []
    rules = file_of(tmp_path, '[[rules]]\ndeny = "look"\n')

    async def told() -> None:
        tools = [make_tool("look", made.append), make_tool("change", made.append, Effect.WRITE)]
        made_of = gateway_of(*map(stable, tools), jail=True, options=PROBING, permissions=rules)
        async with made_of as served, connected(served, LEGACY, User()) as client:
            assert not await probe_reads(served.catalogue, served.settings, approval_at_start(served), served.redactor)
            assert (await client.call_tool("probe", {"tool": "look"})).is_error  # it does not know of the tool

    asyncio.run(told())
    assert made == []
