"""A plan is approved once and applied exactly: every difference stops before the write."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, Result, Toolset, UsageError, tool
from atc._records.records import FaultCase
from atc.calls import applying, plans
from atc.calls.approval import ApprovalRequest
from atc.errors import JournalError, RunInUse, ToolError
from atc.result import Effect
from atc.wording import plans as plans_in_words
from tests.attacks.record import CHANNEL
from tests.support.tools import make_tool

TEXT = {"type": "string"}
LOOP = """
"""
LOOP = """
for order in find_orders(customer="ann@example.org")["orders"]:
    cancel(order=order["id"])
answer = "cancelled"
"""
FED = 'receipt = cancel(order="o1")\nmail(to="ann@example.org", receipt=receipt["receipt"])\nanswer = "told"'


class Shop:
    """Orders, what was sent, and agents that each stand for a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.orders = [f"o{n}" for n in range(1, 5)]
        self.sent: list[Any] = []
        self.fails_at = ""
        self.outcome: Any = "refused"
        self.receipt = "r-{}"
        self.wait_s = 0.0

    def tools(self) -> Toolset:
        async def cancel(arguments: dict[str, Any]) -> Any:
            await asyncio.sleep(self.wait_s)
            if arguments["order"] == self.fails_at:
                raise ToolError("not now", status=500, outcome=self.outcome)
            self.sent.append(arguments["order"])
            return {"receipt": self.receipt.format(arguments["order"])}

        def mail(arguments: dict[str, Any]) -> Any:
            self.sent.append(arguments)
            return "sent"

        def find(arguments: dict[str, Any]) -> Any:
            return {"orders": [{"id": each} for each in self.orders]}

        return Toolset(
            [
                make_tool("find_orders", find, customer=TEXT),
                make_tool("get_receipt", lambda given: {"text": f"receipt {given['id']}"}, required=("id",), id=TEXT),
                make_tool("cancel", cancel, Effect.WRITE, required=("order",), order=TEXT, why=TEXT),
                make_tool("mail", mail, Effect.WRITE, to=TEXT, receipt={}, text=TEXT),
            ]
        )

    def agent(self, *programs: str, **given: Any) -> Agent:
        replies = [f"```python\n{program}\n```" for program in programs]
        settings = {"sentence": False, "approve": "never", "runs_dir": self.folder, "learn": False}
        tools = given.pop("tools", None) or self.tools()
        return Agent(tools, model=FakeModel(replies), **{**settings, **given})

    def plan(self, program: str, **given: Any) -> Result[Any]:
        result = self.agent(program, **given).run("cancel the orders of ann@example.org", dry_run=True)
        assert (result.status, self.sent) == ("planned", [])
        assert result.dry_run is not None
        assert result.dry_run.kept
        return result

    def apply(self, planned: Result[Any], **given: Any) -> Result[Any]:
        return self.agent(**given).apply(planned.run_id)

    def journal(self, planned: Result[Any]) -> Path:
        return self.folder / planned.run_id / "journal.jsonl"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def difference(result: Result[Any]) -> tuple[str, list[tuple[str, str, str]]]:
    """Return how a run that was stopped differs from its plan."""
    assert (result.status, result.value, result.usage.model_calls) == ("denied", None, 0)
    assert result.fault is not None
    assert result.fault.case is FaultCase.PLAN_DIFFERS
    found = result.fault.difference
    assert found is not None
    return found.kind, [(each.name, each.planned, each.now) for each in found.arguments]


def not_done(result: Result[Any]) -> list[Any]:
    return [call.arguments.get("order", call.tool) for call in result.not_done]


# -- what is applied ---------------------------------------------------------------------------------------------------


