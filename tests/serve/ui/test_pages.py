"""What pages are told: lists, streams that follow a trace, approvals, runs that are begun, stopped and resumed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from atc._host.redaction import Redactor
from atc._records.events import Event
from atc._records.records import Invocation
from atc.calls.approval import ApprovalRequest
from atc.errors import ModelUnavailable
from atc.result import Effect
from atc.run.resources import Resources
from atc.serve.ui import streams
from atc.serve.ui.desk import Question
from atc.serve.ui.parked_runs import ParkedRuns
from atc.serve.ui.planned_runs import PlannedRuns
from atc.serve.ui.reading import Reading
from atc.serve.ui.shown_calls import MOST_DONE
from atc.settings import Settings
from atc.tools.functions import tool
from atc.traces.stores.files import FileRun, FileStore
from tests.support.ui import PLAIN, Reply, Views, serving

pytestmark = pytest.mark.anyio
WRITES = "```python\nanswer = book(n=8)\n```"


@tool(effect="write")
def book(n: int) -> dict[str, int]:
    """Book a room."""
    return {"booked": n}


@pytest.fixture
def runs() -> FileStore:
    return FileStore(Settings.load().runs_dir)


def made(store: FileStore, number: int, *, task: str = "a task", status: str = "answered") -> FileRun:
    """A run, written by another process so to say."""
    run = store.run(f"20260101-000000-{number:06x}")
    run.make()
    write(run, "run_started", task=task, model="m", strategy="chain", source="here", run_id=run.run_id)
    write(
        run, "call_ended", index=1, tool="t", arguments={}, status="ok", error=None, seconds=0.1, notes=[], value=task
    )
    if status:
        end(run, status)
    return run


def write(run: FileRun, kind: Any, **data: Any) -> None:
    trace = run.open_trace()
    trace.write_line(Event(kind, data, at=1_750_000_000.0).line())
    trace.close()


def end(run: FileRun, status: str) -> None:
    write(run, "run_ended", status=status, answer="7", usage={"seconds": 1.0})


async def test_a_list_is_searched_and_goes_on(runs: FileStore) -> None:
    for number in range(5):
        made(runs, number, task=f"Rome {number}", status="failed" if number == 3 else "answered")
    async with serving() as caller:
        first = (await caller.send("/api/runs?limit=2", right="read")).json
        assert [row["task"] for row in first["runs"]] == ["Rome 4", "Rome 3"]
        assert (first["more"], first["total"], first["unread"]) == (True, 5, 0)
        rest = (await caller.send(f"/api/runs?limit=3&before={first['runs'][-1]['run_id']}", right="read")).json
        assert [row["task"] for row in rest["runs"]] == ["Rome 2", "Rome 1", "Rome 0"]
        assert not rest["more"]
        found = (await caller.send("/api/runs?query=rome+status:failed+calls:>0+since:2025-01-01", right="read")).json
        assert [row["task"] for row in found["runs"]] == ["Rome 3"]
        for bad in ("query=calls:x", "query=since:soon", "limit=0", "limit=x", "before=/etc", f"query={'x' * 501}"):
            assert (await caller.send(f"/api/runs?{bad}", right="read")).status == 400
        page = (await caller.send("/", right="read")).body.decode()
        assert '"rights": ["read"]' in page
        assert "Rome 4" in page


async def test_who_may_begin_a_task_sees_what_it_will_have() -> None:
    def live(page: Reply) -> Any:
        return json.loads(page.body.decode().partition(">")[2])["live"]

    async with serving(WRITES, tools=[book]) as caller:
        assert live(await caller.send("/", right="approve"))["about"] is None
        about = live(await caller.send("/"))["about"]
        assert about == {"model": "fake", "endpoint": "", "problem": "", "tools": 1, "writes": 1, "names": ["book"]}
    with patch.object(Resources, "model", side_effect=ModelUnavailable("no model is named")):
        async with serving(WRITES, tools=[book]) as caller:
            about = live(await caller.send("/"))["about"]
            assert (about["model"], about["problem"]) == ("", "no model is named")
    async with serving() as caller:
        assert live(await caller.send("/", right="read"))["about"] is None


async def test_a_stream_follows_a_trace_that_is_written_elsewhere(runs: FileStore) -> None:
    run = made(runs, 1, status="")
    async with serving() as caller:
        page = json.loads((await caller.send(f"/runs/{run.run_id}", right="read")).body.decode().partition(">")[2])
        assert (page["live"]["after"], len(page["events"])) == (2, 2)
        async with caller.stream(f"/api/runs/{run.run_id}/events?after=1", right="read") as stream:
            assert (await stream.next()).number == 2
            assert (await stream.next("state")).data["can"] == []
            run.trace.open("ab").write(b'{"v": 3, "kind": "call_')  # in the middle of being written
            write(run, "stage_started", stage=1, new_request=False, inputs={})
            with run.trace.open("ab") as file:
                file.write(b'{"v": 3, "kind": 5}\n')
            assert (await stream.next()).data["kind"] == "stage_started"
            damage = await stream.next()
            assert (damage.number, damage.data["kind"]) == (4, "damaged")
            end(run, "unsolved")
            assert (await stream.next()).number == 5
            assert (await stream.next("state")).data["status"] == "unsolved"
            assert (await stream.next()).event == "end"
        async with caller.stream(f"/api/runs/{run.run_id}/events", right="read", last_event_id="5") as stream:
            assert [(await stream.next()).event for _ in range(2)] == ["state", "end"]
        other = made(runs, 2, status="")
        async with caller.stream(f"/api/runs/{other.run_id}/events?after=2", right="read") as stream:
            await stream.next("state")
            other.delete()
            assert (await stream.next()).event == "gone"
        assert (await caller.send(f"/api/runs/{other.run_id}/events", right="read")).status == 404
        assert len(caller.ui.hub) == 0


async def test_a_run_that_goes_on_elsewhere_runs_until_its_process_ends(runs: FileStore) -> None:
    run = made(runs, 1, status="")
    journal = run.open_journal()
    async with serving() as caller:
        (row,) = json.loads((await caller.send("/api/runs", right="read")).body)["runs"]
        assert (row["status"], row["here"]) == ("running", False)
        async with caller.stream(f"/api/runs/{run.run_id}/events", right="read") as stream:
            assert (await stream.next("state")).data["status"] == "running"
            journal.close()
            assert (await stream.next("state")).data["status"] == "cut off"


async def test_streams_are_bounded_and_a_client_that_goes_is_forgotten(
    runs: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_STREAMS", 1)
    run = made(runs, 1, status="")
    async with serving() as caller:
        async with caller.stream(f"/api/runs/{run.run_id}/events", right="read") as stream:
            await stream.next("state")
            assert (await caller.send("/api/stream", right="read")).status == 429
        assert len(caller.ui.hub) == 0
        async with caller.stream(f"/api/runs/{run.run_id}/events", right="read") as stream:
            await stream.next("state")
        slow = streams.Subscriber("")
        for _ in range(streams.MAX_WAITING + 1):
            slow.tell(b"x")
        assert slow.ended  # it is ended, and what waits for it does not grow


async def test_a_whole_value_is_never_a_page(runs: FileStore) -> None:
    evil = "<script>alert(1)</script>" + "x" * 5_000_000
    run = made(runs, 1, task=evil)
    async with serving() as caller:
        at = f"/api/runs/{run.run_id}/value"
        got = await caller.send(f"{at}?line=2&pointer=/data/value", right="read")
        assert got.body.decode() == evil
        assert got.headers["content-type"] == "text/plain; charset=utf-8"
        assert "sandbox" in got.headers["content-security-policy"]
        assert (await caller.send(f"{at}?line=2&pointer=/data/notes", right="read")).json == []
        for bad, status in (
            ("line=2&pointer=/data/none", 404),
            ("line=9&pointer=", 404),
            ("line=0&pointer=", 400),
            ("pointer=/data", 400),
        ):
            assert (await caller.send(f"{at}?{bad}", right="read")).status == status
        for name in ("20260101-000000-ffffff", "..", "%2e%2e", "last"):
            assert (await caller.send(f"/api/runs/{name}/value?line=1", right="read")).status == 404


async def test_an_event_that_cannot_be_shown_does_not_end_the_page(runs: FileStore) -> None:
    def broken(number: int, event: dict[str, Any]) -> dict[str, Any]:
        return {"line": number, "kind": event["kind"], "n": float("nan")} if number == 1 else {"line": 1 / (number - 2)}

    run = made(runs, 1)
    async with serving(views=Views(broken, PLAIN.whole_value, PLAIN.run_page, PLAIN.runs_page)) as caller:
        page = json.loads((await caller.send(f"/runs/{run.run_id}", right="read")).body.decode().partition(">")[2])
        assert [event.get("kind") for event in page["events"]] == ["damaged", "damaged", None]


async def test_the_first_decision_counts_on_every_page() -> None:
    async with serving(WRITES, tools=[book], watch=True) as caller:
        async with caller.stream("/api/stream") as one, caller.stream("/api/stream", right="approve") as two:
            begun = await caller.send("/api/tasks", {"task": "book eight"})
            assert begun.status == 201
            asked = (await one.next("approval")).data
            assert (await two.next("approval")).data == asked
            assert (asked["tool"], asked["arguments"], asked["task"]) == ("book", [["n", "8"]], "book eight")
            assert asked["run_id"] == begun.json["run_id"]
            key = asked["key"]
            assert (await caller.send(f"/api/approvals/{key}", right="read")).json["whole"] == {"n": 8}
            assert (await caller.send(f"/api/approvals/{key}", {"decision": "maybe"})).status == 400
            assert (await caller.send(f"/api/approvals/{key}", {"decision": "approve"}, right="approve")).status == 200
            late = await caller.send(f"/api/approvals/{key}", {"decision": "deny"})
            assert (late.status, late.json) == (409, {"decision": "approve"})
            for stream in (one, two):
                assert (await stream.next("settled")).data["decision"] == "approve"
            while (row := (await one.next("run")).data)["status"] != "answered" or row["here"]:
                pass
            assert row["answer"] == '{"booked": 8}'
        async with caller.stream(f"/api/runs/{begun.json['run_id']}/events") as stream:
            events = [await stream.next() for _ in range(3)]
            assert events[0].data["data"]["source"] == "here"


async def test_what_is_approved_is_what_is_shown() -> None:
    made = asyncio.Queue[Any]()

    @tool(effect="write")
    async def pay(to: str, cents: int, more: dict[str, Any]) -> int:
        """Pay."""
        made.put_nowait((to, cents, more))
        return 1

    program = "answer = pay(to='a\\u202eb\\u200b', cents=12345678901234567891, more={'10': 1.0, '9': 'x\\U000e0041'})"
    async with (
        serving(f"```python\n{program}\n```", tools=[pay]) as caller,
        caller.stream("/api/stream") as stream,
    ):
        assert (await caller.send("/api/tasks", {"task": "pay \u202e"})).status == 201
        asked = (await stream.next("approval")).data
        whole = (await caller.send(f"/api/approvals/{asked['key']}", right="read")).json
        for text in (json.dumps(asked["arguments"], ensure_ascii=False), whole["text"], asked["task"]):
            assert text.replace("\n", "").isprintable()
        parts = ("\\u202eb", "12345678901234567891", '"10": 1.0', '"9"', "e0041")
        order = [whole["text"].index(part) for part in parts]
        assert order == sorted(order)
        assert (await caller.send(f"/api/approvals/{asked['key']}", {"decision": "approve"})).status == 200
        async with asyncio.timeout(60):
            paid = await made.get()
    assert paid == ("a\u202eb\u200b", 12345678901234567891, {"10": 1.0, "9": "x\U000e0041"})
    assert made.empty()


async def test_a_question_says_where_its_arguments_come_from_what_is_done_and_until_when_it_waits() -> None:
    @tool(effect="read")
    def list_products() -> list[dict[str, Any]]:
        """List products."""
        return [{"id": 4071, "name": "Kite"}, {"id": 4072, "name": "<b>Yo-yo</b>\u202e"}]

    @tool(effect="write")
    def order(product_id: int, count: int) -> int:
        """Order."""
        return count

    program = "for p in list_products():\n    order(product_id=p['id'], count=77)\nanswer = 1"
    asked = []
    served = serving(f"```python\n{program}\n```", tools=[list_products, order], watch=True, budget_s=300)
    async with served as caller, caller.stream("/api/stream") as stream:
        assert (await caller.send("/api/tasks", {"task": "order 77 of each"})).status == 201
        for _ in range(2):
            asked.append((await stream.next("approval")).data)
            assert (
                await caller.send(f"/api/approvals/{asked[-1]['key']}", {"decision": "approve"}, right="approve")
            ).status == 200
        while (await stream.next("run")).data["status"] != "answered":
            pass
    first, second = asked
    assert first["origins"] == [
        ["product_id", "[0].id of list_products (call 1): {'name': 'Kite'}"],
        ["count", "the task"],
    ]
    assert second["origins"][0] == ["product_id", "[1].id of list_products (call 1): {'name': '<b>Yo-yo</b>\\u202e'}"]
    assert (first["done"], second["done"]) == ([], ["order(product_id=4071, count=77)"])
    assert 0 < first["until"] - first["asked_at"] <= 300, "the run's own time ends before the question's"


def test_of_many_calls_that_are_done_a_question_names_the_last() -> None:
    done = tuple(Invocation(tool="book", arguments={"n": n, "key": "s3cret-key"}) for n in range(1_000))
    request = ApprovalRequest("book", {"n": 8}, Effect.WRITE, "", done=done)
    asked = Question("k", "r", "t", request, 0.0, 1.0, Mock()).record(Redactor(["s3cret-key"]))
    assert (len(asked["done"]), asked["done_before"]) == (MOST_DONE, 1_000 - MOST_DONE)
    assert "n=999" in asked["done"][-1]
    assert "s3cret" not in str(asked)


async def test_a_question_that_nobody_answers_is_a_no_and_a_run_can_be_stopped_and_resumed() -> None:
    replies = [WRITES] * 3
    async with serving(*replies, tools=[book], ask_wait_s=0.01) as caller:
        async with caller.stream("/api/stream") as stream:
            run_id = (await caller.send("/api/tasks", {"task": "book"})).json["run_id"]
            assert (await stream.next("settled")).data["decision"] == "late"
        async with caller.stream(f"/api/runs/{run_id}/events") as stream:
            while (state := (await stream.next("state")).data)["here"]:
                pass
            assert (state["status"], state["can"]) == ("denied", ["resume"])
            await stream.next("end")
    async with serving(*replies, tools=[book]) as caller, caller.stream("/api/stream") as stream:
        assert (await caller.send(f"/api/runs/{run_id}/resume", {})).status == 202
        assert (await stream.next("approval")).data["run_id"] == run_id
        assert (await caller.send(f"/api/runs/{run_id}/resume", {})).status == 400  # it goes on
        assert (await caller.send(f"/api/runs/{run_id}/stop", {})).status == 202
        assert (await stream.next("settled")).data["decision"] == "ended"
        async with caller.stream(f"/api/runs/{run_id}/events") as events:
            while (await events.next("state")).data["here"]:
                pass
        assert (await caller.send(f"/api/runs/{run_id}/stop", {})).status == 404
        assert (await caller.send(f"/api/runs/{run_id}/resume", {"reply": "yes"})).status == 400  # it asked nothing


async def test_a_list_hears_that_a_run_ended_here_also_after_the_last_line_of_its_trace(runs: FileStore) -> None:
    run, here = made(runs, 1), {"20260101-000000-000001"}
    hub = streams.Hub()
    parked = ParkedRuns(runs, Settings.load(), lambda source: False)
    planned = PlannedRuns(Settings.load(), lambda source: False)
    reading = Reading(runs, PLAIN, hub, here.__contains__, parked, planned)
    try:
        with hub.subscribed() as hears:
            await reading.fresh(60.0)  # it reads the whole trace, and the run has not ended here
            here.clear()
            reading.poke(run.run_id)
            await reading.fresh(60.0)
            assert b'"here":false' in hears.take()
    finally:
        reading.end()


async def test_a_run_of_other_tools_is_not_resumed_here(runs: FileStore) -> None:
    run = made(runs, 1, status="unsolved")
    await asyncio.to_thread(run.trace.write_bytes, run.trace.read_bytes().replace(b'"here"', b'"elsewhere"'))
    async with serving(WRITES, tools=[book]) as caller:
        async with caller.stream(f"/api/runs/{run.run_id}/events") as stream:
            assert (await stream.next("state")).data["can"] == []
        refused = await caller.send(f"/api/runs/{run.run_id}/resume", {})
        assert refused.status == 400
        assert f"atc resume {run.run_id}" in refused.message


async def test_a_folder_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    async with serving() as caller:
        caller.ui.reading.index._store = caller.ui.reading.store = Unreadable(tmp_path)
        refused = await caller.send("/api/runs", right="read")
        assert (refused.status, refused.json["error"]["kind"]) == (503, "EnvironmentProblem")
        assert "no entry" in refused.message


class Unreadable(FileStore):
    def versions(self) -> Any:
        raise PermissionError(13, "no entry", str(self.folder))
