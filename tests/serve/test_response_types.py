"""What programs of clients teach of responses that nobody declared: shapes with counts, in the next stub."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from atc import Settings, Toolset
from atc.calls.approval import Refusal
from atc.errors import ToolError
from atc.schemas.protocol import Source
from atc.serve.mcp.client import ClientId
from atc.serve.mcp.gateway import Gateway
from atc.tools.tool import Tool
from tests.support.tools import NUMBER, make_tool

TEXT = {"type": "string"}
ROWS = [{"id": 1, "title": "Peter's key"}, {"id": 2, "title": "Anna's key", "labels": ["bug"]}]


def stable(tool: Tool) -> Tool:
    source = Source(kind="mcp", location="https://issues.example/mcp", operation=tool.name)
    return Tool(tool.protocol.model_copy(update={"source": source}), tool.transport)


def broken(_: dict[str, Any]) -> Any:
    raise ToolError("the service is down", status=503, outcome="refused")


def gateway(tmp_path: Path) -> Gateway:
    tools = [
        make_tool("list_issues", lambda _: {"issues": ROWS, "total": 2}, repo=TEXT),
        make_tool("get_issue", lambda given: ROWS[given["id"] - 1], id=NUMBER),
        make_tool("search_issues", broken, query=TEXT),
    ]
    settings = Settings.load(runs_dir=tmp_path / "runs", catalogue=tmp_path / "catalogue")
    return Gateway(Toolset(map(stable, tools)), settings)


async def stubs(served: Gateway) -> str:
    served.catalogue.settle()
    names = ["list_issues", "get_issue", "search_issues"]
    return str(await served.docs(served.client(ClientId("local")), names, 3000))


async def ran(served: Gateway, source: str, revises: str = "") -> tuple[str, str]:
    client = served.client(ClientId("local"))
    report = await served.run_program(client, source, revises=revises, asker=lambda _: Refusal("nobody"))
    return report.status, report.run


def test_a_program_that_fails_shows_the_next_one_what_the_tools_answered(tmp_path: Path) -> None:
    async def told() -> None:
        served = gateway(tmp_path)
        try:
            assert "Returned before" not in await stubs(served)
            status, run = await ran(served, "found = list_issues(repo='x')\nanswer = found['items'][0]['name']\n")
            assert status != "answered"
            seen = await stubs(served)
            assert "before (once)" in seen
            assert "labels: NotRequired[list[str]]" in seen or "'labels'?: [str]" in seen
            revised = "found = list_issues(repo='x')\nanswer = [get_issue(id=each['id']) for each in found['issues']]\n"
            status, run = await ran(served, revised, run)
            assert status == "answered"
            seen = await stubs(served)  # the list came from the journal: it was answered once
            assert "before (once)" in seen
            assert "before (2 times)" in seen
            await ran(served, revised + "answer = len(answer)\n", run)  # a third program, and all of it is replayed
            assert await stubs(served) == seen
            status, _ = await ran(served, "answer = search_issues(query='x')\n")
            assert status != "answered"
            assert await stubs(served) == seen
        finally:
            await served.aclose()

    asyncio.run(told())
    kept = b"".join(each.read_bytes() for each in (tmp_path / "catalogue").rglob("learnt-*"))
    assert b"labels" in kept
    assert not any(json.dumps(row["title"]).encode() in kept or b"Peter" in kept for row in ROWS)
