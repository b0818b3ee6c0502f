"""Writes that wait for approval: the run ends, somebody decides elsewhere, and a resume makes what was approved."""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, Result, Toolset, UsageError
from atc.calls import parked, parking
from atc.calls.approval import ApprovalRequest
from atc.calls.parked import first_difference
from atc.errors import JournalError, ToolError, TraceError
from atc.probing.prober import Prober
from atc.result import Effect
from atc.run.approvals import decide, undecided, waiting_run, waiting_runs
from atc.run.base import Ending, Strategy
from atc.run.run import Run
from atc.traces.index import RunIndex
from atc.traces.stores.base import prune
from atc.traces.stores.files import FileStore
from tests.support.tools import make_tool

TEXT = {"type": "string"}
LOOP = """
got = []
for order in find_orders(customer="ann@example.org")["orders"]:
    got.append(cancel(order=order["id"]))
answer = len(got)
"""


class Shop:
    """Orders, what was cancelled, and agents that each stand for a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.orders: list[dict[str, Any]] = [{"id": f"o{n}", "state": "open"} for n in range(1, 5)]
        self.sent: list[str] = []
        self.reads = 0
        self.is_down = False
        self.outcome: Any = None

    def tools(self) -> Toolset:
        def find(arguments: dict[str, Any]) -> Any:
            self.reads += 1
            if self.is_down:
                raise ToolError("down", status=403, outcome="refused")
            return {"orders": self.orders}

        def cancel(arguments: dict[str, Any]) -> Any:
            self.sent.append(arguments["order"])
            if self.outcome is not None:
                raise ToolError("not now", status=500, outcome=self.outcome)
            return {"receipt": f"r-{arguments['order']}"}

        return Toolset(
            [
                make_tool("find_orders", find, customer=TEXT),
                make_tool("get_order", lambda given: {"id": given["order"], "state": "open"}, order=TEXT),
                make_tool("cancel", cancel, Effect.WRITE, required=("order",), order=TEXT, why=TEXT),
                make_tool("book", cancel, Effect.WRITE, required=("order",), order=TEXT),
            ]
        )

    def agent(self, *programs: str, **given: Any) -> Agent:
        replies = [f"```python\n{program}\n```" for program in programs]
        settings = {"sentence": False, "approve": "park", "runs_dir": self.folder, "reuse_reads_s": 0.0, "learn": False}
        return Agent(self.tools(), model=FakeModel(replies), **{**settings, **given})

    def run(self, program: str, **given: Any) -> Result[Any]:
        return self.agent(program, **given).run("cancel the orders of ann@example.org")

    def resume(self, result: Result[Any], *programs: str, **given: Any) -> Result[Any]:
        return self.agent(*programs, **given).resume(result.run_id)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def arguments(result: Result[Any]) -> list[dict[str, Any]]:
    return [call.arguments for call in result.pending]


# -- what waits --------------------------------------------------------------------------------------------------------


def test_four_writes_of_a_loop_are_one_form_and_are_each_made_once_after_a_restart(shop: Shop) -> None:
    waiting = shop.run(LOOP)
    assert (waiting.status, waiting.value, waiting.fault) == ("waiting", None, None)
    assert arguments(waiting) == [{"order": f"o{n}"} for n in range(1, 5)]
    assert [(feed.tool, feed.path) for call in waiting.pending for feed in call.feeds] == [
        ("find_orders", ("orders", n, "id")) for n in range(4)
    ]
    assert shop.sent == []
    assert [call.index for call in shop.agent().approve(waiting.run_id)] == [2, 3, 4, 5]
    assert shop.sent == []  # a decision calls nothing
    done = shop.resume(waiting)
    assert (done.status, done.value, done.pending) == ("answered", 4, ())
    assert shop.sent == ["o1", "o2", "o3", "o4"]
    with pytest.raises(UsageError, match="ended with an answer"):
        shop.resume(waiting)


def test_a_form_has_so_much_room_and_the_rest_is_asked_about_after_the_resume(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking, "MAX_FORM", 40)  # two calls, and a first one whatever it takes
    waiting = shop.run(LOOP)
    assert (waiting.status, arguments(waiting)) == ("waiting", [{"order": "o1"}, {"order": "o2"}])
    assert shop.resume(waiting).pending == waiting.pending
    shop.agent().approve(waiting.run_id)
    again = shop.resume(waiting)
    assert (shop.sent, arguments(again)) == (["o1", "o2"], [{"order": "o3"}, {"order": "o4"}])
    shop.agent().approve(waiting.run_id)
    assert (shop.resume(waiting).value, len(shop.sent)) == (4, 4)
    monkeypatch.setattr(parking, "MAX_FORM", 1)
    assert arguments(shop.run(LOOP)) == [{"order": "o1"}]


def test_without_a_decision_a_resume_waits_on_and_asks_nothing_twice(shop: Shop) -> None:
    waiting = shop.run(LOOP)
    again = shop.resume(waiting)
    assert (again.status, again.pending) == ("waiting", waiting.pending)
    assert shop.sent == []


def test_a_resume_at_a_terminal_asks_there(shop: Shop) -> None:
    asked: list[ApprovalRequest] = []

    def ask(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    waiting = shop.run(LOOP)
    done = shop.resume(waiting, approve=ask)
    assert (done.status, len(asked), len(shop.sent)) == ("answered", 4, 4)


def test_a_write_that_rests_on_one_that_waits_is_asked_about_when_its_value_is_known(shop: Shop) -> None:
    program = 'first = cancel(order="o1")\nanswer = cancel(order="o2", why=first["receipt"])["receipt"]'
    waiting = shop.run(program)
    assert arguments(waiting) == [{"order": "o1"}]
    shop.agent().approve(waiting.run_id)
    second = shop.resume(waiting)
    assert (second.status, arguments(second), shop.sent) == ("waiting", [{"order": "o2", "why": "r-o1"}], ["o1"])
    shop.agent().approve(second.run_id)
    assert shop.resume(second).value == "r-o2"
    assert shop.sent == ["o1", "o2"]


def test_a_write_after_a_read_that_came_too_late_ends_the_form(shop: Shop) -> None:
    program = 'cancel(order="o1")\nleft = get_order(order="o2")\ncancel(order=left["id"])\nanswer = 1'
    waiting = shop.run(program)
    assert arguments(waiting) == [{"order": "o1"}]
    assert [call.error_status for call in waiting.calls if call.tool == "cancel"] == [None, "waiting"]


@pytest.mark.parametrize("raised", ["BaseException", "Exception"])
def test_a_program_that_catches_everything_sends_nothing(shop: Shop, raised: str) -> None:
    program = f"""
