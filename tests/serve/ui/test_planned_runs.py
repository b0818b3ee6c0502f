"""The plan of a dry run on its page: one yes, bound to what was shown, makes exactly these calls."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from atc import Agent, FakeModel, Result
from atc.calls import parked
from atc.run.apply import planned_run
from atc.serve.ui import planned_runs
from atc.settings import Settings
from atc.tools.functions import tool
from atc.traces.stores.files import FileStore
from tests.support.ui import HOST, Caller, Reply, Stream, serving

pytestmark = pytest.mark.anyio
FED = "first = book(n=7)\nanswer = book(n=first['booked'], note=f\"after {first['booked']}\")"
EVIL = "</script><img src=x onerror=window.__pwned=1>\u202e\x1b[2J"
booked: list[Any] = []
rooms: list[int] = []


@tool(effect="read")
def find_rooms() -> dict[str, list[int]]:
    """Find rooms."""
    return {"rooms": [*rooms]}


@tool(effect="write")
def book(n: Any, note: str = "", more: Any = None) -> dict[str, Any]:
    """Book a room."""
    booked.append((n, note))
    return {"booked": n}


TOOLS: list[Any] = [find_rooms, book]


@pytest.fixture(autouse=True)
def _nothing_is_booked() -> None:
    booked.clear()
    rooms[:] = [1, 2, 3]


def agent(*programs: str, **given: Any) -> Agent:
    replies = [f"```python\n{program}\n```" for program in programs]
    return Agent(TOOLS, model=FakeModel(replies), **{"sentence": False, "learn": False, "approve": "never", **given})


async def plans(program: str = FED, *, source: str = "here", **given: Any) -> Result[Any]:
    """A dry run of another process, so to say."""

    def planned() -> Result[Any]:
        with agent(program, **given) as planner:
            return planner.run(f"book rooms {EVIL}", dry_run=True, source=source)

    result = await asyncio.to_thread(planned)
    assert result.dry_run is not None
    assert (result.status, booked) == ("planned", [])
    return result


async def card_of(caller: Caller, run_id: str) -> Any:
    return (await caller.send(f"/api/runs/{run_id}/plan", right="read")).json


async def apply(caller: Caller, card: Any, **more: Any) -> Reply:
    return await caller.send(f"/api/runs/{card['run_id']}/apply", {"digest": card["digest"]}, **more)


async def ended(stream: Stream) -> Any:
    """Wait for the state of the run once it has ended; return it, and the plan that was told last."""
    plan: Any = None
    while True:
        told = await stream.next("state", "plan")
        if told.event == "plan":
            plan = told.data
        elif told.data["status"] not in ("planned", "running", "cut off") and not told.data["here"]:
            return told.data["status"], plan


async def test_a_plan_of_another_process_is_applied_on_its_page_with_one_yes() -> None:
    planned = await plans()
    assert planned.dry_run is not None
    assert planned.dry_run.kept
    async with serving("unasked", tools=TOOLS, at_terminal=True) as caller:
        async with caller.stream(f"/api/runs/{planned.run_id}/events") as stream:
            card = (await stream.next("plan")).data
            assert (card["heading"], card["left"], card["here"]) == ("2 calls with effects planned", 0, True)
            assert [call["tool"] for call in card["calls"]] == ["book", "book"]
            assert card["calls"][0]["arguments"] == [["n", "7"]]
            first = card["calls"][0]["index"]
            unknown = dict(card["calls"][1]["arguments"])
            assert f"<booked of call {first}>" in unknown["n"]
            assert f"after <booked of call {first}>" in unknown["note"]
            assert abs(card["until"] - time.time() - parked.WAITS_S) < 600
            applied = await apply(caller, card)
            assert (applied.status, applied.json) == (202, {"run_id": planned.run_id})
            assert (await stream.next("plan")).data["calls"] == []  # it goes on
            assert (await ended(stream))[0] == "answered"
        assert booked == [(7, ""), (7, "after 7")]
        done = await card_of(caller, planned.run_id)
        assert ("on the page of `atc ui`" in done["applied"]["by"], done["calls"], done["digest"]) == (True, [], "")
        again = await apply(caller, card)
        assert (again.status, again.json["plan"]["applied"]) == (409, done["applied"])
    assert len(booked) == 2


async def test_only_the_plan_that_was_shown_is_applied() -> None:
    planned, other = await plans(), await plans("answer = book(n='other')")
    async with serving("unasked", tools=TOOLS, at_terminal=True) as caller:
        card, strange = await card_of(caller, planned.run_id), await card_of(caller, other.run_id)
        stale = await apply(caller, {**strange, "run_id": planned.run_id})
        assert (stale.status, stale.json["plan"]) == (409, card)
        for wrong in ({}, {"digest": ""}, {"digest": 3}, {"digest": "x", "more": 1}):
            assert (await caller.send(f"/api/runs/{planned.run_id}/apply", wrong)).status == 400, wrong
        both = await asyncio.gather(*(apply(caller, card) for _ in range(2)))
        assert [reply.status for reply in both].count(202) == 1
        for _ in range(100):
            if not caller.ui.work.here(planned.run_id):
                break
            await asyncio.sleep(0.1)
    assert len(booked) == 2


async def test_who_may_not_say_yes_applies_nothing() -> None:
    planned = await plans()
    async with serving("unasked", tools=TOOLS, at_terminal=True) as caller:
        card = await card_of(caller, planned.run_id)
        for right in ("read", "approve"):
            assert (await apply(caller, card, right=right)).status == 403
        assert (await apply(caller, card, right=None)).status == 401
        by_cookie: dict[str, Any] = {"right": None, "cookie": f"atc-4321={caller.ui.keys.cookie('run')}"}
        for forged in ({}, {"origin": "https://evil.example"}, {"origin": "null"}):
            assert (await apply(caller, card, **by_cookie, **forged)).status == 403
        plain = {"origin": f"http://{HOST}", "content_type": "text/plain"}
        assert (await apply(caller, card, **by_cookie, **plain)).status == 415
    unattended: list[tuple[dict[str, Any], str]] = [
        ({}, "without a terminal"),
        ({"approve": "never", "at_terminal": True}, "never"),
    ]
    for given, why in unattended:
        async with serving("unasked", tools=TOOLS, **given) as caller:
            refused = await apply(caller, card)
            assert (refused.status, why in refused.message) == (403, True)
            assert (await card_of(caller, planned.run_id)) == card
    assert booked == []


async def test_a_page_without_the_tools_shows_the_plan_and_applies_nothing() -> None:
    planned = await plans(source="elsewhere")
    async with serving("unasked", tools=TOOLS, at_terminal=True) as caller:
        card = await card_of(caller, planned.run_id)
        assert (card["here"], len(card["calls"])) == (False, 2)
        refused = await apply(caller, card)
        assert (refused.status, f"`atc runs apply {planned.run_id}`" in refused.message) == (400, True)
    async with serving(at_terminal=True) as caller:
        assert (await card_of(caller, planned.run_id))["here"] is False
    assert booked == []


async def test_what_cannot_be_applied_has_no_plan_to_press(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = await plans()
    store = FileStore(Settings.load().runs_dir)
    with agent("answer = 1") as reader:
        read = await asyncio.to_thread(reader.run, "reads", dry_run=True, source="here")
    async with serving("unasked", tools=TOOLS, at_terminal=True) as caller:
        assert (await card_of(caller, read.run_id))["calls"] == []
        card = await card_of(caller, planned.run_id)
        journal = store.run(planned.run_id).open_journal()  # somebody works on it
        busy = await apply(caller, card)
        journal.close()
        assert (busy.status, busy.json["error"]["kind"]) == (409, "RunInUse")
        for name in ("20260101-000000-ffffff", "..", "last"):
            assert (await caller.send(f"/api/runs/{name}/plan", right="read")).status == 404
            assert (await caller.send(f"/api/runs/{name}/apply", {"digest": "x"})).status == 404
        now = time.time() + parked.WAITS_S + 1_000
        monkeypatch.setattr(time, "time", lambda: now)
        late = await apply(caller, card)
        assert (late.status, "older than 7 days" in late.message) == (400, True)
    assert booked == []


async def test_nothing_of_a_plan_steers_a_page_and_a_long_one_is_not_applied_unseen() -> None:
    most = planned_runs.MOST_CALLS
    huge = await plans(f"answer = book(n={EVIL!r}, note='x' * 900_000)")
    many = await plans(f"answer = [book(n=n) for n in range({most + 1})]", max_calls=2_000)
    async with serving("unasked", tools=TOOLS, at_terminal=True) as caller:
        reply = await caller.send(f"/api/runs/{huge.run_id}/plan", right="read")
        assert len(reply.body) < 10_000
        assert json.dumps(reply.json, ensure_ascii=False).isprintable()
        (call,) = reply.json["calls"]
        assert (call["cut"], "900,000 characters" in str(call["arguments"])) == (True, True)
        whole = (await caller.send(f"/api/runs/{huge.run_id}/plan/{call['index']}", right="read")).json["text"]
        assert len(whole) > 900_000
        assert whole.replace("\n", "").isprintable()
        assert (await caller.send(f"/api/runs/{huge.run_id}/plan/99", right="read")).status == 404
        card = await card_of(caller, many.run_id)
        assert (len(card["calls"]), card["left"], card["digest"]) == (most, 1, "")
        found = planned_run(FileStore(Settings.load().runs_dir).run(many.run_id), looking=True)
        assert (await apply(caller, card)).status == 400
        assert (await apply(caller, {**card, "digest": found.digest})).status == 409
    assert booked == []
