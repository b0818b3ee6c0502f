"""The approval URL: it is told what waits, and its answer decides only where it is the one to this question."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from atc import SettingsError
from atc.calls.permissions.approvers import ApproverKey
from atc.run import approval_url
from atc.run.approval_url import MAX_ANSWER, MAX_QUESTION, SIGNATURE, signature_of
from atc.run.approvals import ASKED
from atc.settings import Settings
from tests.run.test_approvers import ANN, MALLORY, rules
from tests.run.test_parked_by_rule import PAY, Till

SECRET = "a-secret-of-the-tests"
TWO = "pay(cents=5)\npay(cents=6)\nanswer = 1"
Answer = Callable[[dict[str, Any]], Any]


class Desk:
    """An approval URL: it notes what it is asked, and answers as the test says."""

    def __init__(self) -> None:
        self.asked, self.heads = list[dict[str, Any]](), list[dict[str, str]]()
        self.bodies: list[bytes] = []
        self.answer: Answer = lambda question: None
        self.status, self.secret, self.headers = 200, SECRET, dict[str, str]()
        self.drip_s = 0.0
        desk = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                desk.bodies.append(body)
                desk.heads.append(dict(self.headers))
                desk.asked.append(json.loads(body))
                made = desk.answer(desk.asked[-1])
                content = made if isinstance(made, bytes) else b"" if made is None else json.dumps(made).encode()
                self.send_response(desk.status)
                for name, value in ({SIGNATURE: signature_of(desk.secret.encode(), content)} | desk.headers).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                try:
                    for start in range(0, len(content), 1 if desk.drip_s else len(content) or 1):
                        self.wfile.write(content[start : start + (1 if desk.drip_s else len(content))])
                        time.sleep(desk.drip_s)
                except OSError:  # who asked has heard enough
                    pass

            def do_GET(self) -> None:
                desk.asked.append({"redirected": self.path})
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/approve?token=in-the-address"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self.server.shutdown()
        self.server.server_close()

    def decides(self, *decisions: dict[str, Any], **more: Any) -> None:
        """Answer each question with these decisions."""
        self.answer = lambda question: {"nonce": question["nonce"], "decisions": list(decisions)} | more


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.close()


@pytest.fixture
def till(tmp_path: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Till:
    monkeypatch.setenv("ATC_APPROVAL_URL", desk.url)
    monkeypatch.setenv("ATC_APPROVAL_SECRET", SECRET)
    return Till(tmp_path)


def note(till: Till, run: str) -> dict[str, Any]:
    return till.agent().store.run(run).note(ASKED) or {}


def yes(call: int = 1, **more: Any) -> dict[str, Any]:
    return {"call": call, "yes": True, "by": "ann"} | more


def test_it_is_told_what_waits_and_its_yes_counts_at_the_resume(till: Till, desk: Desk) -> None:
    desk.decides(yes())
    waiting = till.agent(PAY).run("pay 5")
    assert (waiting.status, till.paid) == ("waiting", [])
    (asked,), (body,), (heads,) = desk.asked, desk.bodies, desk.heads
    assert heads[SIGNATURE] == signature_of(SECRET.encode(), body)
    assert (asked["run"], asked["task"], asked["done"]) == (waiting.run_id, "pay 5", [])
    (call,) = asked["calls"]
    assert (call["call"], call["tool"], call["arguments"], call["until"]) == (1, "pay", {"cents": 5}, asked["expires"])
    assert (note(till, waiting.run_id)["problem"], note(till, waiting.run_id)["decided"]) == ("", {"1": True})
    desk.answer = lambda question: pytest.fail("nothing waits any more")
    done = till.agent().resume(waiting.run_id)
    assert (done.status, till.paid, len(desk.asked)) == ("answered", [5], 1)
    assert done.calls[0].notes[0].startswith("approved by ann")
    lines = [json.loads(line) for line in (till.folder / "audit.jsonl").read_text().splitlines()]
    assert [(line["who"], line["via"]) for line in lines if line["verdict"] == "approved"] == [("ann", "url")]


def test_each_call_is_decided_apart_and_what_is_left_is_asked_about_again(till: Till, desk: Desk) -> None:
    desk.decides(yes(2, yes=False, by="bob"))
    waiting = till.agent(TWO).run("pay 5 and 6")
    desk.decides(yes(1))
    again = till.agent().resume(waiting.run_id)
    assert (again.status, [[call["call"] for call in asked["calls"]] for asked in desk.asked]) == (
        "waiting",
        [[1, 2], [1]],
    )
    assert (till.agent().resume(waiting.run_id).status, till.paid) == ("denied", [5])


@pytest.mark.parametrize("status", [202, 204])
def test_nobody_may_have_decided_yet(till: Till, desk: Desk, status: int) -> None:
    desk.status = status
    waiting = till.agent(PAY).run("pay 5")
    assert (note(till, waiting.run_id)["problem"], len(waiting.pending)) == ("", 1)
    till.agent().approve(waiting.run_id)  # it can be decided elsewhere all the same


def refused(till: Till, problem: str, program: str = PAY) -> None:
    """Run a program whose calls nobody approves: that is noted, and a resume sends nothing."""
    waiting = till.agent(program).run("pay")
    assert (waiting.status, note(till, waiting.run_id)["problem"]) == ("waiting", problem)
    assert (note(till, waiting.run_id)["decided"], till.paid) == ({}, [])
    found = till.agent().store.run(waiting.run_id)
    assert len(approval_url.waiting_run(found).pending) == program.count("pay(")


def test_an_answer_to_another_question_decides_nothing(till: Till, desk: Desk) -> None:
    answers: list[bytes] = []

    def first(question: dict[str, Any]) -> bytes:
        answers.append(json.dumps({"nonce": question["nonce"], "decisions": [yes()]}).encode())
        return answers[0]

    desk.answer = first
    till.agent(PAY).run("pay 5")
    desk.answer = lambda question: answers[0]  # of the run before, rightly signed
    refused(till, "nonce")


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        ({"decisions": [yes(7)]}, "form"),
        ({"decisions": [yes(), yes(yes=False)]}, "form"),
        ({"decisions": [yes(yes="true")]}, "form"),
        ({"decisions": [yes(yes=1)]}, "form"),
        ({"decisions": [yes(call=True)]}, "form"),
        ({"decisions": [yes(by="")]}, "form"),
        ({"decisions": [yes()], "calls": []}, "form"),
        ({"decisions": [yes()] * 1001}, "form"),
        ({"decisions": [yes(signature="x")]}, "refused"),
        ([], "form"),
        (b"{", "form"),
        (b"[" * 50_000, "form"),
    ],
)
def test_an_answer_that_is_not_understood_decides_nothing(till: Till, desk: Desk, made: Any, problem: str) -> None:
    desk.answer = lambda asked: {"nonce": asked["nonce"]} | made if isinstance(made, dict) else made
    refused(till, problem, TWO)


@pytest.mark.parametrize("twice", ['"yes": false, "yes": true', '"yes": true, "yes": true', '"yes": true, "call": 1'])
def test_an_answer_that_says_a_thing_twice_decides_nothing(till: Till, desk: Desk, twice: str) -> None:
    decision = f'{{"call": 1, {twice}, "by": "ann"}}'
    desk.answer = lambda asked: f'{{"nonce": "{asked["nonce"]}", "decisions": [{decision}]}}'.encode()
    refused(till, "form")


def test_the_question_is_no_answer_to_itself(till: Till, desk: Desk) -> None:
    desk.answer = lambda question: desk.bodies[-1]
    refused(till, "form")


@pytest.mark.parametrize("headers", [{SIGNATURE: ""}, {SIGNATURE: "sha256=" + "0" * 64}, {SIGNATURE: "sha256=é"}])
def test_an_answer_without_the_right_signature_decides_nothing(till: Till, desk: Desk, headers: dict[str, str]) -> None:
    desk.decides(yes())
    desk.headers = headers
    refused(till, "signature")


def test_an_answer_signed_with_another_secret_decides_nothing(till: Till, desk: Desk) -> None:
    desk.decides(yes())
    desk.secret = "another-secret-of-the-tests"
    refused(till, "signature")


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 500, 201])
def test_a_redirect_is_not_followed_and_no_other_status_decides(till: Till, desk: Desk, status: int) -> None:
    desk.decides(yes())
    desk.status, desk.headers = status, {"Location": desk.url.replace("approve", "elsewhere")}
    refused(till, "status")
    assert len(desk.asked) == 1


def test_a_large_answer_is_not_read_to_its_end(till: Till, desk: Desk) -> None:
    desk.answer = lambda question: b" " * (100 * MAX_ANSWER)
    refused(till, "answer_too_large")


def test_a_packed_answer_is_not_unpacked(till: Till, desk: Desk) -> None:
    desk.decides(yes())
    desk.headers = {"Content-Encoding": "gzip"}
    refused(till, "form")


def test_an_answer_that_drips_is_given_up(till: Till, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approval_url, "ANSWER_S", 0.5)
    desk.decides(yes())
    desk.drip_s = 0.05
    began = time.monotonic()
    refused(till, "slow")
    assert time.monotonic() - began < 30


def test_where_nobody_listens_the_run_waits(till: Till, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATC_APPROVAL_URL", "http://127.0.0.1:9/")
    refused(till, "unreachable")


def test_a_proxy_of_the_environment_is_not_asked(till: Till, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    desk.decides(yes())
    waiting = till.agent(PAY).run("pay 5")
    assert note(till, waiting.run_id)["decided"] == {"1": True}


def test_what_is_sent_is_masked_and_bounded(till: Till, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "sk-key-of-the-shop-1234")
    till.agent('answer = book(room="sk-key-of-the-shop-1234")', approve="park", permissions=None).run("book it")
    (sent,) = desk.bodies
    assert (b"sk-key-of-the-shop-1234" in sent, SECRET.encode() in sent) == (False, False)
    assert "[secret]" in desk.asked[0]["calls"][0]["arguments"]["room"]
    till.agent('answer = book(room="x" * 300_000)', approve="park", permissions=None).run("book it")
    assert (len(desk.bodies[1]) < MAX_QUESTION, desk.asked[1]["calls"][0]["cut"]) == (True, True)


def test_the_address_is_in_no_trace_and_no_note(till: Till, desk: Desk) -> None:
    waiting = till.agent(PAY).run("pay 5")
    kept = [path.read_text() for path in (till.folder / "runs" / waiting.run_id).iterdir()]
    assert not any("in-the-address" in text or SECRET in text for text in kept)
    assert note(till, waiting.run_id)["to"] in desk.url


# -- with approvers ----------------------------------------------------------------------------------------------------


def test_with_approvers_the_answer_carries_the_signature_of_one(
    till: Till, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    till.rules.write_text(rules(ann=ANN))
    key = {"ann": ANN, "mallory": MALLORY}
    signs = {"by": "ann", "said": "yes", "key": "ann", "call": 0}

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        text = question["calls"][signs["call"]]["statements"][signs["said"]]
        signature = ApproverKey(key[str(signs["key"])]).sign(text) if signs["key"] else ""
        return {"nonce": question["nonce"], "decisions": [yes(by=signs["by"], signature=signature)]}

    desk.answer = answer
    monkeypatch.setenv("ATC_APPROVER_KEY", ANN)  # it signs nothing that came from elsewhere
    for wrong in ({"key": ""}, {"key": "mallory"}, {"by": "mallory"}, {"said": "no"}, {"call": 1}):
        before = dict(signs)
        signs |= wrong
        refused(till, "refused", TWO)
        signs = signs | before
    waiting = till.agent(PAY).run("pay 5")
    assert note(till, waiting.run_id)["decided"] == {"1": True}
    assert (till.agent().resume(waiting.run_id).status, till.paid) == ("answered", [5])


# -- the settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://approve.example/",
        "ftp://approve.example/",
        "https://me:word@approve.example/",
        "https:///x",
        "x",
        "",
        "http://127.0.0.1.example/",
        "http://localhost.example/",
        "https://a b/",
        "http://[::1",
        "https://a:99999999/",
    ],
)
def test_an_address_that_others_could_read_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="https address"):
        Settings.load(approval_url=url, approval_secret=SECRET)


@pytest.mark.parametrize(
    "url", ["https://approve.example/x?y=z", "http://localhost:8/", "http://[::1]:8/", "http://127.0.0.1/"]
)
def test_an_address_needs_a_secret(url: str) -> None:
    with pytest.raises(SettingsError, match="approval_url needs approval_secret"):
        Settings.load(approval_url=url)
    with pytest.raises(SettingsError, match="approval_secret"):
        Settings.load(approval_url=url, approval_secret="short")
    assert Settings.load(approval_url=url, approval_secret=SECRET).approval_url == url