def test_a_loop_is_applied_by_another_process_with_one_yes(shop: Shop) -> None:
    planned = shop.plan(LOOP)
    done = shop.agent().apply(planned.run_id, by="ann")
    assert (done.status, done.value, done.run_id, done.fault) == ("answered", "cancelled", planned.run_id, None)
    assert (shop.sent, done.not_done, done.partial) == (["o1", "o2", "o3", "o4"], (), False)
    assert all("approved by ann" in call.notes[-1] for call in done.calls if call.tool == "cancel")
    assert done.usage.model_calls == 0
    with pytest.raises(UsageError, match="was applied before"):
        shop.apply(planned)
    with pytest.raises(UsageError, match="was applied before"):
        shop.agent().resume(planned.run_id)
    assert len(shop.sent) == 4


def test_an_unknown_part_is_filled_by_what_the_planned_call_answers(shop: Shop) -> None:
    planned = shop.plan(FED)
    assert planned.dry_run is not None
    assert [sorted(call.unknown) for call in planned.dry_run.planned] == [[], ["receipt"]]
    done = shop.apply(planned)
    assert (done.status, done.value) == ("answered", "told")
    assert shop.sent == ["o1", {"to": "ann@example.org", "receipt": "r-o1"}]


def test_a_part_of_a_text_or_a_list_is_filled_too(shop: Shop) -> None:
    program = """
first = cancel(order="o1")
second = cancel(order="o2")
mail(to="ann@example.org", text=f"{first['receipt']} and {second['receipt']}: {1 + 1:>3}")
mail(receipt=[{"id": first["receipt"], "of": "o1"}, second["receipt"]])
answer = 1
"""
    planned = shop.plan(program)
    assert planned.dry_run is not None
    text = plans_in_words.planned_call(planned.dry_run.planned[2])
    assert text == "mail(to='ann@example.org', text='<receipt of call 1> and <receipt of call 2>:   2')"
    assert shop.apply(planned).status == "answered"
    assert shop.sent[2:] == [
        {"to": "ann@example.org", "text": "r-o1 and r-o2:   2"},
        {"receipt": [{"id": "r-o1", "of": "o1"}, "r-o2"]},
    ]


def test_a_text_around_an_unknown_part_is_held_to_the_plan(shop: Shop) -> None:
    program = """
n = len(find_orders()["orders"])
first = cancel(order="o1")
mail(text=f"{first['receipt']} of {n}")
answer = 1
"""
    planned = shop.plan(program)
    shop.orders = ["o1"]
    assert difference(shop.apply(planned)) == ("arguments", [("text", "'r-o1 of 4'", "'r-o1 of 1'")])
    assert shop.sent == ["o1"]


def test_no_plan_is_kept_of_what_is_formatted_in_a_way_of_its_own(shop: Shop) -> None:
    program = 'first = cancel(order="o1")\nmail(text=f"{first[\'receipt\']:>9}")\nanswer = 1'
    result = shop.agent(program).run("cancel o1", dry_run=True)
    assert result.dry_run is not None
    assert (len(result.planned), result.dry_run.kept) == (2, False)


def test_another_value_than_the_one_that_was_to_feed_it_is_not_sent(shop: Shop) -> None:
    planned = shop.plan(FED)

    def other_field(record: dict[str, Any]) -> None:
        record["calls"][1]["unknown"]["receipt"] = {"hole": [1, ["receipt", "id"]]}

    change_plan(shop.journal(planned), other_field)
    result = shop.apply(planned)
    assert difference(result) == ("arguments", [("receipt", "", "'r-o1'")])
    assert (shop.sent, [call.tool for call in result.done], not_done(result)) == (["o1"], ["cancel"], ["mail"])


