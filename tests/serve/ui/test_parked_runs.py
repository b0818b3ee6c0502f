"""Runs of other processes that wait for approval: pages show their calls, and decide about exactly what they show."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from atc import Agent, FakeModel, Result
from atc.calls import parked
from atc.errors import UsageError
from atc.serve.ui import parked_runs
from atc.settings import Settings
from atc.tools.functions import tool
from atc.traces.stores.files import FileStore
from tests.support.ui import HOST, Caller, Reply, Stream, serving

pytestmark = pytest.mark.anyio
FOUR = "answer = [book(n=n) for n in range(4)]"
EVIL = "</script><img src=x onerror=window.__pwned=1>\u202e\x1b[2J"
booked: list[Any] = []


@tool(effect="write")
def book(n: Any, note: str = "", more: Any = None) -> dict[str, Any]:
    """Book a room."""
    booked.append(n)
    return {"booked": n}


@pytest.fixture(autouse=True)
def _nothing_is_booked() -> None:
    booked.clear()


def parked_run(
    program: str = FOUR, *, task: str = "book rooms", source: str | None = "here", **given: Any
) -> Result[Any]:
    """A run of another process, so to say, that waits for approval."""
    settings = {"approve": "park", "sentence": False, "learn": False, **given}
    with Agent([book], model=FakeModel([f"```python\n{program}\n```"]), **settings) as agent:
        result = agent.run(task, source=source)
    assert result.status == "waiting", result.fault
    return result


async def parks(*given: Any, **named: Any) -> Result[Any]:
    return await asyncio.to_thread(parked_run, *given, **named)


async def card_of(caller: Caller, run_id: str) -> Any:
    return (await caller.send(f"/api/runs/{run_id}/pending", right="read")).json


def shown(card: Any, *numbers: int) -> list[dict[str, Any]]:
    """What a page sends of the calls that it shows."""
    return [
        {"call": each["index"], "digest": each["digest"]}
        for each in card["calls"]
        if not numbers or each["index"] in numbers
    ]


async def decide(caller: Caller, card: Any, decision: str, *numbers: int, **more: Any) -> Reply:
    body = {"decision": decision, "calls": shown(card, *numbers)}
    return await caller.send(f"/api/runs/{card['run_id']}/pending", body, **{"right": "approve", **more})


async def next_card(stream: Stream, run_id: str) -> Any:
    while (told := (await stream.next("parked")).data)["run_id"] != run_id:
        pass
    return told


async def test_a_run_of_another_process_is_approved_on_a_page_and_goes_on_there() -> None:
    program = "answer = [book(n=n, note=f'room {n}') for n in (7, 8)]"
    waiting = await parks(program)
    async with (
        serving("unasked", tools=[book], watch=True, at_terminal=True) as caller,
        caller.stream("/api/stream", right="approve") as stream,
    ):
        card = await next_card(stream, waiting.run_id)
        assert (card["task"], card["waits"], card["left"], card["here"], card["more"]) == ("book rooms", 2, 0, True, 0)
        first = card["calls"][0]
        assert (first["tool"], first["effect"], first["line"]) == ("book", "write", 1)
        assert first["arguments"] == [["n", "7"], ["note", "'room 7'"]]
        assert first["origins"][0] == ["n", "the program alone"]
        assert first["until"] == waiting.pending[0].until
        decided = await decide(caller, card, "approve")
        assert (decided.status, decided.json["waits"]) == (200, 0)
        assert booked == []  # a decision calls nothing
        told = await next_card(stream, waiting.run_id)
        assert [call["decided"]["yes"] for call in told["calls"]] == [True, True]
        assert "on the page of `atc ui`" in told["calls"][0]["decided"]["by"]
        assert (await caller.send(f"/api/runs/{waiting.run_id}/resume", {})).status == 202
        assert (await next_card(stream, waiting.run_id))["calls"] == []  # it waits no more
        while (row := (await stream.next("run")).data)["status"] != "answered":
            pass
    assert (row["run_id"], booked) == (waiting.run_id, [7, 8])


async def test_what_was_not_shown_so_is_not_approved() -> None:
    waiting = await parks()
    other = await parks("answer = book(n='other')")
    async with serving(at_terminal=True) as caller:
        card, strange = await card_of(caller, waiting.run_id), await card_of(caller, other.run_id)
        digest = strange["calls"][0]["digest"]
        swapped = {**card, "calls": [{**call, "digest": digest} for call in card["calls"]]}
        refused = await decide(caller, swapped, "approve")
        assert (refused.status, "is not what was shown" in refused.message) == (409, True)
        where = f"/api/runs/{waiting.run_id}/pending"
        call = shown(card)[0]
        for wrong in (
            [],
            None,
            [3],
            [{"call": call["call"]}],
            [call, call],
            [{**call, "call": True}],
            [{**call, "call": "1"}],
        ):
            body = {"decision": "approve", "calls": wrong}
            assert (await caller.send(where, body, right="approve")).status == 400, wrong
        assert (await caller.send(where, {"decision": "maybe", "calls": [call]}, right="approve")).status == 400
        missing = await caller.send(where, {"decision": "deny", "calls": [{**call, "call": 99}]}, right="approve")
        assert missing.status == 409
        assert (await card_of(caller, waiting.run_id))["waits"] == 4


async def test_who_may_not_approve_does_not_and_another_page_does_not_either() -> None:
    waiting = await parks()
    async with serving("unasked", tools=[book], at_terminal=True) as caller:
        card = await card_of(caller, waiting.run_id)
        assert (await decide(caller, card, "approve", right="read")).status == 403
        assert (await decide(caller, card, "approve", right=None)).status == 401
        cookie = f"atc-4321={caller.ui.keys.cookie('run')}"
        by_cookie: dict[str, Any] = {"right": None, "cookie": cookie}
        for forged in ({}, {"origin": "http://127.0.0.1:1"}, {"origin": "null"}, {"origin": "https://evil.example"}):
            assert (await decide(caller, card, "approve", **by_cookie, **forged)).status == 403
        cross = {"origin": f"http://{HOST}", "sec_fetch_site": "cross-site"}
        assert (await decide(caller, card, "approve", **by_cookie, **cross)).status == 403
        plain = {"origin": f"http://{HOST}", "content_type": "text/plain"}
        assert (await decide(caller, card, "approve", **by_cookie, **plain)).status == 415
        assert (await decide(caller, card, "approve", right="run", host="evil.example")).status == 421
        assert (await card_of(caller, waiting.run_id))["waits"] == 4
        assert (await decide(caller, card, "approve", **by_cookie, origin=f"http://{HOST}")).status == 200


@pytest.mark.parametrize(
    ("given", "why"), [({}, "without a terminal"), ({"approve": "never", "at_terminal": True}, "never")]
)
async def test_a_page_that_no_person_began_says_no_yes(given: dict[str, Any], why: str) -> None:
    waiting = await parks()
    async with serving("unasked", tools=[book], **given) as caller:
        card = await card_of(caller, waiting.run_id)
        refused = await decide(caller, card, "approve", right="run")
        assert (refused.status, why in refused.message) == (403, True)
        page = json.loads((await caller.send("/", right="run")).body.decode().partition(">")[2])
        assert why in page["live"]["no_yes"]
        assert (await decide(caller, card, "deny")).json["waits"] == 0


async def test_where_approvers_are_named_a_page_decides_with_the_key_of_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cryptography")
    from atc.calls.permissions.approvers import ApproverKey, encoded

    key, strange = ApproverKey.new(), ApproverKey.new()
    rules = tmp_path / "permissions.toml"
    rules.write_text(f'[approvers]\nann = {{ public_key = "{encoded(ApproverKey(key).public)}" }}\n')
    rules.chmod(0o600)
    waiting = await parks("answer = book(n=1)", permissions=rules)
    for shell in ({}, {"approver_key": strange}):  # a terminal is no key
        async with serving(at_terminal=True, permissions=rules, **shell) as caller:
            assert (list(caller.ui.keys.tokens), caller.ui.no_yes != "") == (["read"], True)
        async with serving("unasked", tools=[book], at_terminal=True, permissions=rules, **shell) as caller:
            card = await card_of(caller, waiting.run_id)
            assert (await decide(caller, card, "approve", right="run")).status == 403
            assert (await decide(caller, card, "deny", right="run")).status == 409
            assert (await card_of(caller, waiting.run_id))["waits"] == 1
    async with serving(permissions=rules, approver_key=key) as caller:
        card = await card_of(caller, waiting.run_id)
        decided = await decide(caller, card, "approve")
        assert (decided.status, decided.json["calls"][0]["decided"]["by"]) == (200, "ann")


async def test_what_somebody_works_on_or_came_too_late_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = await parks()
    store = FileStore(Settings.load().runs_dir)
    async with serving(at_terminal=True) as caller:
        card = await card_of(caller, waiting.run_id)
        journal = store.run(waiting.run_id).open_journal()
        busy = await decide(caller, card, "approve")
        journal.close()
        assert (busy.status, busy.json["error"]["kind"]) == (409, "RunInUse")
        now = time.time() + parked.WAITS_S + 1
        monkeypatch.setattr(time, "time", lambda: now)
        late = await decide(caller, card, "approve")
        assert (late.status, "waited too long" in late.message) == (409, True)
        for name in ("20260101-000000-ffffff", "..", "last"):
            assert (await caller.send(f"/api/runs/{name}/pending", right="read")).status == 404


async def test_nothing_of_a_call_steers_a_page_and_a_huge_one_is_bounded() -> None:
    program = f"answer = book(n={EVIL!r}, note='x' * 900_000, more={{str(k): 'y' * 999 for k in range(999)}})"
    waiting = await parks(program, task=f"book {EVIL}")
    async with serving(at_terminal=True) as caller:
        reply = await caller.send(f"/api/runs/{waiting.run_id}/pending", right="read")
        assert len(reply.body) < 10_000
        card = reply.json
        assert json.dumps(card, ensure_ascii=False).isprintable()
        assert (card["calls"][0]["cut"], "900,000 characters" in str(card["calls"][0]["arguments"])) == (True, True)
        number = card["calls"][0]["index"]
        whole = (await caller.send(f"/api/runs/{waiting.run_id}/pending/{number}", right="read")).json["text"]
        assert len(whole) > 1_800_000
        assert whole.replace("\n", "").isprintable()
        assert (await caller.send(f"/api/runs/{waiting.run_id}/pending/9999", right="read")).status == 404


async def test_many_calls_are_a_form_of_some_and_the_rest_comes_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parked_runs, "MOST_CALLS", 5)
    calls = 16
    waiting = await parks(f"answer = [book(n=n, note='z' * 399) for n in range({calls})]")
    async with serving(at_terminal=True) as caller:
        seen: list[int] = []
        for round in itertools.count():
            card = await card_of(caller, waiting.run_id)
            asked = [call["index"] for call in card["calls"] if not call["decided"]]
            assert len(asked) + card["left"] == card["waits"] == calls - len(seen)
            assert len(json.dumps(card)) < 3 * parked_runs.MOST_SHOWN
            if round == 3:
                break
            assert (await decide(caller, card, "approve", *asked)).status == 200
            seen += asked
        assert len(seen) == len({*seen}) == 3 * parked_runs.MOST_CALLS


async def test_a_thousand_runs_are_a_short_list_and_only_what_changed_is_read_again() -> None:
    waiting = await parks()
    folder = Path(Settings.load().runs_dir)

    def copies() -> None:
        for n in range(1_000):
            copy = folder / f"20270101-000000-{n:06x}"
            copy.mkdir(mode=0o700)
            for file in ("trace.jsonl", "journal.jsonl"):
                (copy / file).write_bytes((folder / waiting.run_id / file).read_bytes())

    await asyncio.to_thread(copies)
    async with serving(at_terminal=True) as caller:
        await caller.ui.reading.fresh(60.0)
        listed = (await caller.send("/api/pending", right="read")).json
        assert (len(listed["runs"]), listed["more"]) == (parked_runs.MOST_RUNS, 1_001 - parked_runs.MOST_RUNS)
        with patch.object(parked_runs, "waiting_run", side_effect=UsageError("it was read again")):
            caller.ui.reading.poke()
            await caller.ui.reading.fresh(60.0)
            again = (await caller.send("/api/pending", right="read")).json
        assert again == listed


async def test_the_page_of_a_run_hears_who_decided_and_that_it_goes_on_elsewhere() -> None:
    waiting = await parks()
    async with (
        serving(at_terminal=True) as caller,
        caller.stream(f"/api/runs/{waiting.run_id}/events", right="read") as stream,
    ):
        card = await next_card(stream, waiting.run_id)
        assert card["waits"] == 4

        def elsewhere() -> Result[Any]:
            with Agent([book], model=FakeModel([]), sentence=False, learn=False) as agent:
                agent.approve(waiting.run_id, by="ann")
                return agent.resume(waiting.run_id)

        done = await asyncio.to_thread(elsewhere)
        assert (done.status, booked) == ("answered", [0, 1, 2, 3])
        told = []
        while not told or told[-1].event != "end":
            told.append(await stream.next("parked", "state", "end"))
        cards = [each.data for each in told if each.event == "parked"]
        assert cards[-1]["calls"] == []
        assert {call["decided"]["by"] for card in cards for call in card["calls"]} <= {"ann"}
        assert [each.data["status"] for each in told if each.event == "state"][-1] == "answered"


async def test_the_question_about_a_second_copy_names_the_run_of_the_first() -> None:
    first = await parks("answer = book(n=1)")
    second = await parks("answer = book(n=1)")
    async with serving(at_terminal=True) as caller:
        notes = [(await card_of(caller, run.run_id))["calls"][0]["same_as"] for run in (first, second)]
        assert (notes[0], first.run_id in notes[1]) == ("", True)
