"""A dry run: reads run, calls with effects are planned, and nothing that is planned reaches its tool."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc import Agent, Ending, FakeModel, Result, Run, Strategy, Toolset, UsageError
from atc._host.redaction import Redactor
from atc._records.records import Feed
from atc.calls.approval import Approval
from atc.calls.attempt import Attempt
from atc.calls.broker import Broker, CallPolicy
from atc.calls.contract import CallRequest
from atc.calls.journal import Journal, call_key
from atc.calls.sending import Sender
from atc.errors import FrameError, ToolError, WritesPlanned
from atc.models.fake import Scripted
from atc.programs.lessons.reading import all_lessons, lessons_of
from atc.result import Effect
from atc.sandboxes.channel.session import as_call_request
from tests.support.agent import code
from tests.support.broker import never
from tests.support.tools import make_tool

TEXT, LIST = {"type": "string"}, {"type": "array"}
ORDERS = {"orders": [{"id": "o17", "total": 30}, {"id": "o18", "total": 45}]}


class Shop:
    """Orders that can be read; what has an effect must not be reached."""

    def __init__(self) -> None:
        self.read: list[Any] = []

        def find(arguments: dict[str, Any]) -> Any:
            self.read.append(arguments)
            if arguments.get("customer") == "nobody":
                raise ToolError("no such customer", status=404)
            return ORDERS

        self.tools = Toolset(
            [
                make_tool("find_orders", find, customer=TEXT),
                make_tool("get_receipt", find, required=("receipt",), receipt=TEXT),
                make_tool("cancel", never, Effect.WRITE, required=("order",), order=TEXT, why=TEXT),
                make_tool("refund", never, Effect.UNKNOWN, required=("of",), of={}, note=TEXT),
            ]
        )

    def agent(self, *replies: Scripted, **given: Any) -> Agent:
        model = FakeModel([reply if not isinstance(reply, str) or "```" in reply else code(reply) for reply in replies])
        return Agent(self.tools, model=model, **{"sentence": True, "approve": _asked, "rules": "none", **given})

    def run(self, *replies: Scripted, task: str = "cancel the orders of ann@example.org", **given: Any) -> Result:
        return self.agent(*replies, **given).run(task, dry_run=True)


def _asked(request: object) -> bool:
    raise AssertionError("nobody is asked to approve what is not made")


@pytest.fixture
def shop() -> Shop:
    return Shop()


def planned(result: Result) -> list[tuple[str, dict[str, Any]]]:
    return [(call.tool, call.arguments) for call in result.planned]


LOOP = """
for order in find_orders(customer="ann@example.org")["orders"]:
    cancel(order=order["id"], why="sold out")
answer = "all cancelled"
"""


# -- what is planned --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("approve", [_asked, "always", "never", "ask"])
def test_reads_run_and_writes_are_listed_with_what_feeds_them(shop: Shop, approve: Any) -> None:
    result = shop.run(LOOP, approve=approve)
    assert (result.status, result.value, result.answer, result.fault) == ("planned", None, "", None)
    assert shop.read == [{"customer": "ann@example.org"}]
    assert planned(result) == [("cancel", {"order": id_, "why": "sold out"}) for id_ in ("o17", "o18")]
    assert [call.status for call in result.calls] == ["ok", "planned", "planned"]
    assert result.dry_run is not None
    assert result.dry_run.stop is None
    assert [call.feeds for call in result.dry_run.planned] == [
        (
            Feed(
                argument="order",
                kind="response",
                call=1,
                tool="find_orders",
                path=("orders", number, "id"),
                row={"total": total},
                rows=2,
            ),
            Feed(argument="why", kind="program"),
        )
        for number, total in ((0, 30), (1, 45))
    ]
    assert (result.usage.model_calls, result.usage.tool_calls, len(result.revisions)) == (1, 1, 1)
    assert result.in_doubt == ()


def test_an_unknown_effect_counts_as_one(shop: Shop) -> None:
    result = shop.run('refund(of="ann@example.org")\nanswer = 1')
    assert planned(result) == [("refund", {"of": "ann@example.org"})]
    assert result.dry_run is not None
    assert result.dry_run.planned[0].feeds == (Feed(argument="of", kind="task"),)


def test_writes_in_parallel_are_planned_and_reads_after_them_run(shop: Shop) -> None:
    program = """
