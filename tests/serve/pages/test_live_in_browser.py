"""Live pages in a real browser, before a small server that answers as the API does: what comes is shown in place."""

from __future__ import annotations

import json
import queue
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from atc.serve.pages.run.page import run_page
from atc.serve.pages.run.shown import shown, whole_value
from atc.serve.pages.runs.page import runs_page
from tests.support.axe import findings
from tests.support.browser import Page
from tests.support.run_events import all_kinds, call, events_of

pytestmark = pytest.mark.slow

APPROVAL: dict[str, Any] = {
    "key": "k/1",
    "run_id": "20261123-174345-bb624b",
    "task": "<b>t</b>",
    "tool": "book<img src=x onerror=window.__pwned=1>",
    "effect": "write",
    "arguments": [["place", "'x' … (48,211 characters)"]],
    "cut": True,
    "warnings": ["careful"],
    "instead_of": [],
    "repeats": "",
    "in_doubt": False,
    "origins": [["place", "items[5].id of <i>list_places</i> (call 1): {'name': 'Kite'}"]],
    "done": ["book(place='y')"],
    "until": time.time() + 3_000,
}
CALL = {
    "index": 2,
    "digest": "d2",
    "tool": "book<img src=x onerror=window.__pwned=1>",
    "effect": "write",
    "line": 3,
    "arguments": [["place", "'<b>x</b>' … (48,211 characters)"]],
    "origins": [["place", "items[5].id of <i>list_places</i> (call 1)"]],
    "cut": True,
    "left_out": 0,
    "warnings": ["careful <img src=x onerror=window.__pwned=1>"],
    "notes_left": 0,
    "changed": ["asked again, for find (call 1) answers 2 now"],
    "until": time.time() + 600_000,
    "decided": None,
}
PARKED: dict[str, Any] = {
    "run_id": "20261123-174345-bb624b",
    "task": "<script>window.__pwned=1</script>",
    "calls": [CALL, {**CALL, "index": 3, "digest": "d3"}],
    "waits": 9,
    "left": 7,
    "done": ["pay(<b>)"],
    "done_before": 0,
    "here": True,
    "more": 0,
}
LIVE = {"api": "/p/api", "home": "/p/", "run": "/p/runs/", "rights": ["read", "approve", "run"]}


class Served:
    """What a page asks, and what it hears."""

    def __init__(self) -> None:
        self.url = ""
        self.html = ""
        self.asked: list[tuple[str, Any]] = []
        self.replies: dict[str, Any] = {}
        self.posts: dict[str, Any] = {}  # where a POST is answered otherwise
        self.to_say: queue.Queue[tuple[str, Any, int] | None] = queue.Queue()

    def say(self, name: str, data: Any, line: int = 0) -> None:
        """Send an event; ``message`` is one of the run."""
        self.to_say.put((name, data, line))


