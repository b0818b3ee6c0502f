"""Two principals of one server over HTTP: nothing of the one answers, cancels, reads or goes on for the other."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.inline import Inline
from tests.support.mcp_face import Book, gateway_of
from tests.support.mcp_http import ANN, BOB, LEGACY, MODERN, Caller, calling, listening, message
from tests.support.mcp_http import gateway as made_of

pytestmark = pytest.mark.anyio
WRITE = "answer = append_line(text='one')"
ACCEPT = {"approval": {"action": "accept", "content": {}}}


async def called(caller: Caller, token: str, name: str = "run_program", source: str = WRITE, **more: Any) -> Any:
    """The result of a call by a client that can be asked."""
    arguments = more.pop("arguments", {"source": source})
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    }
    body = message("tools/call", {"name": name, "arguments": arguments, "_meta": meta, **more})
    versions = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": name}
    return (await caller.send(token=token, body=body, **versions)).json()["result"]


async def test_another_principal_neither_answers_a_question_nor_uses_it_up() -> None:
    book = Book()
    async with gateway_of(book.tool) as gateway, calling(behind=gateway) as caller:
        state = (await called(caller, ANN))["requestState"]
        stolen = await called(caller, BOB, requestState=state, inputResponses=ACCEPT)
        assert stolen["structuredContent"]["error"]["kind"] == "AnswerRefused"
        assert book.lines == []
        answered = await called(caller, ANN, requestState=state, inputResponses=ACCEPT)
        assert answered["structuredContent"]["status"] == "answered"
    assert book.lines == ["one"]


async def test_another_principal_reads_no_kept_value_and_names_no_run() -> None:
    async with gateway_of(Book().tool) as gateway, calling(behind=gateway) as caller:
        made = await called(caller, ANN, source="answer = 'x' * 20_000")
        uri = next(each["uri"] for each in made["content"] if each["type"] == "resource_link")
        run = made["structuredContent"]["run"]
        given = {"source": "answer = len(rows)", "inputs": {"rows": {"$resource": uri}}}
        own = await called(caller, ANN, arguments=given)
        assert own["structuredContent"]["value"] == 20_000
        foreign = await called(caller, BOB, arguments=given)
        assert foreign["isError"]
        for token, there in ((ANN, True), (BOB, False)):
            read = await caller.modern("resources/read", {"uri": uri}, token, mcp_name=uri)
            assert ("result" in read.json()) is there
        for more in ({"dry_run": True}, {}):
            refused = await called(caller, BOB, arguments={"source": "answer = 1", "run": run, **more})
            assert "no run" in refused["structuredContent"]["error"]["message"]


@pytest.mark.slow
def test_numbers_of_messages_are_those_of_one_session() -> None:
    """In the older protocol a question is a request of the server, with a small number: another session that answers
    or cancels that number does nothing."""
    book, asked, done = Book(), asyncio.Event(), asyncio.Event()
    gateway = made_of()
    gateway.change_tools(type(gateway.tools)([book.tool]))
    gateway.sandbox = Inline()

    async def user(context: Any, params: Any) -> types.ElicitResult:
        asked.set()
        await done.wait()
        return types.ElicitResult(action="decline")

    async def go() -> None:
        headers = {"Authorization": f"Bearer {ANN}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(
                streamable_http_client(server.url, http_client=http), mode="legacy", elicitation_callback=user
            ) as ann,
            httpx2.AsyncClient(timeout=60) as other,
        ):
            program = asyncio.create_task(ann.call_tool("run_program", {"source": WRITE}))
            await asyncio.wait_for(asked.wait(), 60)
            common = {"authorization": f"Bearer {BOB}", "accept": "application/json, text/event-stream"}

            async def send(body: Any, session: str = "") -> httpx2.Response:
                more = {"mcp-session-id": session, "mcp-protocol-version": LEGACY} if session else {}
                content = json.dumps(body)
                kind = {"content-type": "application/json"}
                return await other.post(server.url, content=content, headers=common | more | kind)

            hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}}
            session = (await send(message("initialize", hello))).headers["mcp-session-id"]
            for number in range(6):
                for known in (number, str(number)):
                    result = {"jsonrpc": "2.0", "id": known, "result": {"action": "accept", "content": {}}}
                    await send(result, session)
                    params = {"requestId": known, "reason": "x"}
                    await send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}, session)
            assert not program.done()
            done.set()
            report = (await program).structured_content
            assert report is not None
            assert report["status"] == "denied"

    with listening(behind=gateway) as server:
        asyncio.run(go())
    assert book.lines == []