parallel(lambda: cancel(order="a"), lambda: cancel(order="b"), lambda: find_orders())
answer = find_orders(customer="z")["orders"][0]["total"]
"""
    result = shop.run(program)
    assert sorted(arguments["order"] for _, arguments in planned(result)) == ["a", "b"]
    assert result.dry_run is not None
    assert result.dry_run.stop is None
    assert next(call.index for call in result.calls if call.arguments == {"customer": "z"}) in result.dry_run.unseen
    assert len(shop.read) == 2


def test_a_program_without_effects_is_a_normal_run(shop: Shop) -> None:
    result = shop.run('answer = find_orders()["orders"][1]["total"]', sentence=False)
    assert (result.status, result.value, result.answer, result.planned) == ("answered", 45, "45", ())
    assert result.dry_run is not None
    assert result.dry_run.planned == ()


def test_a_dry_run_is_only_what_is_asked_for(shop: Shop) -> None:
    result = shop.agent('answer = find_orders()["orders"][1]["total"]', sentence=False).run("look")
    assert result.dry_run is None
    with pytest.raises(UsageError, match="dry_run is True or False, not 'no'"):
        shop.agent("answer = 1").run("look", dry_run="no")  # type: ignore[call-overload]


# -- what depends on a planned call -----------------------------------------------------------------------------------


def test_a_write_that_takes_a_planned_value_is_planned_with_the_programs_expression(shop: Shop) -> None:
    program = """
done = cancel(order="o17")
refund(of={"amount": done["refund"]["amount"]}, note=f"sorry for {done['refund']['amount']}")
seen = get_receipt(receipt=done["receipt"])
refund(of=seen["total"])
answer = done["id"]
"""
    result = shop.run(program)
    assert result.dry_run is not None
    assert result.dry_run.stop is None
    first, second, read, last = result.dry_run.planned
    assert (first.arguments, first.unknown) == ({"order": "o17"}, {})
    note = "f\"sorry for {done['refund']['amount']}\""
    assert (second.arguments, second.unknown) == ({}, {"of": "{'amount': done['refund']['amount']}", "note": note})
    assert second.feeds[0] == Feed(argument="of", kind="planned", call=1, tool="cancel", path=("refund", "amount"))
    assert (read.tool, read.effect, read.unknown) == ("get_receipt", "read", {"receipt": "done['receipt']"})
    assert last.feeds == (Feed(argument="of", kind="planned", call=3, tool="get_receipt", path=("total",)),)
    assert shop.read == []


def test_where_it_ends_it_says_what_it_needs(shop: Shop) -> None:
    program = 'a = cancel(order="x")\nb = cancel(order="y")\nif a["left"][0] > 1:\n    cancel(order="z")\nanswer = 1'
    stop = shop.run(program).dry_run.stop  # type: ignore[union-attr]
    assert stop is not None
    assert (stop.line, stop.source_line, stop.needs, stop.path) == (3, 'if a["left"][0] > 1:', 1, ("left", 0))


@pytest.mark.parametrize("catches", ["except BaseException:", "except:", "finally:"])
def test_nothing_is_made_up_by_a_program_that_catches_everything(shop: Shop, catches: str) -> None:
    program = f"""
c = cancel(order="o17")
try:
    if c["ok"]: pass
{catches}
    cancel(order="made up")
answer = find_orders()
"""
    result = shop.run(program)
    assert planned(result) == [("cancel", {"order": "o17"})]
    assert (shop.read, result.value) == ([], None)
    assert result.dry_run is not None
    assert result.dry_run.stop is not None
    assert result.dry_run.stop.needs == 1


def test_a_value_is_kept_in_containers_and_is_not_none(shop: Shop) -> None:
    program = """
import copy
kept = {"a": [cancel(order="o17").get("id", "none")]}
other = copy.deepcopy(kept)
if kept["a"][0] is None:
    cancel(order="made up")