def change_plan(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the record of a plan in a journal."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        if "plan" in record:
            change(record)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


LIAR = (
    CHANNEL
    + """
say({"op": "call", "id": 1, "tool": "cancel", "args": {"order": "o1"}})
real = b"planned" not in take(int.from_bytes(take(4), "big"))
"""
)
"""Writes on the channel itself, and knows whether its plan is applied."""


def test_what_a_lying_program_shows_of_a_call_is_what_it_makes(shop: Shop) -> None:
    program = (
        LIAR
        + """
claim = {} if real else {"unknown": {"to": [[1, []]]}, "forms": {"to": {"value": "ann@example.org"}}}
say({"op": "call", "id": 2, "tool": "mail", "args": {"to": "eve@example.org"}} | claim)
hear()
answer = 1
"""
    )
    planned = shop.plan(program, check=False)
    assert [call.tool for call in planned.planned] == ["cancel"]  # where an argument is known and is not, none is
    assert difference(shop.apply(planned, check=False)) == ("too_many", [])
    assert shop.sent == ["o1"]


def test_a_program_plans_nothing_while_its_plan_is_applied(shop: Shop) -> None:
    program = (
        LIAR
        + """
say({"op": "call", "id": 2, "tool": "mail", "args": {}, "unknown": {"to": [[1, []]]}})
hear()
answer = 1
"""
    )
    planned = shop.plan(program, check=False)
    done = shop.apply(planned, check=False, approve="park")
    assert (done.status, done.partial, not_done(done), shop.sent) == ("answered", True, ["mail"], ["o1"])
    assert [call.status for call in done.calls] == ["ok", "refused"]


@pytest.mark.parametrize("what", ["tool", "arguments", "forms", "more"])
def test_a_call_that_is_another_one_than_was_shown_is_not_made(shop: Shop, what: str) -> None:
    planned = shop.plan(FED)

    def show(record: dict[str, Any]) -> None:
        shown = record["calls"][1]["shown"]
        shown["tool"] = "look_up" if what == "tool" else shown["tool"]
        shown["arguments"] |= {"arguments": {"to": "bob@example.org"}, "more": {"text": "hello"}}.get(what, {})
        shown["forms"] |= {"receipt": {"value": "none"}} if what == "forms" else {}

    change_plan(shop.journal(planned), show)
    result = shop.apply(planned)
    assert (result.status, shop.sent, not_done(result)) == ("denied", ["o1"], [shown_tool(what)])


def shown_tool(what: str) -> str:
    return "look_up" if what == "tool" else "mail"


def test_bytes_are_shown_and_made_as_they_are(shop: Shop) -> None:
    tools = Toolset([make_tool("put", lambda given: shop.sent.append(given), Effect.WRITE, data={})])
    planned = shop.plan('put(data=b"\\xff")\nput(data={"$bytes": "/w=="})\nanswer = 1', tools=tools)
    assert shop.apply(planned, tools=tools).status == "answered"
    assert shop.sent == [{"data": b"\xff"}, {"data": {"$bytes": "/w=="}}]


def test_a_read_that_rests_on_a_planned_call_feeds_a_write(shop: Shop) -> None:
    program = """
receipt = cancel(order="o1")
text = get_receipt(id=receipt["receipt"])
mail(text=text["text"])
answer = 1
"""
    done = shop.apply(shop.plan(program))
    assert (done.status, shop.sent) == ("answered", ["o1", {"text": "receipt r-o1"}])


def test_equal_writes_are_each_planned(shop: Shop) -> None:
    program = 'for n in range(2):\n    cancel(order="o1")\nanswer = 1'
    assert shop.apply(shop.plan(program)).status == "answered"
    assert shop.sent == ["o1", "o1"]


def test_writes_of_parallel_are_made_in_the_planned_order(shop: Shop) -> None:
    program = """
orders = find_orders()["orders"]
parallel([lambda order=order: cancel(order=order["id"]) for order in orders])
answer = 1
"""
    shop.orders = [f"o{n}" for n in range(12)]
    shop.wait_s = 0.02
    planned = shop.plan(program)
    done = shop.apply(planned)
    assert (done.status, shop.sent) == ("answered", [call.arguments["order"] for call in planned.planned])
    assert sorted(shop.sent) == sorted(shop.orders)


def test_the_program_of_a_caller_is_applied_with_its_inputs(shop: Shop) -> None:
    program = 'for order in wanted:\n    cancel(order=order)\nanswer = "done"'
    planned = shop.agent().run_program(program, inputs={"wanted": ["o2", "o3"]}, dry_run=True)
    assert planned.status == "planned"
    done = shop.apply(planned)
    assert (done.status, done.value, shop.sent) == ("answered", "done", ["o2", "o3"])


def test_a_plan_without_a_further_yes_needs_no_answer_of_the_user(shop: Shop) -> None:
    def ask(request: ApprovalRequest) -> bool:
        raise AssertionError("the one yes covers the plan")

    assert shop.apply(shop.plan(LOOP), approve=ask).status == "answered"
    again = Shop(shop.folder)
    assert again.apply(again.plan(LOOP), approve="park").status == "answered"
    assert len(again.sent) == 4


def test_the_program_has_the_clock_and_the_chance_of_its_dry_run(shop: Shop) -> None:
    program = """
import datetime, random, uuid
for n in range(2):
    cancel(order="o1", why=f"{random.random()} {uuid.uuid4()} {datetime.datetime.now()}")
answer = 1
"""
    planned = shop.plan(program)
    time.sleep(0.2)
    assert shop.apply(planned).status == "answered"
    assert len(shop.sent) == 2


# -- a service that changed in between ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("orders", "sent", "found", "left"),
    [
        (["o1", "x2", "o3", "o4"], ["o1"], ("arguments", [("order", "'o2'", "'x2'")]), ["o2", "o3", "o4"]),
        (["o1", "o3", "o4"], ["o1"], ("arguments", [("order", "'o2'", "'o3'")]), ["o2", "o3", "o4"]),
        (["o2", "o1", "o3", "o4"], [], ("arguments", [("order", "'o1'", "'o2'")]), ["o1", "o2", "o3", "o4"]),
        (["o1", "o2", "o3", "o4", "o5"], ["o1", "o2", "o3", "o4"], ("too_many", []), []),
    ],
)
def test_another_row_stops_before_its_write(
    shop: Shop, orders: list[str], sent: list[str], found: Any, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying, "OUT_OF_TURN_S", 0.05)
    planned = shop.plan(LOOP)
    shop.orders = orders
    result = shop.apply(planned)
    assert difference(result) == found
    assert (shop.sent, not_done(result)) == (sent, left)
    assert [call.arguments["order"] for call in result.done] == sent
    assert result.fault is not None
    assert result.fault.invocation is not None
    assert result.fault.invocation.arguments == {"order": orders[len(sent)]}
    assert "was not made" in result.fault.message
    assert "plan the task again" in (result.fault.hint or "")


