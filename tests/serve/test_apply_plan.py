"""A client's user approves the plan of a dry run in one form: exactly that is made, and nobody else says yes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from atc import Agent, FakeModel
from atc.result import Effect
from tests.support.mcp_face import ACCEPT, DECLINE, LEGACY, Book, User, both_eras, connected, gateway_of, run
from tests.support.tools import make_tool

TWO = "for text in find():\n    append_line(text=text)\nanswer = 'both'"
TICKED = types.ElicitResult(action="accept", content={"approve": True})


class Shop(Book):
    """A book, and what there is to write into it."""

    texts: tuple[str, ...] = ("one", "two")

    @property
    def tools(self) -> Any:
        return [self.tool, make_tool("find", lambda arguments: [*self.texts], Effect.READ)]


async def planned(client: Client, source: str = TWO) -> dict[str, Any]:
    report = await run(client, source, dry_run=True)
    assert report["status"] == "planned", report
    return report


async def applied(client: Client, run_id: str, **arguments: Any) -> types.CallToolResult:
    return await client.call_tool("run_program", {"run": run_id, "apply": True, **arguments})


def said(result: types.CallToolResult) -> str:
    return " ".join(getattr(block, "text", "") for block in result.content)


@both_eras
def test_the_whole_plan_is_one_form_and_a_yes_makes_exactly_it(mode: str) -> None:
    shop, user = Shop(), User([TICKED])

    async def main() -> None:
        async with gateway_of(*shop.tools) as gateway, connected(gateway, mode, user) as client:
            plan = await planned(client)
            for words in (f"atc runs apply {plan['run']}", "`apply: true`"):
                assert words in plan["advice"]
            assert (shop.lines, user.seen) == ([], [])
            done = (await applied(client, plan["run"])).structured_content
            assert done is not None
            assert (done["status"], done["value"], done["run"]) == ("answered", "both", plan["run"]), done
            assert "was applied before" in said(await applied(client, plan["run"]))

    asyncio.run(main())
    assert shop.lines == ["one", "two"]
    [form] = user.seen
    assert form.message.index("'one'") < form.message.index("'two'")
    assert "required" in form.requested_schema


@both_eras
@pytest.mark.parametrize("no", [DECLINE, ACCEPT, types.ElicitResult(action="cancel")])
def test_everything_but_a_ticked_form_is_a_no_to_all_of_it(mode: str, no: types.ElicitResult) -> None:
    shop = Shop()

    async def main() -> None:
        async with gateway_of(*shop.tools) as gateway, connected(gateway, mode, User([no])) as client:
            plan = await planned(client)
            result = await applied(client, plan["run"])
            assert (result.is_error, result.structured_content["status"]) == (True, "denied")
            assert "nothing of it was made" in said(result)

    asyncio.run(main())
    assert shop.lines == []


@both_eras
def test_a_client_that_shows_no_form_is_told_how_the_user_applies_it(mode: str) -> None:
    shop = Shop()

    async def main() -> None:
        async with gateway_of(*shop.tools) as gateway, connected(gateway, mode) as client:
            plan = await planned(client)
            assert f"`atc runs apply {plan['run']} --tools …`" in said(await applied(client, plan["run"]))
            assert shop.lines == []
        done = await Agent(shop.tools, model=FakeModel([]), approve="never", sentence=False).aapply(plan["run"])
        assert (done.status, shop.lines) == ("answered", ["one", "two"])  # as a terminal does
        shop.lines.clear()
        async with gateway_of(*shop.tools, approve="never") as gateway, connected(gateway, mode, User()) as client:
            assert "approves nothing" in said(await applied(client, (await planned(client))["run"]))

    asyncio.run(main())
    assert shop.lines == []


def test_nothing_but_the_plan_is_made_and_its_own_owner_alone_is_asked() -> None:
    shop, user = Shop(), User([TICKED])

    async def main() -> None:
        async with gateway_of(*shop.tools) as gateway, connected(gateway, LEGACY, user) as client:
            plan = await planned(client)
            for wrong in ({"source": "answer = 1"}, {"inputs": {"a": 1}}, {"dry_run": True}):
                assert "`apply` takes `run` alone" in said(await applied(client, plan["run"], **wrong))
            real = await run(client, "answer = find()")
            assert "was no dry run" in said(await applied(client, real["run"]))
            assert "you have no run" in said(await applied(client, "20260101-000000-ffffff"))
        others = Agent(shop.tools, model=FakeModel([f"```python\n{TWO}\n```"]), sentence=False, learn=False)
        strange = await others.arun("write both", dry_run=True)  # it is nobody's here
        assert strange.dry_run is not None
        assert strange.dry_run.kept
        async with gateway_of(*shop.tools) as gateway, connected(gateway, LEGACY, user) as client:
            assert gateway.store.run(strange.run_id).exists
            assert "you have no run" in said(await applied(client, strange.run_id))

    asyncio.run(main())
    assert (shop.lines, user.seen) == ([], [])


def test_a_write_that_differs_is_not_made_and_the_report_says_how() -> None:
    shop, user = Shop(), User([TICKED])

    async def main() -> None:
        async with gateway_of(*shop.tools) as gateway, connected(gateway, LEGACY, user) as client:
            plan = await planned(client)
            shop.texts = ("one", "three")
            result = await applied(client, plan["run"])
            report = result.structured_content
            assert report is not None
            assert (result.is_error, report["status"]) == (True, "denied")
            assert "text is 'three' now, and 'two' was planned" in report["fault"]["message"]
            assert "was not the planned one" in report["advice"]
            assert report["done"] == ["append_line(text='one')"]

    asyncio.run(main())
    assert shop.lines == ["one"]


def test_where_approvers_are_named_no_client_applies_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography")
    from atc.calls.permissions.approvers import ApproverKey, encoded

    key = ApproverKey.new()
    monkeypatch.setenv("ATC_APPROVER_KEY", key)  # of the server, and no client's
    rules = tmp_path / "permissions.toml"
    rules.write_text(f'[approvers]\nann = {{ public_key = "{encoded(ApproverKey(key).public)}" }}\n')
    rules.chmod(0o600)
    shop, user = Shop(), User([TICKED])

    async def main() -> None:
        async with (
            gateway_of(*shop.tools, permissions=rules) as gateway,
            connected(gateway, LEGACY, user) as client,
        ):
            assert "an approver decides" in said(await applied(client, (await planned(client))["run"]))

    asyncio.run(main())
    assert (shop.lines, user.seen) == ([], [])
