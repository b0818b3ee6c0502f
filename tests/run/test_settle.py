"""Calls in doubt: a read or a person settles them. What was done is not sent again; what was not takes approval."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from atc import Agent, FakeModel, Result
from atc._records.records import SettledCall
from atc.calls.approval import ApprovalRequest
from atc.calls.entry import CallEntry
from atc.calls.idempotency import new_key
from atc.calls.journal import Journal, call_key
from atc.calls.named_calls import sent_arguments
from atc.calls.sending import MAX_RETRY_AFTER_S
from atc.calls.settled import Settlement
from atc.errors import JournalError, RunInUse, UsageError
from atc.result import Effect
from atc.run import settling
from atc.run.settling import Settling, settle_by_hand
from atc.tools.keys import KeyPlace, KeyRule
from atc.tools.openapi.importer import import_openapi

TEXT = {"type": "string"}
ORDER = {"name": "order_id", "in": "query", "required": True, "schema": TEXT}
PAY = 'pay(order_id="o\'1\\"")\nanswer = "paid"'
NEEDS = 'answer = pay(order_id="o\'1\\"")["receipt"]'
TABLE = """
[tools."pay"]
settle.read = "get_order(order_id=$order_id)"
settle.done = { "body.state" = "paid" }
settle.not_done = { "body.state" = "open" }
"""


class Shop(BaseHTTPRequestHandler):
    """A service that pays an order, and answers after its client is gone."""

    def do_POST(self) -> None:
        shop: Any = self.server
        (order,) = parse_qs(urlsplit(self.path).query)["order_id"]
        shop.asked.append(order)
        if shop.loses:
            shop.gone.wait(10)
        if shop.pays:
            shop.state = "paid"
        self._answer(200, {"receipt": "r1"})

    def do_GET(self) -> None:
        shop: Any = self.server
        shop.read.append(parse_qs(urlsplit(self.path).query)["order_id"][0])
        status, body = shop.says(len(shop.read)) if shop.says else (200, {"state": shop.state})
        self._answer(status, body)

    def _answer(self, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            pass

    def log_message(self, *_: Any) -> None:
        pass


class Place:
    """The service, a permissions file, and agents that each stand for a process of its own."""

    def __init__(self, folder: Path, server: Any) -> None:
        self.folder, self.server = folder, server
        self.file = folder / "permissions.toml"
        self.name(TABLE)

    def name(self, text: str) -> None:
        self.file.write_text('[[rules]]\nallow = "nothing"\n' + text)
        self.file.chmod(0o600)

    def agent(self, *programs: str, **given: Any) -> Agent:
        document = {
            "openapi": "3.0.0",
            "info": {"title": "Shop", "version": "1"},
            "servers": [{"url": f"http://127.0.0.1:{self.server.server_port}"}],
            "paths": {
                "/orders": {
                    "get": {"operationId": "get_order", "parameters": [ORDER], "responses": {}},
                    "post": {"operationId": "pay", "parameters": [ORDER], "responses": {}},
                }
            },
        }
        tools = import_openapi(document)
        settings = {"sentence": False, "approve": "always", "runs_dir": self.folder / "runs", "learn": False}
        settings |= {"permissions": self.file, "call_timeout_s": 0.5, "audit": self.folder / "audit.jsonl"}
        return Agent(tools, model=FakeModel([f"```python\n{each}\n```" for each in programs]), **{**settings, **given})

    def lost(self, program: str = PAY) -> Result[Any]:
        """Run a program whose payment is sent, and whose answer comes after the client is gone."""
        self.server.loses = True
        with self.agent(program) as agent:
            result = agent.run("pay the order o'1\"")
        self.server.loses = False
        assert result.status == "in_doubt", result.fault
        assert result.fault is not None
        settles = "`get_order(" in (result.fault.hint or "")
        assert settles == ("settle" in self.file.read_text())
        return result

    def comes_late(self) -> None:
        """Let the service do what it was asked for."""
        self.server.gone.set()
        while self.server.pays and self.server.state != "paid":
            time.sleep(0.01)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(settling, "PAUSE_S", 0.01)
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    server.asked, server.read, server.says = [], [], None
    server.state, server.loses, server.pays, server.gone = "open", False, True, threading.Event()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield Place(tmp_path, server)
    server.gone.set()
    server.shutdown()
    server.server_close()


def test_a_read_settles_what_was_done_after_its_client_was_gone(place: Place) -> None:
    lost = place.lost()
    place.comes_late()
    with place.agent() as agent:
        (found,) = agent.settle(lost.run_id)
        assert (found.outcome, found.by) == ("done", "get_order(order_id=$order_id)")
        assert agent.settle(lost.run_id) == ()
        result = agent.resume(lost.run_id)
    assert (result.status, result.value) == ("answered", "paid")
    assert place.server.asked == ["o'1\""] == place.server.read  # quotes and all: a value is handed over
    assert [call.tool for call in result.done] == ["pay"]
    kinds = [event["kind"] for event in agent.store.find(lost.run_id).events()]
    assert kinds.count("call_settled") == 1


def test_a_resume_settles_by_itself(place: Place) -> None:
    lost = place.lost()
    place.comes_late()
    with place.agent() as agent:
        assert agent.resume(lost.run_id).value == "paid"
    assert len(place.server.asked) == 1


def test_a_program_that_needs_the_answer_of_a_settled_call_stops_and_says_so(place: Place) -> None:
    lost = place.lost(NEEDS)
    place.comes_late()
    with place.agent(NEEDS, NEEDS, NEEDS) as agent:
        result = agent.resume(lost.run_id)
    assert result.status != "answered"
    assert "its answer is not known" in str(result.fault and result.fault.message)
    assert len(place.server.asked) == 1


def test_not_done_takes_the_time_limit_and_a_second_reading_and_then_a_yes(place: Place) -> None:
    lost = place.lost()
    asked: list[ApprovalRequest] = []
    place.server.pays = False
    place.comes_late()
    with place.agent() as agent:
        (found,) = agent.settle(lost.run_id)
    assert (found.outcome, len(place.server.read)) == ("not_done", 2)
    with place.agent(PAY, PAY, PAY) as agent:  # under "always", without a terminal
        denied = agent.resume(lost.run_id)
    assert (denied.status, len(place.server.asked)) == ("denied", 1)
    assert "said not to have been done" in str(denied.fault and denied.fault.message)

    def says_yes(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    place.server.pays = True
    with place.agent(PAY, approve=says_yes) as agent:
        assert agent.resume(lost.run_id).status == "answered"
    assert (len(place.server.asked), place.server.state) == (2, "paid")
    assert [each.same_as and each.same_as.settled for each in asked] == [True]


def test_a_call_that_was_not_done_may_wait_for_its_yes(place: Place) -> None:
    lost = place.lost()
    place.server.pays = False
    place.comes_late()
    with place.agent(approve="park") as agent:
        waiting = agent.resume(lost.run_id)
        assert waiting.status == "waiting"
        assert "said not to have been done" in waiting.pending[0].warnings[-1]
        agent.approve(lost.run_id)
        place.server.pays = True
        assert agent.resume(lost.run_id).status == "answered"
    assert len(place.server.asked) == 2


def test_a_service_that_is_at_it_still_is_not_taken_for_one_that_did_nothing(place: Place) -> None:
    lost = place.lost()
    place.server.says = lambda reading: (200, {"state": "open" if reading == 1 else "paid"})
    with place.agent() as agent:
        (found,) = agent.settle(lost.run_id)
    assert (found.outcome, len(place.server.read)) == ("done", 2)


def test_a_call_whose_answer_did_not_come_in_time_gets_its_time_limit_once_more(place: Place) -> None:
    """Its service takes longer than that, so what is read right after says nothing."""
    lost = place.lost()
    with place.agent() as agent:
        (gave_up,) = [e["at"] for e in agent.store.find(lost.run_id).events() if e["kind"] == "call_ended"]
        (found,) = agent.settle(lost.run_id)
    assert (found.outcome, len(place.server.read)) == ("not_done", 2)
    assert time.time() >= gave_up + 0.5


def test_a_call_with_a_key_may_have_been_sent_once_more_before_its_process_was_killed(place: Place) -> None:
    entry = CallEntry(1, call_key("pay", {}), {}, Effect.WRITE, 0, sent=True)
    with place.agent() as agent:
        settling_ = Settling(agent, Journal(), "r", {1: time.time()}, 0.5, lambda _: None)
        plain = settling_._left(entry)
        entry.idempotency = new_key(KeyRule(KeyPlace("header", "Idempotency-Key")), "", time.time())
        assert (plain <= 0.5, settling_._left(entry) > 2 * 0.5 + MAX_RETRY_AFTER_S - 0.4) == (True, True)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ((200, {"state": "being paid"}), "neither"),
        ((200, {"states": ["paid"]}), "neither"),
        ((200, {"state": ["paid", "open"]}), "neither"),
        ((200, {"state": None}), "neither"),
        ((200, {"error": {"message": "no such order"}, "state": "?"}), "neither"),
        ((403, {"message": "not yours"}), "failed"),
        ((500, {"state": "paid"}), "failed"),
        ((200, {"state": "paid", "more": "x" * 5_000_000}), "failed"),
    ],
)
def test_what_a_read_does_not_surely_say_leaves_the_doubt(place: Place, says: Any, why: str) -> None:
    lost = place.lost()
    place.server.says = lambda _: says
    with place.agent() as agent:
        (found,) = agent.settle(lost.run_id)
        assert (found.outcome, found.why, len(found.said) <= settling.MAX_SAID) == ("in_doubt", why, True)
        assert agent.resume(lost.run_id).status == "in_doubt"
    assert len(place.server.asked) == 1


def test_a_first_reading_that_the_second_does_not_bear_out_settles_nothing(place: Place) -> None:
    lost = place.lost()
    place.server.says = lambda reading: (200, {"state": "open" if reading == 1 else "unsure"})
    with place.agent() as agent:
        (found,) = agent.settle(lost.run_id)
    assert (found.outcome, found.why) == ("in_doubt", "changed")


def test_a_status_counts_and_is_200_of_a_read_that_succeeded(place: Place) -> None:
    lost = place.lost()
    place.name(TABLE.split("settle.done")[0] + "settle.done.status = 200\nsettle.not_done.status = 404\n")
    place.server.says = lambda _: (404, {})
    with place.agent() as agent:
        (found,) = agent.settle(lost.run_id)
    assert found.outcome == "not_done"


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("", "no_read"),
        (TABLE.replace("get_order(", "pay("), "not_a_read"),
        (TABLE.replace("get_order(", "gone("), "no_tool"),
        (TABLE.replace("$order_id", "$nothing"), "no_value"),
        (TABLE.replace("$order_id", "$order_id.more[0]"), "no_value"),
        (TABLE.replace("order_id=$", "order=$"), "failed"),  # its schema refuses the argument
        (TABLE + '\n[effects]\nget_order = "write"\n', "not_a_read"),
        (TABLE + '\n[[rules]]\ndeny = "get_order"\n', "no_tool"),
        (TABLE + '\n[[rules]]\ndeny = "get_order"\narguments = { order_id = "*1*" }\n', "failed"),
    ],
)
def test_only_a_read_that_may_be_called_settles(place: Place, table: str, why: str) -> None:
    lost = place.lost()
    place.comes_late()
    place.name(table)
    with place.agent() as agent:
        (found,) = agent.settle(lost.run_id)
    assert (found.outcome, found.why) == ("in_doubt", why)
    assert (len(place.server.asked), place.server.read) == (1, [])


def test_a_run_that_somebody_works_on_is_not_settled(place: Place) -> None:
    lost = place.lost()
    with place.agent() as agent:
        held = agent.store.find(lost.run_id).open_journal()
        with pytest.raises(RunInUse):  # a resume, or another one that settles
            agent.settle(lost.run_id)
        held.close()
        with pytest.raises(UsageError, match="call 7 is not in doubt"):
            agent.settle(lost.run_id, calls=[7])


def test_a_person_may_settle_by_hand(place: Place) -> None:
    lost = place.lost()
    with place.agent() as agent:
        (found,) = agent.settle(lost.run_id, calls=[1], done=True, by="ann")
        assert found == SettledCall(index=1, tool="pay", arguments={"order_id": "o'1\""}, outcome="done", by="ann")
        with pytest.raises(UsageError, match="call 1 is not in doubt"):
            agent.settle(lost.run_id, calls=[1], done=False)
        with pytest.raises(UsageError, match="name them by their numbers"):
            agent.settle(lost.run_id, done=False)
        assert agent.resume(lost.run_id).value == "paid"
    assert (len(place.server.asked), place.server.read) == (1, [])


def test_what_was_settled_is_read_back_and_a_damaged_record_refuses_the_journal(place: Place) -> None:
    lost = place.lost()
    path = place.folder / "runs" / lost.run_id / "journal.jsonl"
    with place.agent() as agent:
        settle_by_hand(agent.store.find(lost.run_id), [1], done=False, by="ann")
    *before, record = path.read_text().splitlines(keepends=True)
    journal = Journal(path)
    assert journal.entries[1].is_settled_as_not_done
    journal.close()
    for damage in (
        record.replace("false", "0", 1),
        record.replace('"by": "ann"', '"by": 1'),
        record.replace('"settled": 1', '"settled": 2'),
        record.replace('"at": ', '"at": 1e300, "was": '),
        record + record,
        record.replace("settled", "sealed"),  # as a version sees it that does not know the record
    ):
        path.write_text("".join(before) + damage)
        with pytest.raises(JournalError):
            Journal(path)
    path.write_text("".join(before) + record[:20])  # a crash cut it short
    journal = Journal(path)
    assert journal.in_doubt() is not None
    journal.close()


def test_what_an_earlier_task_of_a_conversation_did_after_all_is_not_done_again() -> None:
    journal = Journal()
    journal.begin_attempt()
    for number in (1, 2):
        key = call_key("pay", {"order": str(number)})
        entry = journal.begin(number, key, {"order": str(number)}, Effect.WRITE)
        journal.fail(entry, surely_not_done=False, message="lost")
    journal.begin_request(answered=False)
    for number, done in ((1, True), (2, False)):
        journal.settle(number, Settlement(done, "ann", person=True, at=0.0))
    assert journal.left(call_key("pay", {"order": "1"})) is journal.entries[1]
    assert journal.claim(call_key("pay", {"order": "1"})) is None
    assert journal.left(call_key("pay", {"order": "2"})) is None
    assert [entry.number for entry in journal.equal_writes(call_key("pay", {"order": "2"}))] == [2]


def test_a_call_whose_credential_the_journal_masks_is_not_asked_about() -> None:
    entry = CallEntry(1, call_key("pay", {"token": "s3cret"}), {"token": "***"}, Effect.WRITE, 0)
    assert sent_arguments(entry) is None
    assert sent_arguments(CallEntry(1, call_key("pay", {"n": 1.0}), {"n": 1}, Effect.WRITE, 0)) == {"n": 1}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_one_word_settles_a_call_that_was_sent_again_with_its_key(number: int) -> None:
    journal, key = Journal(), call_key("pay", {"order": "4"})
    for again in (0, 1, 1):
        journal.begin_attempt()
        entry = journal.begin(len(journal.entries) + 1, key, {"order": "4"}, Effect.WRITE, again=again)
        journal.fail(entry, surely_not_done=False, message="lost")
    journal.begin_attempt()
    journal.settle(number, Settlement(True, "ann", person=True, at=0.0))
    assert journal.in_doubt() is None
    assert journal.claim(key) is journal.entries[number]
    assert journal.unasked("pay") is None
    with pytest.raises(UsageError, match="is not in doubt"):
        journal.settle(number % 3 + 1, Settlement(False, "ann", person=True, at=0.0))