def test_a_planned_write_that_is_not_asked_for_is_named(shop: Shop) -> None:
    planned = shop.plan(LOOP)
    shop.orders = ["o1", "o2", "o3"]
    result = shop.apply(planned)
    assert (result.status, result.partial, result.value, not_done(result)) == ("answered", True, "cancelled", ["o4"])
    assert [each.case for each in result.remarks] == [FaultCase.PLAN_LEFT]
    assert "cancel(order='o4') was planned, and was not made" in result.remarks[0].message


@pytest.mark.parametrize("raised", ["BaseException", "Exception", "ToolError"])
def test_a_program_that_catches_a_difference_does_no_more(
    shop: Shop, raised: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying, "OUT_OF_TURN_S", 0.05)
    program = f"""
answer = []
for order in find_orders()["orders"]:
    try:
        cancel(order=order["id"])
    except {raised}:
        answer.append("caught")
"""
    planned = shop.plan(program)
    shop.orders = ["o1", "x", "o2", "o3", "o4"]
    result = shop.apply(planned)
    assert difference(result)[0] == "arguments"
    assert (shop.sent, not_done(result)) == (["o1"], ["o2", "o3", "o4"])


def test_a_difference_under_parallel_stops_what_comes_after_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "OUT_OF_TURN_S", 0.3)
    program = """
answer = []
def make(order):
    try:
        cancel(order=order["id"])
    except BaseException:
        answer.append("caught")
parallel([lambda order=order: make(order) for order in find_orders()["orders"]])
"""
    shop.wait_s = 0.02
    planned = shop.plan(program)
    shop.orders = ["o1", "o2", "x", "o4"]
    result = shop.apply(planned)
    assert result.status == "denied"
    assert planned.dry_run is not None
    order = [call.arguments["order"] for call in planned.dry_run.planned]  # as the threads came to it
    made = len(shop.sent)  # a thread that overtakes the others stops them sooner
    assert made <= order.index("o3")
    assert (shop.sent, not_done(result)) == (order[:made], order[made:])