@contextmanager
def serving() -> Iterator[Served]:
    served = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path.startswith("/p/api"):
                served.asked.append((self.path, None))
            if parts.path.endswith(("/events", "/stream")):
                return self.stream()
            if not parts.path.startswith("/p/api"):
                return self.reply(served.html if parts.path != "/favicon.ico" else "", "text/html; charset=utf-8")
            given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            made = next(value for path, value in served.replies.items() if path in parts.path)
            return self.reply(json.dumps(made(given) if callable(made) else made), "application/json")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            served.asked.append((self.path, body))
            replies = served.posts or served.replies
            found: Any = next((value for path, value in replies.items() if path in self.path), {})
            self.reply(json.dumps(found), "application/json", 403 if "error" in found else 200)

        def stream(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            while (said := served.to_say.get()) is not None:
                name, data, line = said
                head = f"id: {line}\n" if line else ""
                head += f"event: {name}\n" if name != "message" else ""
                self.wfile.write(f"{head}data: {json.dumps(data)}\n\n".encode())
                self.wfile.flush()

        def reply(self, text: str, kind: str, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    served.url = f"http://127.0.0.1:{server.server_address[1]}/p/"
    try:
        yield served
    finally:
        for _ in range(8):
            served.to_say.put(None)
        server.shutdown()
        server.server_close()


@pytest.fixture
def served(page: Page) -> Iterator[Served]:
    with serving() as served:
        yield served
        page.open("about:blank")


def opened(page: Page, served: Served, html: str, *, dark: bool = False) -> None:
    served.html = html
    page.messages.clear()
    page.open(served.url, dark=dark)
    page.wait("document.body.dataset.ready === 'yes'")


def press(page: Page, words: str) -> None:
    button = f"[...document.querySelectorAll('button')].find((each) => each.textContent === {json.dumps(words)})"
    page.wait(f"{button} !== undefined")
    page.run(f"{button}.click()")


def test_a_run_is_followed_approved_and_gone_on_with(page: Page, served: Served) -> None:
    events = [made for n, event in enumerate(all_kinds(), 1) if (made := shown(n, event)) is not None]
    at = next(n for n, event in enumerate(events) if event["kind"] == "approval_asked")
    opened(page, served, run_page(events[:at], LIVE | {"run_id": APPROVAL["run_id"], "after": events[at - 1]["n"]}))
    assert page.text("#badge") == "◐ running"
    assert page.run("[document.getElementById('home').pathname, document.getElementById('home').innerText]") == [
        "/p/",
        "← All runs",
    ]
    page.run("document.querySelector('.call.is-good').focus(); document.querySelector('.call.is-good').click()")
    served.say("message", events[at], events[at]["n"])
    served.say("approval", APPROVAL)
    page.wait("document.querySelector('#asks dd') !== null")
    assert "48,211 characters" in page.text("#asks")
    origin = "document.querySelector('#asks dd .from').textContent"
    assert page.run(origin) == f"← from {APPROVAL['origins'][0][1]}"
    assert "done already: book(place='y')" in page.text("#asks").replace("\n", " ")
    assert re.search(r"waits until \d\d:\d\d \(\d+ min left\), then it is a no", page.text("#asks"))
    assert page.text("#badge") == "? waits for you"
    assert page.run("document.title").startswith("(1) ")
    page.run("document.querySelector('#asks .act').focus()")
    described = "document.getElementById(document.activeElement.getAttribute('aria-describedby')).innerText"
    assert "make this call? book" in page.run(described)
    page.run("document.querySelector('.call.is-good').focus()")
    assert page.run("document.activeElement.innerText").startswith("✓")  # nobody loses his place
    assert page.run("document.querySelector('.details') !== null") is True
    served.replies["/approvals/"] = {"decision": "approve"}
    press(page, "Approve")
    page.wait("document.getElementById('said').textContent === 'approved'")
    assert served.asked[-1] == ("/p/api/approvals/k%2F1", {"decision": "approve"})
    served.say("settled", {"key": "k/1"})
    page.wait("!document.title.startsWith('(')")
    served.say("message", events[at + 1], events[at + 1]["n"])
    page.wait("document.getElementById('badge').textContent === '◐ running'")
    for event in events[at + 2 :]:
        served.say("message", event, event["n"])
    served.say("message", events[at], events[at]["n"])  # what comes twice counts once
    served.say("state", {"status": "needs_input", "here": False, "can": ["reply"]})
    page.wait("document.getElementById('badge').textContent.includes('waits for your answer')")
    calls = page.run("RUN.calls.size")
    served.say("end", {})
    page.wait("document.getElementById('live').textContent === ''")
    page.run("document.getElementById('reply').value = 'The first.'")
    served.replies = {"/resume": {"error": {"kind": "busy", "message": "another process works on it"}}}
    press(page, "Answer and go on")
    page.wait("document.getElementById('said').textContent === 'another process works on it'")
    served.replies = {"/resume": {"run_id": "r"}}
    press(page, "Answer and go on")
    page.wait("document.getElementById('live').textContent === 'live'")
    assert ("/p/api/runs/20261123-174345-bb624b/resume", {"reply": "The first."}) in served.asked
    asked = [path for path, _ in served.asked if path.endswith(f"events?after={events[-1]['n']}")]
    assert asked, "it goes on after the last line"
    assert page.run("RUN.calls.size") == calls
    assert page.run("String(window.__pwned)") == "undefined"
    assert [each for each in page.messages if "403" not in each] == []


def test_the_whole_of_a_value_is_fetched(page: Page, served: Served) -> None:
    event = {"kind": "call_ended", "at": 1.79e9, "data": call(1, value={"rows": list(range(5_000))})}
    made = shown(7, event)
    assert made is not None
    served.replies["/value"] = lambda given: whole_value(event, given["pointer"])
    opened(page, served, run_page([made], LIVE | {"run_id": "r", "after": 7, "ended": True}))
    page.run("document.querySelector('.call').click()")
    page.run("document.querySelectorAll('.details .twig').forEach((e) => e.textContent.includes('rows') && e.click())")
    page.wait("document.querySelector('.details .more') !== null")
    page.run("document.querySelector('.details .more').click()")
    page.wait("document.querySelector('.details').innerText.includes('100 more of 5,000')")
    assert any("line=7&pointer=" in path for path, _ in served.asked)
    assert page.messages == []


def test_the_list_goes_on_searches_approves_and_begins(page: Page, served: Served) -> None:
    def row(n: int, **more: Any) -> dict[str, Any]:
        return {"run_id": f"20261123-000000-{n:06}", "task": f"task {n}", "status": "answered", "calls": 1} | more

    rows = [row(n) for n in range(900, 0, -1)]

    def some(given: dict[str, str]) -> dict[str, Any]:
        fit = [each for each in rows if given.get("query", "") in each["task"]]
        fit = [each for each in fit if each["run_id"] < given.get("before", "~")]
        limit = int(given["limit"])
        return {"runs": fit[:limit], "more": len(fit) > limit, "total": 900, "unread": unread.pop() if unread else 0}

    served.replies["/runs"] = some
    unread = [0, 300]
    about = {"model": "m<b>", "endpoint": "", "tools": 30, "writes": 4, "names": ["weigh", "book"], "problem": ""}
    opened(page, served, runs_page(rows[:100], LIVE | {"more": False, "total": 100, "unread": 800, "about": about}))
    assert page.text("#matches") == "100 runs · reads 800 more …"
    page.wait("document.getElementById('matches').textContent === '900 runs · reads 300 more …'")
    page.wait("document.getElementById('matches').textContent === '900 runs'")
    page.press("G")
    page.wait("rows.length > 200")
    served.say("approval", APPROVAL)
    page.wait("document.querySelector('#asks .approval') !== null")
    assert page.run("document.querySelectorAll('img').length") == 0
    page.press("g")
    served.say("run", row(901, run_id=APPROVAL["run_id"], status="cut off", here=True, task="the one that asks"))
    page.wait("[...document.querySelectorAll('.run .badge')].some((each) => each.innerText === '? waits for you')")
    served.replies["/approvals/"] = {"decision": "deny"}
    press(page, "Deny")
    page.wait("document.getElementById('said').textContent === 'denied'")
    served.say("settled", {"key": "k/1"})
    served.say("gone", {"run_id": APPROVAL["run_id"]})
    served.say("run", row(901, began=time.time() - 9_000, status="cut off", here=True, task="the newest"))
    served.say("run", row(900, task="changed"))
    page.press("g")
    page.wait("document.querySelector('.run').innerText.includes('the newest')")
    assert "running" in page.text(".run")
    assert page.text(".run time") == "2 h ago"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", page.run("document.querySelector('.run time').title"))
    page.wait("document.querySelectorAll('.run')[1].innerText.includes('changed')")
    page.press("/")
    page.type("task 77")
    page.wait("rows.length === 11")
    page.press("Escape")
    page.press("t")
    tools = "30, 4 with effects: weigh, book, and 28 more"
    assert page.text("#begin dl").split("\n") == ["Model", "m<b>", "Tools", tools]
    page.run("document.getElementById('task').value = 'Weigh it.'; document.getElementById('dry').checked = true")
    served.replies["/tasks"] = {"error": {"kind": "rights", "message": "this page may not"}}
    press(page, "Begin")
    page.wait("document.getElementById('wrong').textContent === 'this page may not'")
    served.replies["/tasks"] = {"run_id": "a b"}
    press(page, "Begin")
    page.wait("location.pathname === '/p/runs/a%20b'")
    assert ("/p/api/tasks", {"task": "Weigh it.", "dry_run": True}) in served.asked
    assert [each for each in page.messages if "403" not in each] == []


def test_a_page_without_rights_offers_nothing(page: Page, served: Served) -> None:
    opened(page, served, runs_page([], LIVE | {"rights": ["read"], "more": False}))
    assert page.run("document.getElementById('new').hidden") is True
    page.press("t")
    assert page.run("document.getElementById('begin').open") is False
    served.say("approval", APPROVAL)
    served.say("parked", PARKED)
    page.wait("document.querySelectorAll('#asks .approval').length === 2")
    assert page.run("document.querySelectorAll('#asks .act').length") == 0
    assert page.messages == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("listed", [False, True], ids=["run", "list"])
def test_nothing_keeps_people_from_answering_a_question(listed: bool, dark: bool, page: Page, served: Served) -> None:
    about = {"model": "m", "endpoint": "", "tools": 1, "writes": 1, "names": ["book"], "problem": "no model"}
    row = {"run_id": APPROVAL["run_id"], "status": "cut off", "here": True, "task": "t", "began": time.time()}
    started = shown(1, all_kinds()[0])
    assert started is not None
    if listed:
        html = runs_page([row], LIVE | {"more": False, "about": about})
    else:
        html = run_page([started], LIVE | {"run_id": APPROVAL["run_id"], "after": 1})
    opened(page, served, html, dark=dark)
    served.say("approval", APPROVAL)
    page.wait("document.querySelector('#asks .act') !== null")
    assert findings(page) == []
    if listed:
        page.press("t")
        assert findings(page) == []


@pytest.mark.parametrize("listed", [False, True], ids=["run", "list"])
def test_calls_that_wait_of_any_process_are_decided_on_a_phone_each_or_all(
    listed: bool, page: Page, served: Served
) -> None:
    row = {"run_id": PARKED["run_id"], "status": "waiting", "task": "t", "began": time.time()}
    started = shown(1, all_kinds()[0])
    assert started is not None
    html = runs_page([row], LIVE | {"more": False, "no_yes": ""})
    if not listed:
        html = run_page([started], LIVE | {"run_id": PARKED["run_id"], "after": 1, "no_yes": ""})
    served.html = html
    page.messages.clear()
    page.open(served.url, width=360)
    page.wait("document.body.dataset.ready === 'yes'")
    served.say("parked", PARKED)
    page.wait("document.querySelectorAll('#asks .form > li').length === 2")
    told = page.text("#asks")
    for text in (
        "9 calls wait for approval",
        "48,211 characters",
        "items[5].id of <i>list_places</i>",
        "careful <img",
        "asked again, for find",
        "waits until 20",
        "7 calls more, shown once these are decided",
        "pay(<b>)",
    ):
        assert text in told, text
    assert page.run("document.documentElement.scrollWidth") <= 360
    assert page.run("document.title").startswith("(1) ")
    assert page.run("document.querySelectorAll('#asks img, #asks script, #asks b, #asks i').length") == 0
    assert findings(page) == []
    where = f"/p/api/runs/{PARKED['run_id']}/pending"
    served.replies["/pending/2"] = {"text": "{\n all of it }"}
    press(page, "show all of it")
    page.wait("document.querySelector('#asks pre')?.textContent.includes('all of it')")
    assert (f"{where}/2", None) in served.asked

    one = {
        **PARKED,
        "waits": 1,
        "calls": [{**CALL, "decided": {"yes": False, "by": "ann", "at": time.time()}}, PARKED["calls"][1]],
    }
    served.replies = {"/pending": one}
    page.run("[...document.querySelectorAll('#asks .form .act')].find((each) => each.textContent === 'Deny').click()")
    page.wait("document.querySelector('#asks .chip.bad')?.textContent.startsWith('denied by ann')")
    assert (where, {"decision": "deny", "calls": [{"call": 2, "digest": "d2"}]}) in served.asked
    served.say(
        "parked", PARKED | {"calls": [*PARKED["calls"], {**CALL, "index": 4, "digest": "d4", "until": 1.0}], "waits": 3}
    )
    page.wait("document.querySelector('#asks').innerText.includes('too late to approve')")
    done = {
        **PARKED,
        "waits": 0,
        "left": 0,
        "calls": [{**each, "decided": {"yes": True, "by": "bob", "at": 1.7e9}} for each in PARKED["calls"]],
    }
    served.replies = {"/pending": done, "/resume": {"run_id": PARKED["run_id"]}}
    press(page, "Approve these 2")
    page.wait("document.getElementById('said').textContent === '2 calls approved'")
    calls = [{"call": 2, "digest": "d2"}, {"call": 3, "digest": "d3"}]  # not the one that came too late
    assert (where, {"decision": "approve", "calls": calls}) in served.asked
    page.wait("document.querySelector('#asks').innerText.includes('approved by bob')")
    press(page, "Go on")
    page.wait(
        "location.pathname.endsWith('/runs/20261123-174345-bb624b')"
        if listed
        else "document.getElementById('said').textContent === 'resumed'"
    )
    assert (f"/p/api/runs/{PARKED['run_id']}/resume", {}) in served.asked
    assert page.run("String(window.__pwned)") == "undefined"
    assert page.messages == []


def test_a_stale_form_says_who_was_first_and_shows_what_is_so(page: Page, served: Served) -> None:
    opened(page, served, runs_page([], LIVE | {"more": False, "no_yes": ""}))
    served.say("parked", PARKED)
    refused = {"error": {"kind": "Stale", "message": "call 2 was approved before, by bob"}}
    bob = {"yes": True, "by": "bob", "at": time.time()}
    served.replies["/pending"] = lambda given: {
        **PARKED,
        "waits": 0,
        "calls": [{**each, "decided": bob} for each in PARKED["calls"]],
    }
    served.posts["/pending"] = refused
    press(page, "Approve these 2")
    page.wait("document.getElementById('said').textContent === 'call 2 was approved before, by bob'")
    page.wait("document.querySelectorAll('#asks .chip.good').length === 2")
    served.say("parked", {"run_id": PARKED["run_id"], "calls": [], "waits": 0, "left": 0, "more": 3})
    page.wait("document.querySelectorAll('#asks .form').length === 0")
    assert "3 runs more wait" in page.text("#asks")


def test_a_form_that_may_not_be_approved_here_says_why_and_one_that_is_damaged_is_named(
    page: Page, served: Served
) -> None:
    opened(page, served, runs_page([], LIVE | {"more": False, "no_yes": "begin `atc ui` at a terminal"}))
    served.say("parked", PARKED | {"here": False})
    served.say(
        "parked",
        {**PARKED, "run_id": "20261123-174345-000000", "calls": [], "waits": 0, "left": 0, "damage": "record 3 is <b>"},
    )
    page.wait("document.querySelectorAll('#asks .approval').length === 2")
    buttons = page.run("[...document.querySelectorAll('#asks .act')].map((each) => each.textContent)")
    assert buttons == ["Deny", "Deny", "Deny these 2"]
    assert "begin `atc ui` at a terminal" in page.text("#asks")
    assert "record 3 is <b>" in page.text("#asks")
    decided = {"yes": True, "by": "bob", "at": time.time()}
    served.say("parked", {**PARKED, "here": False, "waits": 0, "left": 0, "calls": [{**CALL, "decided": decided}]})
    page.wait(f"document.querySelector('#asks').innerText.includes('atc resume {PARKED['run_id']}')")


PLAN: dict[str, Any] = {
    **{name: PARKED[name] for name in ("run_id", "done_before", "here")},
    "heading": "2 calls with effects planned",
    "calls": [{**CALL, "notes": ["note <b>"]}, {**CALL, "index": 3, "notes": []}],
    "left": 0,
    "stop": "from line 7 on nothing is known",
    "unseen": "",
    "digest": "p1",
    "until": time.time() + 600_000,
    "goes_on": False,
    "began": False,
    "done": [],
}


def planned_events() -> list[dict[str, Any]]:
    """A dry run that has ended with a plan, as its page gets it."""
    started = {"run_id": PLAN["run_id"], "task": "book", "model": "m", "tools": 1, "turn": 1, "dry_run": True}
    found = {"planned": [{"index": 2, "tool": "book", "effect": "write", "line": 3, "arguments": {"place": "x"}}]}
    ended = {"status": "planned", "dry_run": found}
    events = events_of(("run_started", started), ("run_ended", ended))
    return [made for n, event in enumerate(events, 1) if (made := shown(n, event)) is not None]


def test_a_plan_is_applied_with_one_button_and_the_fresh_one_is_shown_where_it_changed(
    page: Page, served: Served
) -> None:
    events = planned_events()
    opened(page, served, run_page(events, LIVE | {"run_id": PLAN["run_id"], "after": len(events)}))
    served.say("plan", PLAN)
    served.say("state", {"status": "planned", "here": False, "can": []})
    page.wait("document.querySelectorAll('#asks .form > li').length === 2")
    assert page.run("[...document.querySelectorAll('#asks .act')].map((each) => each.textContent)") == ["Apply"]
    for words in ("2 calls with effects planned", "note <b>", "careful <img", "from line 7 on", "all is read again"):
        assert words in page.text("#asks")
    assert page.run("document.querySelectorAll('#outcome ol.plan').length") == 0  # it is shown once
    assert findings(page) == []
    served.replies["/apply"] = {
        "error": {"kind": "Stale", "message": "look at it again"},
        "plan": {**PLAN, "digest": "p2", "goes_on": True, "began": True, "done": ["book(n=1)"]},
    }
    time.sleep(0.7)  # the form stands still before it is pressed
    press(page, "Apply")
    page.wait("document.getElementById('said').textContent === 'look at it again'")
    assert served.asked[-1] == (f"/p/api/runs/{PLAN['run_id']}/apply", {"digest": "p1"})
    page.wait("document.querySelector('#asks').innerText.includes('done already')")
    assert "reads are answered as they were" in page.text("#asks")
    served.replies["/apply"] = {"run_id": PLAN["run_id"]}
    time.sleep(0.7)
    press(page, "Apply")
    page.wait("document.getElementById('said').textContent === 'applied: the run goes on'")
    assert ("/p/api/runs/" + str(PLAN["run_id"]) + "/apply", {"digest": "p2"}) in served.asked
    applied = {**PLAN, "calls": [], "digest": "", "applied": {"by": "ann <b>", "at": time.time()}}
    for _ in range(3):  # the stream of before may still take one
        served.say("plan", applied)
    page.wait("document.querySelector('#asks').innerText.includes('the plan was applied: yes by ann <b>')")
    assert page.run("window.__pwned") is None


PROPOSAL: dict[str, Any] = {
    "run_id": PLAN["run_id"],
    "name": "letters",
    "signature": "letters(word: string)",
    "about": "Count <b>letters</b>",
    "effect": "reads; calls count",
    "parameters": [{"name": "word", "value": "'<img src=x onerror=window.__pwned=1>'", "why": "it stands in the task"}],
    "constants": [{"name": "n", "value": "'k-77'", "why": "count had returned it", "confirm": True}],
    "program": "answer = count(word=word)  # </script><img src=x onerror=window.__pwned=1>",
    "doubts": ["its run ended with a warning"],
    "unfit": [],
    "digest": "d1",
}


def test_a_run_is_kept_as_a_tool_once_it_was_shown(page: Page, served: Served) -> None:
    ended = {"status": "answered", "value": 4, "answer": "4"}
    started = {"run_id": PROPOSAL["run_id"], "task": "count", "model": "m", "tools": 1, "turn": 1}
    events = events_of(("run_started", started), ("run_ended", ended))
    made = [each for n, event in enumerate(events, 1) if (each := shown(n, event)) is not None]
    opened(page, served, run_page(made, LIVE | {"run_id": PROPOSAL["run_id"], "after": len(made)}))
    served.say("state", {"status": "answered", "here": False, "can": ["keep"]})
    page.wait("document.getElementById('keep-as') !== null")
    assert findings(page) == []
    page.run("document.getElementById('keep-as').value = ' letters '")
    served.replies["/keep"] = {"proposal": {**PROPOSAL, "unfit": ["a tool has this name"], "digest": ""}}
    press(page, "Show the tool")
    page.wait("document.querySelector('#asks').innerText.includes('a tool has this name')")
    assert "Keep" not in page.run("[...document.querySelectorAll('#asks .act')].map((each) => each.textContent)")
    served.replies["/keep"] = {"proposal": PROPOSAL}
    press(page, "Show the tool")
    page.wait("document.querySelector('#asks').innerText.includes('letters(word: string)')")
    for words in ("Count <b>letters", "'<img src=x", "count had returned it", "</script>", "ended with a warning"):
        assert words in page.text("#asks")
    assert findings(page) == []
    served.replies["/keep"] = {
        "error": {"kind": "Stale", "message": "look again"},
        "proposal": {**PROPOSAL, "digest": "d2"},
    }
    time.sleep(0.7)
    press(page, "Keep")
    page.wait("document.getElementById('said').textContent === 'look again'")
    assert served.asked[-1] == (f"/p/api/runs/{PROPOSAL['run_id']}/keep", {"name": "letters", "digest": "d1"})
    served.replies["/keep"] = {"kept": "letters"}
    time.sleep(0.7)
    press(page, "Keep")
    page.wait("document.querySelector('#asks').innerText.includes('atc tools call letters')")
    assert served.asked[-1][1] == {"name": "letters", "digest": "d2"}
    assert page.run("window.__pwned") is None


def test_a_plan_that_may_not_be_applied_here_names_the_command(page: Page, served: Served) -> None:
    events = planned_events()
    live = LIVE | {"run_id": PLAN["run_id"], "after": len(events)}
    opened(page, served, run_page(events, live | {"no_yes": "begin `atc ui` at a terminal"}))
    served.say("plan", PLAN)
    page.wait("document.querySelectorAll('#asks .form > li').length === 2")
    assert "begin `atc ui` at a terminal" in page.text("#asks")
    for other, words in (
        ({"here": False}, "where its tools are: "),
        ({"digest": "", "left": 1}, "not all of it is shown here: "),
        ({"until": 1.0}, "too late to apply it"),
    ):
        served.say("plan", {**PLAN, **other})
        page.wait(f"document.querySelector('#asks').innerText.includes({json.dumps(words)})")
        assert (f"atc runs apply {PLAN['run_id']}" in page.text("#asks")) == ("until" not in other)
        assert page.run("document.querySelectorAll('#asks .act').length") == 0
    served.say("plan", {**PLAN, "calls": [], "digest": ""})
    served.say("state", {"status": "planned", "here": False, "can": []})
    page.wait("document.querySelector('#asks .act')?.textContent === 'Do it for real'")
