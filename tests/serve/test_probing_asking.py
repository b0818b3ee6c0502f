"""``probe`` asks the client's user as programs do, in both protocol eras."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client

from atc import Settings, Tool, Toolset
from atc.calls.permissions import Permissions
from atc.probing.reads import probe_reads
from atc.result import Effect
from atc.schemas.protocol import Source
from atc.serve.mcp.gateway import Gateway, Options
from atc.serve.mcp.probing import approval_at_start
from atc.serve.mcp.server import Face
from tests.support.mcp_face import DECLINE, LEGACY, MODERN, User
from tests.support.tools import make_tool


def stable(tool: Tool) -> Tool:
    source = Source(kind="mcp", location="https://one.example/mcp", operation=tool.name)
    return Tool(tool.protocol.model_copy(update={"source": source}), tool.transport)


@asynccontextmanager
async def client_of(face: Face, mode: str, user: User | None) -> AsyncIterator[Client]:
    try:
        async with Client(face.server, mode=mode, elicitation_callback=user, cache=None) as client:
            yield client
    finally:
        await face.aclose()
        await face.gateway.aclose()


def gateway(
    tmp_path: Path, *tools: Tool, extras: tuple[str, ...] = (), permissions: Permissions | None = None
) -> Gateway:
    settings = Settings.load(catalogue=tmp_path / "catalogue", runs_dir=tmp_path / "runs")
    return Gateway(Toolset(map(stable, tools)), settings, permissions=permissions, options=Options(extras=extras))


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
def test_a_probe_of_a_read_asks_nobody_and_one_of_a_write_asks_each_time(tmp_path: Path, mode: str) -> None:
    names = {"type": "string", "enum": ["a"]}
    written: list[object] = []

    def write(arguments: dict[str, object]) -> dict[str, int]:
        written.append(arguments)
        return {"id": 1}

    tools = [make_tool("look", lambda _: {"size": 1}, of=names), make_tool("change", write, Effect.WRITE, of=names)]
    user = User([DECLINE])

    async def told() -> None:
        served = gateway(tmp_path, *tools, extras=("probe",))
        async with client_of(Face(served), mode, user) as client:
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
    (tmp_path / "permissions.toml").write_text('[[rules]]\ndeny = "look"\n')
    permissions = Permissions.load(tmp_path / "permissions.toml")

    async def told() -> None:
        tools = [make_tool("look", made.append), make_tool("change", made.append, Effect.WRITE)]
        served = gateway(tmp_path, *tools, extras=("probe",), permissions=permissions)
        assert await probe_reads(served.catalogue, served.settings, approval_at_start(served), served.redactor) == []
        async with client_of(Face(served), LEGACY, User()) as client:
            assert (await client.call_tool("probe", {"tool": "look"})).is_error  # it does not know of the tool

    asyncio.run(told())
    assert made == []