def test_another_tool_there_stops(shop: Shop) -> None:
    program = """
if len(find_orders()["orders"]) == 4:
    cancel(order="o1")
mail(text="done")
answer = 1
"""
    planned = shop.plan(program)
    shop.orders = []
    result = shop.apply(planned)
    assert (difference(result), shop.sent) == (("tool", []), [])


def test_what_a_program_does_after_the_plan_ended_is_not_in_it(shop: Shop) -> None:
    program = 'if cancel(order="o1")["receipt"]:\n    mail(text="done")\nanswer = 1'
    planned = shop.plan(program)
    assert planned.dry_run is not None
    assert planned.dry_run.stop is not None
    result = shop.apply(planned)
    assert (difference(result), shop.sent) == (("too_many", []), ["o1"])


@pytest.mark.parametrize("outcome", ["refused", "unknown"])
@pytest.mark.parametrize("catches", [True, False])
def test_a_write_that_fails_stops_those_after_it(shop: Shop, outcome: str, catches: bool) -> None:
    program = LOOP
    if catches:
        program = """
for order in find_orders(customer="ann@example.org")["orders"]:
    try:
        cancel(order=order["id"])
    except ToolError:
        pass
answer = "cancelled"
"""
    planned = shop.plan(program)
    shop.fails_at, shop.outcome = "o2", outcome
    result = shop.apply(planned)
    assert shop.sent == ["o1"]
    doubtful = outcome == "unknown"
    assert not_done(result) == (["o3", "o4"] if doubtful else ["o2", "o3", "o4"])
    assert result.status == ("in_doubt" if doubtful else "denied" if catches else "unsolved")
    shop.fails_at = ""
    again = shop.apply(planned)
    if doubtful:
        assert (again.status, shop.sent) == ("in_doubt", ["o1"])
    else:  # it surely was not done: the same plan goes on
        assert (again.status, shop.sent) == ("answered", ["o1", "o2", "o3", "o4"])


def test_a_failure_before_any_write_lets_the_plan_be_applied_later(shop: Shop) -> None:
    planned = shop.plan(LOOP)
    real = shop.orders
    shop.orders = ["x"]
    assert difference(shop.apply(planned))[0] == "arguments"
    shop.orders = real  # it is read anew, since nothing was done
    assert (shop.apply(planned).status, shop.sent) == ("answered", real)


# -- tools and rules ---------------------------------------------------------------------------------------------------


def test_a_tool_whose_schema_changed_or_that_is_gone_stops_before_anything_runs(shop: Shop) -> None:
    planned = shop.plan(LOOP)
    reads: list[Any] = []

    def find(given: dict[str, Any]) -> Any:
        reads.append(given)
        return {"orders": [{"id": "o1"}]}

    other = make_tool(
        "cancel", lambda given: shop.sent.append(given), Effect.WRITE, order=TEXT, force={"type": "boolean"}
    )
    tools = Toolset([make_tool("find_orders", find, customer=TEXT), other])
    assert difference(shop.apply(planned, tools=tools))[0] == "changed_tool"
    result = shop.apply(planned, tools=Toolset([make_tool("find_orders", find, customer=TEXT)]))
    assert difference(result)[0] == "changed_tool"
    assert (reads, shop.sent, not_done(result)) == ([], [], ["o1", "o2", "o3", "o4"])