answer = []
for n in range(3):
    try:
        order = cancel(order=f"o{{n}}")
        find_orders()
        answer.append(order["receipt"] + "!")
    except {raised}:
        answer.append("caught")
"""
    waiting = shop.run(program)
    assert (waiting.status, waiting.value, shop.sent) == ("waiting", None, [])


def test_from_the_first_one_on_no_write_is_sent_that_a_rule_allows(shop: Shop, tmp_path: Path) -> None:
    rules = tmp_path / "permissions.toml"
    rules.write_text('[[rules]]\nallow = "book"\n')
    rules.chmod(0o600)
    program = 'book(order="b1")\ncancel(order="o1")\nbook(order="b2")\nanswer = 1'
    waiting = shop.run(program, permissions=rules)
    assert (waiting.status, shop.sent) == ("waiting", ["b1"])
    assert arguments(waiting) == [{"order": "o1"}, {"order": "b2"}]
    shop.agent(permissions=rules).approve(waiting.run_id)
    assert shop.resume(waiting, permissions=rules).status == "answered"
    assert shop.sent == ["b1", "o1", "b2"]


def test_a_strategy_that_makes_several_calls_at_once_sends_none_after_one_that_waits(
    shop: Shop, tmp_path: Path
) -> None:
    class Several(Strategy):
        name = "several"

        async def solve(self, run: Run) -> Ending:
            wanted = (("book", "b1"), ("cancel", "o1"), ("book", "b2"), ("cancel", "o2"))
            made = [run.call(name, {"order": order}) for name, order in wanted]
            await asyncio.gather(*made, return_exceptions=True)
            return Ending("answered", value=1)

    rules = tmp_path / "permissions.toml"
    rules.write_text('[[rules]]\nallow = "book"\n')
    rules.chmod(0o600)
    waiting = shop.agent(strategy=Several(), permissions=rules).run("cancel some orders")
    assert (waiting.status, shop.sent) == ("waiting", ["b1"])
    assert arguments(waiting) == [{"order": "o1"}, {"order": "b2"}, {"order": "o2"}]
    assert len(shop.agent(permissions=rules).approve(waiting.run_id)) == 3


def test_a_dry_run_plans_and_nothing_waits(shop: Shop) -> None:
    result = shop.agent(LOOP).run("cancel the orders of ann@example.org", dry_run=True)
    assert (result.status, result.pending, len(result.planned)) == ("planned", (), 4)


# -- who decides -------------------------------------------------------------------------------------------------------


def test_each_call_is_decided_apart_and_a_no_ends_the_run_as_denied(shop: Shop) -> None:
    waiting = shop.run(LOOP)
    first, *others = [call.index for call in waiting.pending]
    shop.agent().approve(waiting.run_id, calls=[first], by="ann")
    shop.agent().approve(waiting.run_id, calls=others, deny=True, by="bob")
    done = shop.resume(waiting, approve="always")
    assert (done.status, shop.sent) == ("denied", ["o1"])
    assert [(call.tool, call.arguments["order"]) for call in done.done] == [("cancel", "o1")]
    assert (
        next(call for call in done.calls if call.status == "ok" and call.tool == "cancel")
        .notes[0]
        .startswith("approved by ann")
    )
    refused = next(call for call in done.calls if call.status == "refused")
    assert (refused.refused_by, refused.error) == ("user", "bob did not approve this call")


def test_one_yes_of_two_sends_nothing_before_what_still_waits(shop: Shop) -> None:
    waiting = shop.run(LOOP)
    second = waiting.pending[1].index
    shop.agent().approve(waiting.run_id, calls=[second])
    again = shop.resume(waiting)
    assert (again.status, arguments(again)) == ("waiting", [{"order": f"o{n}"} for n in (1, 3, 4)])
    assert shop.sent == []
    shop.agent().approve(waiting.run_id)
    assert (shop.resume(waiting).status, shop.sent) == ("answered", ["o1", "o2", "o3", "o4"])


def test_the_first_decision_counts(shop: Shop) -> None:
    waiting = shop.run(LOOP)
    number = waiting.pending[0].index
    shop.agent().approve(waiting.run_id, calls=[number], deny=True, by="ann")
    with pytest.raises(UsageError, match=f"call {number} was denied before, by ann"):
        shop.agent().approve(waiting.run_id, calls=[number], by="bob")
    with pytest.raises(UsageError, match="call 99 does not wait"):
        shop.agent().approve(waiting.run_id, calls=[99])
    shop.agent().approve(waiting.run_id)
    with pytest.raises(UsageError, match="no call that waits"):
        shop.agent().approve(waiting.run_id)
    shop.resume(waiting, approve="always")
    assert shop.sent == []  # the first of them was refused, and nothing went on from there


def test_what_only_an_earlier_program_asked_for_is_not_decided(shop: Shop) -> None:
    waiting = shop.run('cancel(order=find_orders()["orders"][0]["id"])\nanswer = 1')
    shop.orders[0]["id"] = "o9"
    again = shop.resume(waiting)
    assert again.pending[0].index != waiting.pending[0].index
    with pytest.raises(UsageError, match="does not wait for approval"):
        shop.agent().approve(waiting.run_id, calls=[waiting.pending[0].index])


def test_a_run_that_somebody_works_on_is_left_out_of_what_waits_and_may_be_looked_at(shop: Shop) -> None:
    busy, other = shop.run('cancel(order="o1")\nanswer = 1'), shop.run('cancel(order="o2")\nanswer = 1')
    store = shop.agent().store
    journal = store.run(busy.run_id).open_journal()
    try:
        assert [run.run_id for run in waiting_runs(store, [busy.run_id, other.run_id])] == [other.run_id]
        assert undecided(store.run(busy.run_id)) == busy.pending
        with pytest.raises(JournalError, match="only looked at"):
            store.run(busy.run_id).peek_journal().decide(busy.pending[0].index, parked.Decision(True, "x", 1.0))
    finally:
        journal.close()


@pytest.mark.parametrize(
    "damage", [b'{"pending": 1, "tool": 3}\n', b'{"call": 77, "value": 1}\n', b'{"new": 1}\n', b"\n"]
)
def test_a_damaged_journal_is_named_and_the_other_runs_are_listed(shop: Shop, damage: bytes) -> None:
    bad, other = shop.run('cancel(order="o1")\nanswer = 1'), shop.run('cancel(order="o2")\nanswer = 1')
    (shop.folder / bad.run_id / "journal.jsonl").open("ab").write(damage)
    listed = waiting_runs(shop.agent().store, [bad.run_id, "20200101-000000-aaaaaa", other.run_id])
    assert [(run.run_id, run.pending) for run in listed] == [(bad.run_id, ()), (other.run_id, other.pending)]
    assert "is not a journal record" in listed[0].damage
    with pytest.raises(JournalError):  # and a look sees what who opens it would refuse
        shop.agent().approve(bad.run_id)


def test_a_look_at_a_journal_that_is_being_written_sees_what_is_whole(shop: Shop) -> None:
    waiting = shop.run('cancel(order="o1")\nanswer = 1')
    store = shop.agent().store
    (journal,) = shop.folder.rglob("journal.jsonl")
    journal.open("ab").write(b'{"decision": 1, "yes": tr')
    assert undecided(store.run(waiting.run_id)) == waiting.pending
    assert journal.read_bytes().endswith(b"tr")  # nothing was written
    shop.agent().approve(waiting.run_id, by="ann")
    (call,) = waiting_run(store.run(waiting.run_id)).calls
    assert call.decision is not None
    assert (call.decision.by, call.shown, undecided(store.run(waiting.run_id))) == ("ann", waiting.pending[0], ())


def test_only_what_was_shown_is_decided(shop: Shop) -> None:
    waiting = shop.run(LOOP)
    stored = shop.agent().store.run(waiting.run_id)
    calls = waiting_run(stored).calls
    seen = {call.number: call.digest for call in calls}
    assert len({*seen.values()}) == 4
    first, second = calls[:2]
    for wrong in ({}, {**seen, first.number: second.digest}):
        with pytest.raises(UsageError, match="is not what was shown"):
            decide(stored, None, yes=True, seen=wrong)
    assert undecided(stored) == waiting.pending  # all or none
    shown = first.shown.model_copy(update={"warnings": ("look",)})
    others = [{"until": 1.0}, {"parts": {"code": "x"}}, {"key": first.key._replace(digest="x")}, {"shown": shown}]
    assert all(replace(first, **other).digest != first.digest for other in others)
    assert replace(first, decision=parked.Decision(True, "x", 1.0)).digest == first.digest
    assert decide(stored, None, yes=True, seen=seen) == waiting.pending


# -- what a yes holds for ----------------------------------------------------------------------------------------------


def asked_again(shop: Shop, change: Callable[[], None], program: str = LOOP) -> Result[Any]:
    """What a resume says of a run all whose calls were approved before this change."""
    waiting = shop.run(program)
    shop.agent().approve(waiting.run_id)
    change()
    again = shop.resume(waiting)
    assert (again.status, shop.sent) == ("waiting", [])
    return again


def test_a_yes_is_for_one_exact_call(shop: Shop) -> None:
    again = asked_again(shop, lambda: shop.orders.__setitem__(0, {"id": "o9", "state": "open"}))
    assert arguments(again)[0] == {"order": "o9"}
    shop.agent().approve(again.run_id)
    assert shop.resume(again).status == "answered"
    assert shop.sent == ["o9", "o2", "o3", "o4"]


def test_a_yes_is_void_where_a_read_before_it_says_something_else(shop: Shop) -> None:
    again = asked_again(shop, lambda: shop.orders[0].update(state="sent"))
    (change,) = again.pending[0].changed
    assert (change.tool, change.path, change.before, change.after) == (
        "find_orders",
        ("orders", 0, "state"),
        "'open'",
        "'sent'",
    )
    shop.agent().approve(again.run_id)
    assert (shop.resume(again).status, len(shop.sent)) == ("answered", 4)


def test_a_yes_is_void_where_a_read_changed_that_a_resume_made_meanwhile(shop: Shop) -> None:
    waiting = shop.run(LOOP)
    shop.resume(waiting)  # nothing is decided yet
    shop.agent().approve(waiting.run_id)
    shop.orders[0]["state"] = "sent"
    again = shop.resume(waiting)
    assert (again.status, again.pending[0].changed[0].after, shop.sent) == ("waiting", "'sent'", [])


def test_a_yes_is_void_where_a_read_changed_after_a_call_that_is_asked_for_no_more(shop: Shop) -> None:
    again = asked_again(shop, lambda: shop.orders.__setitem__(0, {"id": "o9", "state": "open"}))
    shop.agent().approve(again.run_id)
    shop.orders[1]["state"] = "sent"
    assert (shop.resume(again).status, shop.sent) == ("waiting", [])


def test_a_yes_is_void_where_a_resume_that_saw_the_change_was_killed_before_it_asked_again(shop: Shop) -> None:
    again = asked_again(shop, lambda: shop.orders[0].update(state="sent"))
    path = next(shop.folder.rglob("journal.jsonl"))
    *kept, last = path.read_text().splitlines(keepends=True)
    while '"pending"' in last:
        *kept, last = kept
    path.write_text("".join((*kept, last)))
    resumed = shop.resume(again)
    assert (resumed.status, shop.sent) == ("waiting", [])
    assert {call.changed[0].after for call in resumed.pending} == {"'sent'"}


def test_a_yes_is_void_where_a_read_comes_before_it_that_did_not_come_before(shop: Shop) -> None:
    program = """
