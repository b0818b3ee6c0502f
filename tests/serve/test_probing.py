"""``probe`` and ``--probe-reads``: tools are called on request only, and a shape is all that stays."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from atc import Catalogue, Settings, Tool, Toolset
from atc._host.redaction import Redactor
from atc.calls.approval import Approval, ApprovalRequest, Refusal
from atc.errors import UsageError
from atc.probing.reads import probe_reads
from atc.result import Effect
from atc.schemas.protocol import Source
from atc.serve.mcp.probing import BUDGET, probe_definition, probed
from tests.support.openapi import Answer, running_server
from tests.support.recordings import call, page, write
from tests.support.tools import make_tool

NAMES = {"type": "string", "enum": ["a", "b"]}
NEVER = Approval("never")


class Service:
    """Tools that count their calls."""

    def __init__(self, tmp_path: Path, *tools: Tool, **settings: Any) -> None:
        self.calls: list[str] = []
        self.settings = Settings.load(catalogue=tmp_path / "catalogue", **settings)
        self.catalogue = Catalogue(Toolset(map(self.counted, tools)), settings=self.settings)

    def counted(self, tool: Tool) -> Tool:
        source = Source(kind="mcp", location="https://one.example/mcp", operation=tool.name)
        inner = tool.transport
        assert inner is not None
        calls = self.calls

        class Counted:
            def opened(self) -> Any:
                return inner.opened()

            async def __call__(self, arguments: dict[str, Any]) -> Any:
                calls.append(tool.name)
                return await inner(arguments)

        return Tool(tool.protocol.model_copy(update={"source": source}), Counted())

    def probe(self, name: str, approval: Approval = NEVER) -> Any:
        return asyncio.run(probed(self.catalogue, self.settings, name, approval))


def test_a_read_is_called_and_its_shape_stays(tmp_path: Path) -> None:
    service = Service(tmp_path, make_tool("look", lambda given: {"name": given.get("of", "c"), "size": 3}, of=NAMES))
    made = service.probe("look")
    assert made.state == "observed"
    assert 0 < made.calls == len(service.calls) <= BUDGET.calls_a_tool
    assert made.answers == made.calls
    assert "name: str" in made.stub or "'name': str" in made.stub
    assert "not documented" in made.stub
    assert service.probe("look").answers > made.answers  # another process, or later: it is kept
    store = b"".join(each.read_bytes() for each in (tmp_path / "catalogue").glob("learnt-*"))
    assert b"size" in store


def test_what_is_no_read_is_called_only_as_far_as_each_call_is_approved(tmp_path: Path) -> None:
    asked: list[ApprovalRequest] = []

    def ask(about: ApprovalRequest) -> bool | Refusal:
        asked.append(about)
        return True if len(asked) == 1 else Refusal("enough")

    tools = [
        make_tool("change", lambda _: {"id": 1}, Effect.WRITE, of=NAMES),
        make_tool("unsaid", lambda _: {"id": 1}, Effect.UNKNOWN, of=NAMES),
        make_tool("delete_all", lambda _: {"id": 1}, Effect.READ, of=NAMES),  # it says that it only reads
    ]
    service = Service(tmp_path, *tools)
    for name in ("change", "unsaid", "delete_all"):
        made = service.probe(name)
        assert (made.state, made.calls) == ("nothing", 0)
        assert "not approved" in made.reason
    assert service.calls == []
    assert service.probe("change", Approval(ask)).state == "observed"
    assert service.calls == ["change"]
    assert {each.effect for each in asked} == {Effect.WRITE}


def test_a_write_with_the_login_of_a_recording_is_asked_about_whatever_was_allowed(tmp_path: Path) -> None:
    with running_server() as server:
        server.answer = Answer(b'{"refund_id": "R1"}', 201)
        login = {"cookie": "sid=s3cr3tSession0001"}
        refused = call(f"{server.url}/refunds", {}, method="POST", status=403, sent={"reason": "x"}, headers=login)
        path = write(tmp_path / "shop.har", page(f"{server.url}/"), refused)
        settings = Settings.load(catalogue=tmp_path / "catalogue")
        for allowed in (False, True):
            tools = Toolset.from_har(path, session="memory", allow_session_writes=allowed)
            asyncio.run(probed(Catalogue(tools, settings=settings), settings, "post_refunds", Approval("always")))
            assert bool(server.seen) is allowed  # only where the user said so of writes with it


def test_reads_are_asked_about_where_the_rule_says_so(tmp_path: Path) -> None:
    service = Service(tmp_path, make_tool("look", lambda _: {"id": 1}, of=NAMES))
    made = service.probe("look", Approval(lambda about: Refusal(f"{about.effect.value} is denied"), reads=True))
    assert (made.state, made.calls) == ("nothing", 0)
    assert "read is denied" in made.reason


def test_what_declares_its_response_or_is_not_there_is_not_called(tmp_path: Path) -> None:
    returns = {"type": "object", "properties": {"id": {"type": "integer"}}}
    service = Service(tmp_path, make_tool("look", lambda _: {"id": 1}, returns=returns))
    made = service.probe("look")
    assert (made.state, made.calls, service.calls) == ("declared", 0, [])
    assert "id" in made.stub
    with pytest.raises(UsageError, match="'gone'"):
        service.probe("gone")
    off = Service(tmp_path, make_tool("look", lambda _: {"id": 1}), learn=False)
    with pytest.raises(UsageError, match="learn"):
        off.probe("look")


def test_at_the_start_only_what_surely_reads_with_arguments_that_are_known_is_called_once(tmp_path: Path) -> None:
    tools = [
        make_tool("list_things", lambda _: [{"id": 1}], of=NAMES),
        make_tool("get_thing", lambda _: {"id": 1}, required=("of",), of=NAMES),
        make_tool("get_word", lambda _: {"id": 1}, required=("word",), word={"type": "string"}),
        make_tool("delete_all", lambda _: {"id": 1}),
        make_tool("unsaid", lambda _: {"id": 1}, Effect.UNKNOWN),
        make_tool("list_empty", lambda _: []),
        make_tool("list_known", lambda _: [{"id": 1}], returns={"type": "array", "items": {"type": "object"}}),
    ]
    service = Service(tmp_path, *tools)

    def began() -> list[str]:
        made = asyncio.run(probe_reads(service.catalogue, service.settings, NEVER, Redactor()))
        return sorted(each.tool for each in made if each.learnt)

    assert began() == ["get_thing", "list_things"]
    assert sorted(service.calls) == ["get_thing", "list_empty", "list_things"]
    assert began() == []
    assert len(service.calls) == 3


def test_its_definition_says_that_it_may_have_effects() -> None:
    made = probe_definition()
    assert made.annotations is not None
    assert made.annotations.read_only_hint is False
    assert str(BUDGET.calls_a_tool) in (made.description or "")