def test_a_tool_whose_code_changed_stops(shop: Shop, tmp_path: Path) -> None:
    def made(text: str) -> Any:
        scope: dict[str, Any] = {"sent": shop.sent}
        exec(f"def cancel(order: str) -> str:\n    '''Cancel.'''\n    sent.append(order)\n    return {text!r}\n", scope)  # noqa: S102
        return tool(effect="write")(scope["cancel"])

    planned = shop.plan('cancel(order="o1")\nanswer = 1', tools=[made("a")])
    result = shop.apply(planned, tools=[made("b")])
    assert (difference(result)[0], shop.sent) == ("changed_tool", [])
    assert shop.apply(planned, tools=[made("a")]).status == "answered"


def rules(folder: Path, text: str) -> Path:
    path = folder / "permissions.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_rule_that_denies_now_wins_over_the_yes(shop: Shop, tmp_path: Path) -> None:
    planned = shop.plan(FED)
    denied = rules(tmp_path, '[[rules]]\ndeny = "mail"\narguments = { receipt = ["r-o1"] }\n[[rules]]\nallow = "*"\n')
    result = shop.apply(planned, permissions=denied, approve=None)
    assert (result.status, shop.sent, not_done(result)) == ("denied", ["o1"], ["mail"])
    assert [call.refused_by for call in result.calls if call.tool == "mail"] == ["rule"]


def test_a_rule_that_asks_is_answered_by_the_yes(shop: Shop, tmp_path: Path) -> None:
    asks = rules(tmp_path, '[[rules]]\nask = "cancel"\n')
    planned = shop.plan(LOOP)
    assert shop.apply(planned, permissions=asks, approve=None).status == "answered"


def test_where_approvers_are_named_only_one_of_them_applies(shop: Shop, tmp_path: Path) -> None:
    from atc.calls.permissions.approvers import ApproverKey, encoded

    key, other = ApproverKey.new(), ApproverKey.new()
    public = encoded(ApproverKey(key).public)
    text = f'[[rules]]\nask = "cancel"\n[approvers.ann]\npublic_key = "{public}"\n'
    given = {"permissions": rules(tmp_path, text), "approve": None}
    planned = shop.plan(LOOP)
    for wrong in (None, other):
        with pytest.raises(UsageError):
            shop.agent(**given).apply(planned.run_id, by="ann", key=wrong)
    shop.fails_at = "o2"
    assert shop.agent(**given).apply(planned.run_id, key=key).status == "unsolved"
    shop.fails_at = ""
    path = shop.journal(planned)
    signed = path.read_text()
    path.write_text(signed.replace('"signature": "', '"signature": "A'))
    with pytest.raises(UsageError, match="not approved by an approver"):
        shop.agent(**given).resume(planned.run_id)
    path.write_text(signed)
    with pytest.raises(UsageError, match="not approved by an approver"):
        shop.agent().resume(planned.run_id)  # under rules that cannot verify it
    assert shop.sent == ["o1"]
    assert shop.agent(**given).resume(planned.run_id).status == "answered"
    assert shop.sent == ["o1", "o2", "o3", "o4"]


