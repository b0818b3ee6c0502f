"""A tool that a client may not know of is, for its programs, not there: no message tells what it takes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from atc.result import Effect
from tests.support.mcp_face import MODERN, User, connected, gateway_of, run
from tests.support.permissions import file_of
from tests.support.tools import make_tool

WORD = {"type": "string", "enum": ["swordfish"]}


def test_programs_learn_nothing_of_a_hidden_tool(tmp_path: Path) -> None:
    def called(arguments: dict[str, Any]) -> str:
        return "swordfish" if arguments else "open"

    shown = make_tool("get_open", called)
    read = make_tool("get_hidden", called, required=("word",), word=WORD)
    write = make_tool("send_hidden", called, Effect.WRITE, required=("word",), word=WORD)
    rules = file_of(tmp_path, '[clients.local]\ntools = ["get_open"]\n')
    sources = [
        "answer = get_hidden()",
        "answer = get_hidden(word='x')",
        "send_hidden(word='x')\nanswer = 1",
        "answer = [str(each) for each in (get_hidden, send_hidden)]",
    ]

    async def main() -> None:
        made = gateway_of(shown, read, write, permissions=rules)
        async with made as gateway, connected(gateway, MODERN, User()) as client:
            for dry in (False, True):
                for source in sources:
                    report = await run(client, source, dry_run=dry)
                    assert report["status"] == "rejected"
                    assert {each["kind"] for each in report["findings"]} == {"undefined_name"}
                    assert "swordfish" not in json.dumps(report)
                    assert "`word`" not in json.dumps(report)
            # what is not there takes no name
            assert (await run(client, "answer = get_hidden", inputs={"get_hidden": 2}))["value"] == 2
            assert (await run(client, "answer = get_open()"))["value"] == "open"

    asyncio.run(main())


def test_a_client_that_may_know_of_no_tool_is_told_so(tmp_path: Path) -> None:
    rules = file_of(tmp_path, '[clients.local]\ntools = ["nothing_*"]\n')

    async def main() -> None:
        made = gateway_of(make_tool("get_open", lambda _: 1), permissions=rules)
        async with made as gateway, connected(gateway, MODERN) as client:
            assert (await client.list_tools()).tools
            report = await run(client, "answer = get_open()")
            assert "permissions leave none" in report["error"]["message"]

    asyncio.run(main())
