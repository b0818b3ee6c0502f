"""A tool that a client may not know of is, for its programs, not there: no message tells what it takes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from atc import Toolset
from atc.calls.permissions import Permissions
from atc.result import Effect
from atc.serve.mcp.gateway import Gateway
from atc.settings import Settings
from tests.support.inline import Inline
from tests.support.mcp_face import MODERN, User, connected, run
from tests.support.tools import make_tool

WORD = {"type": "string", "enum": ["swordfish"]}


def test_programs_learn_nothing_of_a_hidden_tool(tmp_path: Path) -> None:
    def called(arguments: dict[str, Any]) -> str:
        return "swordfish" if arguments else "open"

    shown = make_tool("get_open", called)
    read = make_tool("get_hidden", called, required=("word",), word=WORD)
    write = make_tool("send_hidden", called, Effect.WRITE, required=("word",), word=WORD)
    rules = tmp_path / "rules.toml"
    rules.write_text('[clients.local]\ntools = ["get_open"]\n')
    sources = [
        "answer = get_hidden()",
        "answer = get_hidden(word='x')",
        "send_hidden(word='x')\nanswer = 1",
        "answer = [str(each) for each in (get_hidden, send_hidden)]",
    ]

    async def main() -> None:
        permissions = Permissions.load(rules)
        gateway = Gateway(Toolset([shown, read, write]), Settings.load(), permissions=permissions)
        gateway.sandbox = Inline()
        try:
            async with connected(gateway, MODERN, User()) as client:
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
        finally:
            await gateway.aclose()

    asyncio.run(main())


def test_a_client_that_may_know_of_no_tool_is_told_so(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[clients.local]\ntools = ["nothing_*"]\n')

    async def main() -> None:
        gateway = Gateway(Toolset([make_tool("get_open", lambda _: 1)]), permissions=Permissions.load(rules))
        gateway.sandbox = Inline()
        try:
            async with connected(gateway, MODERN) as client:
                assert (await client.list_tools()).tools
                report = await run(client, "answer = get_open()")
                assert "permissions leave none" in report["error"]["message"]
        finally:
            await gateway.aclose()

    asyncio.run(main())