import time
from collections.abc import Callable
order = get_order(order=str(time.perf_counter_ns()))
cancel(order="o1")
answer = 1
"""
    again = asked_again(shop, lambda: None, program)
    (change,) = again.pending[0].changed
    assert (change.tool, change.is_new) == ("get_order", True)


def test_a_yes_holds_for_what_was_asked_in_a_later_round_than_the_reads_before_it(shop: Shop) -> None:
    program = """
state = find_orders()["orders"][0]["state"]
cancel(order="o1")
state = get_order(order="o1")["state"]
book(order="o2")
state = get_order(order="o2")["state"]
book(order="o3")
answer = state
"""
    result = shop.run(program)
    for sent in (["o1"], ["o1", "o2"], ["o1", "o2", "o3"]):
        assert len(result.pending) == 1
        shop.agent().approve(result.run_id)
        result = shop.resume(result)
        assert shop.sent == sent
    assert result.status == "answered"


@pytest.mark.parametrize(("before", "after"), [(False, 0), (1, 1.0), (0.0, -0.0), (b"a", {"$bytes": "YQ=="})])
def test_values_that_python_takes_for_equal_are_a_difference(before: Any, after: Any) -> None:
    rows = [[{"id": 1, "of": {"a": [each]}}] for each in (before, after)]
    found = first_difference(*rows)
    assert found is not None
    assert found[0][:3] == (0, "of", "a")
    assert first_difference(rows[0], [{"of": {"a": [before]}, "id": 1}]) is None


@pytest.mark.parametrize("fails_at", ["", "o2"])
def test_a_loop_of_reads_that_see_its_writes_comes_to_its_end(tmp_path: Path, fails_at: str) -> None:
    orders, sent, down = dict.fromkeys(("o1", "o2", "o3"), "open"), list[str](), [fails_at]

    def cancel(given: dict[str, Any]) -> str:
        if given["order"] in down:
            down.clear()
            raise ToolError("not now", status=503, outcome="refused")
        sent.append(given["order"])
        orders[given["order"]] = "cancelled"
        return "done"

    get = make_tool("get_order", lambda given: orders[given["order"]], order=TEXT)
    given = {"sentence": False, "approve": "park", "runs_dir": tmp_path, "reuse_reads_s": 0.0, "max_revisions": 0}
    program = """
