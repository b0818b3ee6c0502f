"""Single reads that no program asked for: which tools are called, with which values, and what they may cost."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from atc import Catalogue, Settings, Tool, ToolError, Toolset
from atc._host.redaction import Redactor
from atc._records.records import ProbedRead
from atc.calls.approval import Approval, ApprovalRequest, Refusal
from atc.calls.permissions import Permissions
from atc.calls.permissions.agent_permissions import approval_of
from atc.catalogue.catalogue import store_in
from atc.probing.reads import Limits, by_task, probe_reads
from atc.result import Effect
from atc.schemas.protocol import Source
from atc.tools.tool import Transport
from tests.support.tools import make_tool

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
NEVER = Approval("never")


class World:
    """Tools of services that note their calls. A tool's service is the word before ``.``; ``one`` without it."""

    def __init__(self, tmp_path: Path, *tools: Tool, learn: bool = True) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.settings = Settings.load(catalogue=tmp_path / "catalogue", audit=tmp_path / "audit.jsonl", learn=learn)
        self.catalogue = Catalogue(Toolset(map(self._noting, tools)), settings=self.settings)

    def _noting(self, tool: Tool) -> Tool:
        location = "https://two.example" if tool.name.endswith("_there") else "https://one.example"
        source = Source(kind="mcp", location=location, operation=tool.name)
        transport, calls = tool.transport, self.calls
        assert transport is not None
        inner: Transport = transport

        class Noting:
            def opened(self) -> Any:
                return inner.opened()

            async def __call__(self, arguments: dict[str, Any]) -> Any:
                calls.append((tool.name, arguments))
                return await inner(arguments)

        return Tool(tool.protocol.model_copy(update={"source": source}), Noting())

    def probe(self, approval: Approval = NEVER, **options: Any) -> list[ProbedRead]:
        """Probe, with time enough for any machine."""
        options = {"limits": Limits(calls=10, seconds=60, wave=4)} | options
        return asyncio.run(probe_reads(self.catalogue, self.settings, approval, Redactor(), **options))

    @property
    def called(self) -> list[str]:
        return sorted(name for name, _ in self.calls)

    def sent(self, name: str) -> dict[str, Any]:
        return next(arguments for tool, arguments in self.calls if tool == name)


def orders(_: Any) -> Any:
    return {"orders": [{"order_id": 8812, "customer_id": 7}, {"order_id": 8813, "customer_id": 9}]}


def test_what_one_answers_is_an_argument_of_the_next(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        make_tool("get_order", lambda _: {"order_id": 1, "total": 3.5}, required=("order_id",), order_id=NUMBER),
        make_tool("list_orders", orders),
        make_tool("get_weather", lambda _: {"degrees": 3}, required=("place",), place=TEXT),
    )
    made = world.probe()
    assert [(each.tool, each.status, each.learnt) for each in made] == [
        ("list_orders", "ok", True),
        ("get_order", "ok", True),
    ]
    assert world.sent("get_order") == {"order_id": 8812} == made[1].arguments
    assert not world.catalogue.graph.protocols_with_shapes["get_weather"].returns
    assert world.probe() == []  # what failed or is known is not asked again


def test_no_value_goes_to_another_service_or_is_made_up(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        make_tool("list_orders", orders),
        make_tool("get_order_there", lambda _: {"id": 1}, required=("order_id",), order_id=NUMBER),
        make_tool("get_country", lambda _: {"id": 1}, required=("country_code",), country_code=TEXT),
        make_tool("get_day", lambda _: {"id": 1}, required=("date",), date={"type": "string", "format": "date"}),
        make_tool("get_undescribed", lambda _: {"id": 1}, required=("what",), other=TEXT),
    )
    world.probe(task="Order 8812 of FR on 2026-01-02, get_day date 2026-01-02")
    assert world.called == ["list_orders"]


def test_the_users_word_says_what_feeds_what_where_no_names_do(tmp_path: Path) -> None:
    tools = [
        make_tool("list_parcels", lambda _: {"rows": [{"label": "p-7", "other": "q"}]}),
        make_tool("trace", lambda _: {"size": 1}, required=("handle",), handle=TEXT),
    ]
    world = World(tmp_path / "before", *tools)
    world.probe()
    assert world.called == ["list_parcels"]
    told = World(tmp_path / "told", *tools)
    edge = ("list_parcels", ("rows", "[]", "label"), "trace", "handle")
    store_in(told.settings.catalogue).correct_feed(told.catalogue.graph.protocols, edge, True)
    told.probe()
    assert told.sent("trace") == {"handle": "p-7"}


def test_a_value_that_the_document_states_serves_and_the_task_chooses_among_them(tmp_path: Path) -> None:
    state = {"type": "string", "enum": ["open", "shipped", "lost"]}
    world = World(
        tmp_path,
        make_tool("find", lambda _: {"id": 1}, required=("state",), state=state),
        make_tool("find_more", lambda _: {"id": 1}, required=("n",), n={"type": "integer", "default": 4}),
    )
    world.probe(task="Which orders are Lost?")
    assert (world.sent("find"), world.sent("find_more")) == ({"state": "lost"}, {"n": 4})


def test_tools_that_the_task_seems_to_need_come_first_and_what_may_feed_them_next(tmp_path: Path) -> None:
    tools = [
        make_tool("list_currencies", lambda _: {"id": 1}),
        make_tool("get_moon", lambda _: {"id": 1}),
        make_tool("list_countries", lambda _: {"id": 1}),
        make_tool("public_holidays", lambda _: {"id": 1}, required=("country_code",), country_code=TEXT),
    ]
    protocols = {tool.name: tool.protocol for tool in tools}
    made = by_task("Which public holidays has Japan?", protocols)
    assert made == ["public_holidays", "list_countries", "list_currencies", "get_moon"]
    assert by_task("", protocols) == [*protocols]


