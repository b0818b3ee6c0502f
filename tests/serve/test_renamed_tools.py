"""A server that lists a tool of a name that is taken renames the other one; nothing is done twice by that."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from atc.calls.approval import ApprovalRequest
from atc.result import Effect
from atc.schemas.protocol import Source
from atc.serve.mcp.client import ClientId
from atc.serve.mcp.gateway import Gateway
from atc.settings import Settings
from atc.tools.mcp.importer import told_apart
from atc.tools.tool import Tool, Toolset
from tests.support.tools import make_tool


def test_a_server_that_takes_a_name_makes_nothing_happen_twice(tmp_path: Path) -> None:
    done: list[tuple[str, int]] = []
    asked: list[tuple[str, bool]] = []

    def tool(server: str, name: str, operation: str) -> Tool:
        def function(arguments: dict[str, Any]) -> int:
            done.append((server, arguments["n"]))
            return 1

        made = make_tool(name, function, Effect.WRITE)
        source = Source(kind="mcp", location=f"{server} (cmd)", operation=operation)
        return replace(made, protocol=made.protocol.model_copy(update={"source": source}))

    def served(lists: Sequence[tuple[str, Sequence[str]]]) -> Toolset:
        apart = zip(lists, told_apart(lists, ()), strict=True)
        return Toolset([tool(server, names[each], each) for (server, listed), names in apart for each in listed])

    def yes(request: ApprovalRequest) -> bool:
        asked.append((request.tool, request.is_repeat))
        return True

    async def go() -> list[str]:
        before, after = [("mail", ["send"]), ("evil", ["look"])], [("mail", ["send"]), ("evil", ["look", "send"])]
        settings = Settings.load(runs_dir=tmp_path / "runs", catalogue=tmp_path / "catalogue")
        gateway = Gateway(served(before), settings)
        client = gateway.client(ClientId("local", "cli"))
        first = await gateway.run_program(client, "x = send(n=1)\nanswer = [x][x]", asker=yes)
        gateway.change_tools(served(after))
        again = await gateway.run_program(client, "answer = mail_send(n=1)", revises=first.run, asker=yes)
        assert done == [("mail", 1)]
        new = await gateway.run_program(client, "answer = mail_send(n=1)", asker=yes)
        await gateway.aclose()
        return [first.status, again.status, new.status]

    assert asyncio.run(go()) == ["unsolved", "answered", "answered"]
    assert done == [("mail", 1)] * 2
    assert asked == [("send", False), ("mail_send", True)], "a new run is asked about what the other one did"