for order in ("o1", "o2", "o3"):
    if get_order(order=order) == "open":
        cancel(order=order)
answer = "done"
"""

    def agent(*replies: str) -> Agent:
        return Agent([get, make_tool("cancel", cancel, Effect.WRITE, order=TEXT)], model=FakeModel(replies), **given)

    result = agent(program).run("cancel my orders")
    questions = 0
    for _ in range(8):
        if result.status == "waiting":
            questions += len(result.pending)
            agent().approve(result.run_id)
        elif result.status == "answered":
            break
        result = agent().resume(result.run_id)
    assert (result.status, sent) == ("answered", ["o1", "o2", "o3"])
    assert questions == 3 + len(fails_at[:1])


@pytest.mark.parametrize("down_at_first", [True, False])
def test_a_yes_is_void_where_a_read_fails_now_or_does_no_more(shop: Shop, down_at_first: bool) -> None:
    program = """
try:
    state = find_orders()["orders"][0]["state"]
except Exception:
    state = "unknown"
if state != "locked":
    cancel(order="o1")
answer = state
"""
    shop.is_down = down_at_first
    again = asked_again(shop, lambda: setattr(shop, "is_down", not down_at_first), program)
    (change,) = again.pending[0].changed
    assert (change.after if not down_at_first else change.before) == "an error"
    shop.agent().approve(again.run_id)
    assert (shop.resume(again).status, shop.sent) == ("answered", ["o1"])


def test_what_a_read_answers_after_a_call_that_waits_is_no_change(shop: Shop) -> None:
    program = 'cancel(order="o1")\nleft = find_orders()["orders"][0]\ncancel(order="o2", why=left["state"])\nanswer = 1'
    waiting = shop.run(program)
    shop.agent().approve(waiting.run_id)
    shop.orders[0]["state"] = "cancelled"  # as its first call does
    second = shop.resume(waiting)
    assert (shop.sent, arguments(second)) == (["o1"], [{"order": "o2", "why": "cancelled"}])
    assert second.pending[0].changed == ()


def test_reads_are_made_again_where_the_clock_was_set_back(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = shop.run(LOOP)
    now = time.time() - 3600
    monkeypatch.setattr(time, "time", lambda: now)
    shop.resume(waiting, reuse_reads_s=300.0)
    assert shop.reads == 2


def test_a_yes_of_a_resume_uses_up_the_call_that_waited(shop: Shop) -> None:
    waiting = shop.run('cancel(order="o1")\ncancel(order="o1")\nanswer = 1')
    answers = iter((True, False))
    assert shop.resume(waiting, approve=lambda request: next(answers)).status == "denied"
    again = shop.resume(waiting, approve="always")
    assert (again.status, again.pending, shop.sent) == ("denied", (), ["o1"])


def test_reads_of_a_moment_ago_are_not_made_again(shop: Shop) -> None:
    waiting = shop.run(LOOP)
    shop.agent().approve(waiting.run_id)
    assert shop.resume(waiting, reuse_reads_s=300.0).status == "answered"
    assert shop.reads == 1


def test_a_yes_is_void_where_the_tool_is_another_one(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def change() -> None:
        monkeypatch.setitem(TEXT, "description", "another schema")

    assert len(asked_again(shop, change).pending) == 4


@pytest.mark.parametrize("decided", [True, False])
def test_a_tool_that_is_said_to_read_now_is_a_write_for_the_run(shop: Shop, decided: bool) -> None:
    waiting = shop.run(LOOP)
    if decided:
        shop.agent().approve(waiting.run_id, deny=True)
    reads = Toolset(each.graded(Effect.READ) for each in shop.tools().values())
    done = Agent(
        reads, model=FakeModel([]), approve="park", runs_dir=shop.folder, sentence=False, reuse_reads_s=0.0, learn=False
    ).resume(waiting.run_id)
    assert (done.status, shop.sent) == ("denied" if decided else "waiting", [])


def test_a_yes_comes_too_late_after_its_time(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = shop.run(LOOP)
    now = time.time() + parked.WAITS_S + 1
    monkeypatch.setattr(time, "time", lambda: now)
    with pytest.raises(UsageError, match="waited too long"):
        shop.agent().approve(waiting.run_id)
    again = shop.resume(waiting)
    assert (again.status, again.pending[0].until) == ("waiting", now + parked.WAITS_S)
    shop.agent().approve(again.run_id)
    now += parked.WAITS_S + 1  # and a yes does not hold for longer
    assert (shop.resume(again).status, shop.sent) == ("waiting", [])


def test_rules_that_deny_the_call_now_come_first(shop: Shop, tmp_path: Path) -> None:
    waiting = shop.run(LOOP)
    shop.agent().approve(waiting.run_id)
    rules = tmp_path / "permissions.toml"
    rules.write_text('[[rules]]\ndeny = "cancel"\narguments = { order = { is = "o1" } }\n')
    rules.chmod(0o600)
    done = shop.resume(waiting, permissions=rules)
    assert (done.status, shop.sent) == ("denied", [])
    assert next(call for call in done.calls if call.status == "refused").refused_by == "rule"


@pytest.mark.parametrize(("outcome", "status"), [("unknown", "in_doubt"), ("refused", "waiting")])
def test_a_yes_is_used_once(shop: Shop, outcome: Any, status: str) -> None:
    program = 'answer = cancel(order="o1")'
    waiting = shop.run(program)
    shop.agent().approve(waiting.run_id)
    shop.outcome = outcome
    assert (shop.resume(waiting, program).status, shop.sent) == (status, ["o1"])
    assert (shop.resume(waiting, program).status, shop.sent) == (status, ["o1"])


# -- the same call in another run --------------------------------------------------------------------------------------


def test_a_call_that_waits_in_another_run_is_asked_about_with_that_run(shop: Shop) -> None:
    first, second = shop.run(LOOP), shop.run('cancel(order="o9")\ncancel(order="o2")\nbook(order="o3")\nanswer = 1')
    assert [call.same_as for call in first.pending] == [""] * 4
    assert [call.same_as for call in second.pending] == ["", first.run_id, ""]  # another tool is another call
    third = shop.run('cancel(order="o2")\nanswer = 1')
    assert third.pending[0].same_as == first.run_id
    assert shop.resume(third).pending == third.pending
    assert [run.pending[0].same_as for run in waiting_runs(shop.agent().store, [third.run_id])] == [first.run_id]


@pytest.mark.parametrize("how", ["denied", "made", "expired"])
def test_what_does_not_wait_any_more_is_no_such_call(shop: Shop, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = shop.run('cancel(order="o1")\nanswer = 1')
    if how == "expired":
        later = time.time() + parked.WAITS_S + 1
        monkeypatch.setattr(time, "time", lambda: later)
    else:
        shop.agent().approve(first.run_id, deny=how == "denied")
        assert shop.run('cancel(order="o1")\nanswer = 1').pending[0].same_as == (first.run_id if how == "made" else "")
        shop.resume(first)
    second = shop.run('cancel(order="o1")\nanswer = 1')
    assert second.pending[0].same_as != first.run_id


def test_another_runs_damaged_journal_keeps_no_run_from_asking(shop: Shop) -> None:
    first = shop.run('cancel(order="o1")\nanswer = 1')
    journal = next(shop.folder.rglob("journal.jsonl"))
    journal.write_bytes(
        b'[1, "pending": ]\n["pending"]\n{"pending": {}}\n' + journal.read_bytes() + b'{"pending": 7, "t'
    )
    assert shop.run('cancel(order="o1")\nanswer = 1').pending[0].same_as == first.run_id
    journal.write_bytes(b"\xff" * 100)
    assert len(shop.run('cancel(order="o1")\nanswer = 1').pending) == 1


def test_a_loop_of_calls_that_wait_reads_the_other_runs_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.run(LOOP)
    looked: list[int] = []
    recent = FileStore.recent
    monkeypatch.setattr(FileStore, "recent", lambda *given: looked.append(1) or recent(*given))
    assert all(call.same_as for call in shop.run(LOOP).pending)
    assert looked == [1]


# -- conversations -----------------------------------------------------------------------------------------------------

CANCEL = 'answer = cancel(order=find_orders()["orders"][0]["id"])["receipt"]'


def test_a_task_of_a_conversation_waits_and_the_next_one_says_for_what(shop: Shop) -> None:
    with shop.agent(CANCEL, "answer = answer_1 + '!'").conversation() as talk:
        first = talk.run("cancel the first order")
        assert (first.status, arguments(first), talk.pending) == ("waiting", [{"order": "o1"}], first.pending)
        assert (talk.turns[0].status, talk.turns[0].problem) == ("waiting", "waits for approval: cancel(order='o1')")
        with pytest.raises(UsageError, match=rf"task 1 waits for approval: cancel\(order='o1'\) .*approve {talk.id}"):
            talk.run("and shout")
        assert (talk.resume().status, shop.sent) == ("waiting", [])
        shop.agent().approve(talk.id)
        done = talk.resume()
        assert (done.status, done.value, shop.sent, talk.pending) == ("answered", "r-o1", ["o1"], ())
        assert talk.run("and shout").value == "r-o1!"
        assert [(turn.number, turn.status) for turn in talk.turns] == [(1, "answered"), (2, "answered")]
        with pytest.raises(UsageError, match="no task of this conversation waits"):
            talk.resume()


def test_two_tasks_of_a_conversation_wait_one_after_the_other(shop: Shop) -> None:
    with shop.agent(CANCEL, CANCEL).conversation() as talk:
        for _ in range(2):
            waiting = talk.run("cancel the first order")
            assert (arguments(waiting), waiting.pending[0].changed) == ([{"order": "o1"}], ())  # a yes is for one task
            shop.agent().approve(talk.id)
            assert talk.resume().status == "answered"
            shop.orders[0]["state"] = "cancelled"  # what a task before read says nothing about the next one
    assert shop.sent == ["o1", "o1"]  # it was asked for twice, and approved twice


def test_what_was_decided_for_one_task_is_not_for_the_next(shop: Shop) -> None:
    with shop.agent(CANCEL, CANCEL).conversation() as talk:
        first = talk.run("cancel the first order")
        shop.agent().approve(talk.id, deny=True)
        assert (talk.resume().status, talk.pending) == ("denied", ())
        shop.orders[0]["state"] = "late"
        again = talk.run("cancel it, please")
        assert (again.status, arguments(again), again.pending[0].changed) == ("waiting", arguments(first), ())
        assert again.pending[0].index != first.pending[0].index
        shop.agent().approve(talk.id)
        assert (talk.resume().status, shop.sent) == ("answered", ["o1"])


def test_a_yes_that_its_task_did_not_use_lets_no_call_of_the_next_one_through(shop: Shop) -> None:
    program = 'if find_orders()["orders"][0]["state"] == "open":\n    cancel(order="o1")\nanswer = 1'
    with shop.agent(program, 'cancel(order="o1")\nanswer = 1').conversation() as talk:
        talk.run("cancel the first order, if it is open")
        shop.agent().approve(talk.id)
        shop.orders[0]["state"] = "sent"
        assert (talk.resume().status, shop.sent) == ("answered", [])
        assert (talk.run("cancel it all the same").status, shop.sent) == ("waiting", [])


def test_a_conversation_that_went_on_elsewhere_is_closed(shop: Shop) -> None:
    with shop.agent(CANCEL).conversation() as talk:
        talk.run("cancel the first order")
        shop.agent().approve(talk.id)
        assert shop.agent().resume(talk.id).status == "answered"
        with pytest.raises(UsageError, match="went on elsewhere"):
            talk.resume()
        with pytest.raises(UsageError, match="is closed"):
            talk.run("another one")
    assert shop.sent == ["o1"]


def test_a_conversation_waits_on_where_its_run_is_in_use(shop: Shop) -> None:
    with shop.agent(CANCEL).conversation() as talk:
        talk.run("cancel the first order")
        shop.agent().approve(talk.id)
        journal = shop.agent().store.run(talk.id).open_journal()
        with pytest.raises(JournalError, match="in use"):
            talk.resume()
        journal.close()
        assert (talk.resume().status, shop.sent) == ("answered", ["o1"])


# -- a journal or trace that was damaged -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("pending", {"at": math.nan}),
        ("pending", {"until": math.inf}),
        ("pending", {"until": 1e300}),
        ("pending", {"pending": 0}),
        ("decision", {"at": math.nan}),
        ("decision", {"at": 1e300}),
        ("decision", {"at": "now"}),
        ("decision", {"decision": 9}),
    ],
)
def test_a_damaged_record_refuses_the_journal(shop: Shop, kind: str, damage: dict[str, Any]) -> None:
    waiting = shop.run('cancel(order="o1")\nanswer = 1')
    shop.agent().approve(waiting.run_id)
    journal = next(shop.folder.rglob("journal.jsonl"))
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    next(record for record in records if kind in record).update(damage)
    journal.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    with pytest.raises(JournalError, match="is not a journal record"):
        shop.resume(waiting)
    with pytest.raises(JournalError, match="is not a journal record"):
        shop.agent().approve(waiting.run_id)


def test_a_call_is_parked_once_under_its_number(shop: Shop) -> None:
    waiting = shop.run('cancel(order="o1")\nanswer = 1')
    shop.agent().approve(waiting.run_id, deny=True)
    journal = next(shop.folder.rglob("journal.jsonl"))
    text = journal.read_text()
    (parked_call,) = (line for line in text.splitlines() if line.startswith('{"pending"'))
    journal.write_text(f"{text}{parked_call}\n")  # as if nobody had said no
    with pytest.raises(JournalError, match="was parked before"):
        shop.resume(waiting)


@pytest.mark.parametrize("pending", [3, [1], [{"index": "x"}]])
def test_a_damaged_end_in_the_trace_says_so(shop: Shop, pending: Any) -> None:
    waiting = shop.run('cancel(order="o1")\nanswer = 1')
    trace = next(shop.folder.rglob("trace.jsonl"))
    *lines, last = trace.read_text().splitlines()
    ended = json.loads(last)
    ended["data"]["pending"] = pending
    trace.write_text("".join(f"{line}\n" for line in (*lines, json.dumps(ended))))
    with pytest.raises(TraceError, match="is damaged"):
        shop.agent().approve(waiting.run_id)


# -- beside it ---------------------------------------------------------------------------------------------------------


def test_a_run_that_waits_is_not_pruned_before_its_time(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = shop.run(LOOP)
    store = shop.agent().store
    assert prune(store, 0).deleted == []
    assert [(row.status, row.waits, row.calls) for row in RunIndex(store).latest()] == [("waiting", True, 1)]
    monkeypatch.setattr(time, "time", lambda: os.stat(shop.folder).st_mtime + 2 * parked.WAITS_S)
    assert [(row.status, row.waits) for row in RunIndex(store).latest()] == [("denied", False)]
    assert prune(store, 0).deleted == [waiting.run_id]


def test_what_cannot_wait_says_so(shop: Shop) -> None:
    with pytest.raises(UsageError, match="keep_runs"):
        Agent([make_tool("pay", None, Effect.WRITE)], model=FakeModel([]), approve="park", keep_runs=False)
    with pytest.raises(UsageError, match="probing does not wait"):
        Prober(shop.tools(), approve="park")