def test_only_what_surely_reads_and_says_nothing_is_called(tmp_path: Path) -> None:
    known = {"type": "object", "properties": {"id": NUMBER}}
    world = World(
        tmp_path,
        make_tool("list_a", lambda _: {"id": 1}),
        make_tool("delete_b", lambda _: {"id": 1}),
        make_tool("c", lambda _: {"id": 1}, Effect.UNKNOWN),
        make_tool("d", lambda _: {"id": 1}, Effect.WRITE),
        make_tool("list_e", lambda _: {"id": 1}, returns=known),
        make_tool("list_f", lambda _: {"id": 1}),
    )
    world.probe(among=["list_a", "delete_b", "c", "d", "list_e", "gone"])
    assert world.called == ["list_a"]


def test_tools_that_nothing_stays_of_are_not_called(tmp_path: Path) -> None:
    world = World(tmp_path, make_tool("list_a", lambda _: {"id": 1}))
    unstable = [make_tool("list_b", lambda _: {"id": 1})]  # no source: another process does not know it again
    catalogue = Catalogue(Toolset(unstable), settings=world.settings)
    assert asyncio.run(probe_reads(catalogue, world.settings, NEVER, Redactor())) == []


@pytest.mark.parametrize(
    ("rules", "called"),
    [
        ('[[rules]]\ndeny = "list_a"\n', ["list_b"]),
        ('[[rules]]\nask = "list_a"\n', ["list_b"]),
        ('[effects]\nlist_a = "write"\n\n[[rules]]\nallow = "list_a"\n', ["list_b"]),
    ],
    ids=["denied", "asked", "a write by rule"],
)
def test_permissions_hold_and_nobody_is_asked(tmp_path: Path, rules: str, called: list[str]) -> None:
    (tmp_path / "permissions.toml").write_text(rules)
    asked: list[Any] = []
    world = World(tmp_path, make_tool("list_a", lambda _: {"id": 1}), make_tool("list_b", lambda _: {"id": 1}))
    permissions = Permissions.load(tmp_path / "permissions.toml")

    def ask(about: ApprovalRequest) -> bool:
        asked.append(about)
        return True

    world.probe(approval_of(permissions, ask, world.settings))
    assert (world.called, asked) == (called, [])


def test_a_function_that_is_asked_about_reads_is_not_asked_about_these(tmp_path: Path) -> None:
    world = World(tmp_path, make_tool("list_a", lambda _: {"id": 1}))
    assert world.probe(Approval(lambda _: Refusal("no"), reads=True)) == []
    assert world.calls == []


def test_calls_are_bounded(tmp_path: Path) -> None:
    world = World(tmp_path, *(make_tool(f"list_{n}", lambda _: {"id": 1}) for n in range(12)))
    assert len(world.probe(limits=Limits(calls=5, seconds=60, wave=4))) == len(world.calls) == 5


def test_a_read_that_outlasts_the_time_is_given_up_whether_it_ends_or_not(tmp_path: Path) -> None:
    async def stubborn(_: Any) -> Any:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            await asyncio.sleep(600)

    async def timed(world: World) -> tuple[list[ProbedRead], float]:
        began = time.monotonic()
        limits = Limits(calls=5, seconds=0.3, wave=4)
        made = await probe_reads(world.catalogue, world.settings, NEVER, Redactor(), limits=limits)
        return made, time.monotonic() - began

    made, seconds = asyncio.run(timed(World(tmp_path, make_tool("list_slow", stubborn))))
    assert [each.status for each in made] in (["timeout"], [])  # of a machine that did not come to it
    assert seconds < 300


def test_a_service_that_wants_a_credential_is_asked_no_more_and_no_read_is_repeated(tmp_path: Path) -> None:
    def closed(_: Any) -> Any:
        raise ToolError("no", status=401)

    def down(_: Any) -> Any:
        raise ToolError("try again", status=503, transient=True)

    world = World(tmp_path, *(make_tool(f"list_{n}", closed) for n in range(4)), make_tool("list_there", down))
    made = world.probe(limits=Limits(calls=10, seconds=60, wave=1))
    assert {each.tool: each.status for each in made} == {"list_0": 401, "list_there": 503}
    assert world.called == ["list_0", "list_there"]


def test_a_credential_among_the_arguments_is_masked(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        make_tool("list_things", lambda _: {"things": [{"thing_id": "canary-5f3a9"}]}),
        make_tool("get_thing", lambda _: {"size": 1}, required=("thing_id",), thing_id=TEXT),
    )
    heard: list[ProbedRead] = []
    asyncio.run(probe_reads(world.catalogue, world.settings, NEVER, Redactor(["canary-5f3a9"]), heard=heard.append))
    assert [each.tool for each in heard] == ["list_things", "get_thing"]
    assert "canary" not in str(heard)
    store = b"".join(each.read_bytes() for each in (tmp_path / "catalogue").iterdir())
    assert b"thing_id" in store
    assert b"canary" not in store


def test_no_argument_says_that_something_be_changed(tmp_path: Path) -> None:
    """Not where the document states it, and the task names it."""
    action = {"type": "string", "enum": ["delete", "purge_all", "list"]}
    world = World(tmp_path, make_tool("orders", lambda _: {"n": 1}, required=("action",), action=action))
    world.probe(task="delete my orders")
    assert world.calls == [("orders", {"action": "list"})]