refund(of=other)
answer = kept
"""
    result = shop.run(program)
    assert [tool for tool, _ in planned(result)] == ["cancel", "refund"]
    assert result.dry_run is not None
    assert result.dry_run.stop is None


def test_arguments_pass_their_gate(shop: Shop) -> None:
    result = shop.run('cancel(order="a")\ncancel(order=find_orders()["orders"])\ncancel(order="b")\nanswer = 1')
    assert [call.status for call in result.calls] == ["planned", "ok", "refused"]
    assert result.dry_run is not None
    assert result.dry_run.stop is not None
    assert (result.dry_run.stop.line, result.dry_run.stop.needs) == (2, None)
    assert "ToolError" in result.dry_run.stop.reason


# -- revisions --------------------------------------------------------------------------------------------------------


def test_a_failure_before_any_planned_call_is_revised_and_one_after_it_is_nobodys(shop: Shop) -> None:
    failing = 'find_orders(customer="nobody")\nanswer = 1'
    after = 'cancel(order="o17")\nfind_orders(customer="nobody")\nanswer = 1'
    result = shop.run(failing, after)
    assert (result.status, result.fault) == ("planned", None)
    assert [revision.fault is None for revision in result.revisions] == [False, True]
    assert result.usage.model_calls == 2
    assert result.dry_run is not None
    assert result.dry_run.stop is not None
    assert "no such customer" in result.dry_run.stop.reason


def test_a_call_that_depends_on_a_warning_is_planned_and_says_that_a_real_run_asks(shop: Shop) -> None:
    broker = Broker(shop.tools, _begun(), _quiet, approval=Approval("always"), dry_run=True)
    broker.begin_program({"cancel": ("an id that nobody gave",)})
    asyncio.run(broker.call(CallRequest(1, "cancel", {"order": "a"}, 1)))
    assert broker.calls[0].status == "planned"
    assert "asks before it makes" in broker.calls[0].notes[0]


# -- nothing is sent, and nothing is in doubt -------------------------------------------------------------------------


def _begun() -> Journal:
    journal = Journal()
    journal.begin_attempt()
    return journal


def _quiet(kind: str, data: Any) -> None:
    return None


_CALLS = st.lists(
    st.tuples(
        st.sampled_from(["find_orders", "get_receipt", "cancel", "refund", "all_pages", "none"]),
        st.dictionaries(st.sampled_from(["order", "of", "customer"]), st.sampled_from(["a", 1, None, ["a"]])),
        st.dictionaries(
            st.sampled_from(["order", "of", "receipt"]),
            st.lists(st.tuples(st.integers(0, 6), st.just(("id",))), min_size=1, max_size=2),
            max_size=1,
        ),
    ),
    max_size=8,
)


@given(_CALLS, st.sampled_from(["always", "never", "ask"]))
def test_no_call_with_effects_reaches_its_tool(calls: list[Any], approve: Any) -> None:
    shop = Shop()
    seen: list[str] = []
    emit: Any = lambda kind, data: seen.append(kind)  # noqa: E731
    policy = CallPolicy(retry_wait_s=0.001)
    broker = Broker(shop.tools, _begun(), emit, policy, Approval(approve), Redactor((), {}), dry_run=True)

    async def all_of_them() -> None:
        for number, (tool, arguments, unknown) in enumerate(calls, 1):
            await broker.call(CallRequest(number, tool, arguments, 1, unknown=unknown))

    asyncio.run(all_of_them())
    assert len(broker.calls) == len(calls)
    assert all(call.status in ("planned", "refused") for call in broker.calls if call.effect is not Effect.READ)
    assert all(entry.effect is Effect.READ for entry in broker.journal.entries.values())
    assert not {"call_sent", "approval_asked"}.intersection(seen)


@pytest.mark.parametrize("effect", [Effect.WRITE, Effect.UNKNOWN])
def test_neither_the_sender_nor_what_makes_a_call_lets_one_through(effect: Effect) -> None:
    tool = make_tool("act", never, effect)
    attempt = Attempt(CallRequest(1, "act", {}, 1), number=1, program=0, effect=effect)
    attempt.granted, attempt.key = tool, call_key("act", {})
    broker = Broker(Toolset([tool]), _begun(), _quiet, dry_run=True)
    with pytest.raises(AssertionError, match="a dry run hands no call"):
        asyncio.run(broker._begin(attempt))
    assert broker.journal.entries == {}
    sender = Sender(broker.clock, CallPolicy(), reads_only=True)
    attempt.effect = Effect.READ  # whatever the attempt says
    with pytest.raises(AssertionError, match="a dry run hands no call"):
        asyncio.run(sender.send(attempt, lambda: None))


def test_a_real_run_takes_no_word_of_what_was_planned(shop: Shop) -> None:
    broker = Broker(shop.tools, _begun(), _quiet, approval=Approval("always"))
    reply = asyncio.run(broker.call(CallRequest(1, "cancel", {"order": "a"}, 1, unknown={"why": [(1, ())]})))
    assert reply.status == "invalid_arguments"
    assert broker.journal.entries == {}


@pytest.mark.parametrize(
    "unknown",
    [
        [],
        1,
        {"a": 1},
        {"a": []},
        {"a": [1]},
        {"a": [[1, ["x"] * 51]]},
        {"a": [[1, [None]]]},
        {"a": [[True, []]]},
        {"a": [["1", []]]},
        {"a": [[1, []]] * 1001},
    ],
)
def test_a_frame_that_claims_it_otherwise_is_refused(unknown: Any) -> None:
    with pytest.raises(FrameError):
        as_call_request({"op": "call", "id": 1, "tool": "f", "args": {}, "unknown": unknown})


def test_a_run_that_is_cut_off_leaves_no_doubt_and_stays_dry() -> None:
    stopped = asyncio.Event()

    async def wait(arguments: dict[str, Any]) -> Any:
        if not stopped.is_set():
            stopped.set()
            await asyncio.Event().wait()
        return 1

    tools = Toolset([make_tool("wait", wait), make_tool("cancel", never, Effect.WRITE, order=TEXT)])
    agent = Agent(tools, model=FakeModel([code('cancel(order="a")\nwait()\nanswer = 1')]), approve="always")

    async def cut_off() -> None:
        run = asyncio.create_task(agent.arun("cancel a", dry_run=True))
        await stopped.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(cut_off())
    stored = agent.store.find("last")
    assert list(stored.begun_writes()) == []
    journal = Journal(stored.journal)
    assert [entry.effect for entry in journal.entries.values()] == [Effect.READ]
    journal.close()
    result = agent.resume("last")
    assert (result.status, result.in_doubt, [call.tool for call in result.planned]) == ("planned", (), ["cancel"])
    with pytest.raises(UsageError, match="was a dry run and did nothing that could be resumed"):
        agent.resume("last")


# -- strategies, conversations, lessons -------------------------------------------------------------------------------


def test_the_papers_way_ends_with_what_it_planned(shop: Shop) -> None:
    program = 'cancel(order=find_orders()["orders"][0]["id"])\nanswer = 1'
    result = shop.run(program, strategy="atc-paper", sentence=False)
    assert (result.status, planned(result)) == ("planned", [("cancel", {"order": "o17"})])
    assert result.dry_run is not None
    (order,) = result.dry_run.planned[0].feeds
    assert (order.kind, order.argument, order.tool, order.path) == (
        "response", "order", "find_orders", ("orders", 0, "id"),
    )  # fmt: skip
    assert result.dry_run.stop is None


class Stubborn(Strategy):
    """Goes on where it should not."""

    name = "stubborn"

    async def solve(self, context: Run) -> Ending:
        try:
            await context.call("cancel", {"order": "o17"})
        except WritesPlanned:
            await context.call("find_orders", {})
        return Ending("answered", "it is cancelled")


def test_an_answer_of_a_strategy_that_goes_on_is_not_shown(shop: Shop) -> None:
    agent = Agent(shop.tools, model=FakeModel([]), approve=_asked, strategy=Stubborn(), sentence=False)
    result = agent.run("cancel o17", dry_run=True)
    assert (result.status, result.value, result.answer, planned(result)) == (
        "planned",
        None,
        "",
        [
            (
                "cancel",
                {
                    "order": "o17",
                },
            )
        ],
    )


def test_a_conversation_goes_on_for_real_with_what_is_there_then() -> None:
    read, done = [], []
    find = make_tool("find", lambda arguments: read.append(1) or {"id": f"o{len(read)}"})
    cancel = make_tool("cancel", lambda arguments: done.append(arguments["order"]), Effect.WRITE, order=TEXT)
    model = FakeModel([code('cancel(order=find()["id"])\nanswer = "done"')] * 2)
    agent = Agent(Toolset([find, cancel]), model=model, approve="always", sentence=False, reuse_reads_s=1000)
    with agent.conversation() as talk:
        first = talk.run("cancel my order", dry_run=True)
        second = talk.run("now do it")
    assert (first.status, second.status, done, len(read)) == ("planned", "answered", ["o2"], 2)
    assert "it was a dry run" in model.prompts[1][-1].content
    assert "Already done" not in model.prompts[1][-1].content


def test_a_dry_run_that_is_answered_lets_nothing_be_done_again() -> None:
    done: list[str] = []
    cancel = make_tool("cancel", lambda arguments: done.append(arguments["order"]), Effect.WRITE, order=TEXT)
    again = code('cancel(order="a")\nanswer = "done"')
    model = FakeModel([code('cancel(order="a")\nanswer = 1 / 0'), code("answer = find()"), again])
    given: dict[str, Any] = {"approve": "always", "sentence": False, "strategy": "chain", "max_revisions": 0}
    agent = Agent(Toolset([cancel, make_tool("find", lambda _: 1)]), model=model, rules="none", **given)
    with agent.conversation() as talk:
        results = [talk.run("cancel a"), talk.run("what is one?", dry_run=True), talk.run("cancel a")]
    assert [result.status for result in results[:2]] == ["unsolved", "answered"]
    assert results[2].calls[-1].error_status == "already_done"
    assert done == ["a"]


def test_it_teaches_nothing(shop: Shop) -> None:
    agent = shop.agent(LOOP)
    result = agent.run("cancel all", dry_run=True)
    protocols = {protocol.name: protocol for protocol in shop.tools.protocols}
    for lessons in (lessons_of(result, protocols), *all_lessons(agent.store.find("last"), protocols)):
        assert (lessons.answered, dict(lessons.calls), list(lessons.feeds)) == (False, {}, [])


def test_a_result_is_read_back_as_it_was(shop: Shop) -> None:
    result = shop.run(LOOP)
    assert Result.model_validate_json(result.model_dump_json()) == result
    assert Result.model_validate(json.loads(result.model_dump_json())).planned == result.planned


def test_events_of_a_stream_say_that_it_is_one(shop: Shop) -> None:
    async def all_events() -> dict[str, Any]:
        return {event.kind: event.data async for event in shop.agent(LOOP).stream("cancel all", dry_run=True)}

    events = asyncio.run(all_events())
    assert events["run_started"]["dry_run"] is True
    assert (events["call_ended"]["status"], events["run_ended"]["status"]) == ("planned", "planned")
    assert len(events["run_ended"]["dry_run"]["planned"]) == 2
    assert "answered" not in events


def test_a_question_to_the_user_after_a_planned_call_is_answered_in_a_dry_run(shop: Shop) -> None:
    program = code('cancel(order="a")\nrefund(of=ask_user(question="How much?"))\nanswer = 1')
    agent = Agent(shop.tools, model=FakeModel([program]), approve=_asked, ask_user="stop", rules="none")
    asked = agent.run("cancel a", dry_run=True)
    assert (asked.status, asked.question, planned(asked)) == ("needs_input", "How much?", [("cancel", {"order": "a"})])
    assert asked.dry_run is not None
    assert asked.dry_run.stop is not None
    result = agent.resume(asked.run_id, reply="20")
    assert (result.status, planned(result)[1:]) == ("planned", [("refund", {"of": "20"})])