def test_a_warning_that_the_plan_did_not_show_is_not_covered(shop: Shop) -> None:
    program = 'mail(to="bob@example.org", text="hello")\nanswer = 1'
    planned = shop.agent(program, program).run("tell them", dry_run=True)
    assert planned.status == "planned"

    def forget(record: dict[str, Any]) -> None:
        assert record["calls"][0]["shown"]["warnings"]
        record["calls"][0]["shown"]["warnings"] = []

    assert shop.apply(planned).status == "answered"  # it was shown
    again = Shop(shop.folder)
    planned = again.agent(program, program).run("tell them", dry_run=True)
    change_plan(again.journal(planned), forget)
    assert (again.apply(planned).status, again.sent) == ("denied", [])
    asked: list[ApprovalRequest] = []

    def ask(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    assert again.apply(planned, approve=ask).status == "answered"
    assert asked[0].warnings


# -- the plan itself ---------------------------------------------------------------------------------------------------


def test_an_old_plan_is_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = shop.plan(LOOP)
    now = time.time()
    for days in (7.1, -1.0):
        monkeypatch.setattr("atc.run.apply.time.time", lambda days=days: now + days * 86_400)
        with pytest.raises(UsageError, match="older than 7 days"):
            shop.apply(planned)
    monkeypatch.undo()
    assert shop.sent == []


def test_twice_at_once_the_second_is_refused(shop: Shop) -> None:
    planned = shop.plan(LOOP)
    shop.wait_s = 0.1

    async def both() -> list[Any]:
        agents = shop.agent(), shop.agent()
        return await asyncio.gather(*(a.aapply(planned.run_id) for a in agents), return_exceptions=True)

    found = asyncio.run(both())
    assert sorted(type(each).__name__ for each in found) == ["Result", "RunInUse"]
    assert shop.sent == ["o1", "o2", "o3", "o4"]
    assert any(isinstance(each, RunInUse) for each in found)


def test_what_has_no_plan_is_refused(shop: Shop) -> None:
    real = shop.agent("answer = find_orders()").run("list the orders")
    with pytest.raises(UsageError, match="was no dry run"):
        shop.apply(real)
    reads = shop.agent("answer = find_orders()").run("list the orders", dry_run=True)
    with pytest.raises(UsageError, match="planned no call with effects"):
        shop.apply(reads)


def test_a_plan_is_not_kept_where_no_run_is(shop: Shop) -> None:
    result = shop.agent('cancel(order="o1")\nanswer = 1', keep_runs=False).run("cancel o1", dry_run=True)
    assert result.dry_run is not None
    assert (result.status, result.dry_run.kept) == ("planned", False)


def test_a_program_that_is_kept_masked_is_not_applied(shop: Shop) -> None:
    program = 'mail(text="sk-secret-0123456789")\nanswer = 1'
    planned = shop.plan(program, api_key="sk-secret-0123456789")
    with pytest.raises(UsageError, match="hold a credential"):
        shop.apply(planned, api_key="sk-secret-0123456789")
    assert "sk-secret" not in shop.journal(planned).read_text()


def test_another_program_in_the_trace_is_not_applied(shop: Shop) -> None:
    planned = shop.plan(LOOP)
    trace = shop.folder / planned.run_id / "trace.jsonl"
    trace.write_text(trace.read_text().replace("cancel(order=order", "cancel(order='o9'+order"))
    with pytest.raises(UsageError):
        shop.apply(planned)
    assert shop.sent == []


@pytest.mark.parametrize(
    "change",
    [
        {"calls": []},
        {"at": "now"},
        {"at": float("nan")},
        {"plan": 7},
        {"inputs": None},
    ],
)
def test_a_damaged_plan_refuses_the_journal(shop: Shop, change: dict[str, Any]) -> None:
    planned = shop.plan(LOOP)
    change_plan(shop.journal(planned), lambda record: record.update(change))
    with pytest.raises(JournalError):
        shop.apply(planned)
    assert shop.sent == []


@pytest.mark.parametrize(
    "change",
    [
        {"number": 0},
        {"parts": {"code": 1}},
        {"effect": "read"},
        {"arguments": {"order": 3}},
        {"unknown": {"a": 3}},
        {"unknown": {"order": {"value": "o1"}}},
        {"unknown": {"a": {"value": {"e\u0301": 1, "\u00e9": 2}}}},
    ],
)
def test_a_damaged_call_of_a_plan_refuses_the_journal(shop: Shop, change: dict[str, Any]) -> None:
    planned = shop.plan(LOOP)
    change_plan(shop.journal(planned), lambda record: record["calls"][0].update(change))
    with pytest.raises(JournalError):
        shop.apply(planned)
    assert shop.sent == []


def test_a_value_without_a_canonical_form_equals_nothing() -> None:
    assert plans.digest(float("nan")) == ""
    assert plans.digest({"a": 1, "b": 2.0}) == plans.digest({"b": 2, "a": 1})


def test_the_users_answer_in_the_dry_run_holds_for_the_plan(shop: Shop) -> None:
    program = 'why = ask_user("why?")\ncancel(order="o1", why=why)\nanswer = 1'
    asked = shop.agent(program, ask_user=lambda question: "late").run("cancel o1", dry_run=True)
    assert asked.status == "planned"
    assert shop.apply(asked, ask_user="stop").status == "answered"
    assert shop.sent == ["o1"]


def test_a_program_that_asks_something_new_goes_on_with_the_reply(shop: Shop) -> None:
    program = """
why = "late" if len(find_orders()["orders"]) == 4 else ask_user("why?")
cancel(order="o1", why=why)
answer = 1
"""
    planned = shop.plan(program, ask_user="stop")
    shop.orders = []
    assert (shop.apply(planned, ask_user="stop").status, shop.sent) == ("needs_input", [])
    again = shop.agent(ask_user="stop")
    assert difference(again.resume(planned.run_id, reply="lost")) == ("arguments", [("why", "'late'", "'lost'")])
    assert shop.sent == []


# -- a process that ends in the middle ---------------------------------------------------------------------------------


KILLED = """
import os, sys
from pathlib import Path
from atc import Agent, FakeModel, tool

log, dies_at, how = Path(sys.argv[2]), sys.argv[3], sys.argv[4]

@tool(effect="read")
def find_orders() -> list[str]:
    '''The orders that are open.'''
    done = log.read_text().split()
    return [order for order in ("o1", "o2", "o3", "o4") if order not in done]

@tool(effect="write")
def cancel(order: str) -> str:
    '''Cancel an order.'''
    if order == dies_at and how == "before":
        os._exit(9)
    with log.open("a") as file:
        file.write(order + " ")
    if order == dies_at and how == "after":
        os._exit(9)
    return order

@tool(effect="read")
def look(order: str) -> str:
    '''Look at an order.'''
    if order == dies_at and how == "between":
        os._exit(9)
    return order

program = 'for order in find_orders():\\n    look(order=order)\\n    cancel(order=order)\\nanswer = "done"'
given = {"runs_dir": sys.argv[1], "sentence": False, "approve": "never"}
agent = Agent([find_orders, cancel, look], model=FakeModel([program]), **given)
match sys.argv[5]:
    case "plan":
        result = agent.run("cancel all", dry_run=True)
    case "apply":
        result = agent.apply(sys.argv[6])
    case "resume":
        result = agent.resume(sys.argv[6])
print(result.run_id, result.status)
"""


@pytest.mark.parametrize("how", ["before", "after", "between"])
def test_a_kill_in_the_middle_does_nothing_twice(tmp_path: Path, how: str) -> None:
    script, killed, log = tmp_path / "shop.py", tmp_path / "killed", tmp_path / "log"
    script.write_text(textwrap.dedent(KILLED))
    log.write_text("")

    def ran(runs: Path, log: Path, dies_at: str, *what: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(script), str(runs), str(log), dies_at, how, *what]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ})

    run_id, status = ran(killed, log, "", "plan").stdout.split()
    assert status == "planned"
    died = ran(killed, log, "o3", "apply", run_id)
    assert died.returncode == 9, died.stderr
    for goes_on in ("apply", "resume"):
        runs, its_log = tmp_path / goes_on, tmp_path / f"{goes_on}.log"
        shutil.copytree(killed, runs)
        shutil.copy(log, its_log)
        again = ran(runs, its_log, "", goes_on, run_id)
        assert again.returncode == 0, again.stderr
        done = its_log.read_text().split()
        if how == "between":  # the write was never begun: the plan goes on to its end
            assert (again.stdout.split()[1], done) == ("answered", ["o1", "o2", "o3", "o4"])
        else:  # nobody knows whether it was done: it is not made again, and nothing after it is
            assert (again.stdout.split()[1], done) == ("in_doubt", ["o1", "o2", *(["o3"] if how == "after" else [])])
