"""``atc ui`` as its own process: over plain HTTP, and with a real browser."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from atc.settings import Settings
from atc.traces.stores.files import FileStore
from tests.support.browser import browsing
from tests.support.cli import atc, endpoints, settle
from tests.support.fake_openai_server import says
from tests.support.terminal import Terminal

pytestmark = pytest.mark.slow
BOOKS = "```python\nanswer = book(n=8)\n```"
ROOT = Path(__file__).parents[3]


@dataclass
class Running:
    """A process that serves the page, and what it said of itself."""

    process: subprocess.Popen[str]
    told: dict[str, Any]

    def ask(self, path: str, body: Any = None, right: str = "run", **headers: str) -> tuple[int, Any]:
        given = {"Authorization": f"Bearer {self.told['tokens'][right]}", "Content-Type": "application/json", **headers}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(
                urllib.request.Request(self.told["api"] + path, data, given), timeout=60
            ) as got:
                return got.status, json.loads(got.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


@contextmanager
def running(*options: str) -> Iterator[Running]:
    command = [sys.executable, "-m", "atc", "ui", "--json", *options]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            lines: list[str] = []
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if line == "}\n":
                    break
            assert lines, "it ended before it said where it is"
            yield Running(process, json.loads("".join(lines)))
        finally:
            process.kill()


@pytest.fixture
def _settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settle(tmp_path, monkeypatch)
    with endpoints(monkeypatch) as start:
        start(says(BOOKS))
        yield


@pytest.mark.usefixtures("_settled")
def test_a_task_is_begun_approved_and_read_in_a_browser_and_ctrl_c_ends_all(tmp_path: Path) -> None:
    with running("--tools", "tools.py") as server, browsing() as page:
        way = tmp_path / "way.html"  # as `atc ui` opens a browser
        way.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={server.told["urls"]["run"]}">')
        page.open(way)
        # The address with the token answers with a page of its own, which goes on to the one without.
        page.wait("location.protocol === 'http:' && !location.search && document.readyState === 'complete'")
        assert page.run("location.href").endswith(server.told["api"].removesuffix("api")[-10:])
        status, begun = server.ask("/tasks", {"task": "book a room"})
        assert status == 201
        page.wait("[...document.querySelectorAll('button')].some(b => b.innerText === 'Approve' && b.offsetParent)")
        page.run("[...document.querySelectorAll('button')].find(b => b.innerText === 'Approve').click()")
        page.wait("(document.body?.innerText ?? '').includes('answered')")
        page.run(f"location.assign('/{server.told['api'].split('/')[3]}/runs/{begun['run_id']}')")
        page.wait(f"location.href.endsWith('{begun['run_id']}') && (document.body?.innerText ?? '').includes('booked')")
        assert not page.messages
        assert {url.split("/")[2] for url in page.requests if url.startswith("http")} == {
            f"127.0.0.1:{server.told['port']}"
        }
        assert server.ask("/tasks", {"task": "x"}, right="read")[0] == 403
        status, waiting = server.ask("/tasks", {"task": "book another"})
        assert status == 201
        assert server.interrupt() == 0  # though a page is open, and a call waits for approval
    run = FileStore(Settings.load().runs_dir).run(waiting["run_id"])
    assert "run_ended" in [event["kind"] for event in run.events()]


@pytest.mark.usefixtures("_settled")
def test_what_cannot_be_served_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = atc("ui", "--port", port, "--json")
    assert refused.exit_code == 3
    assert f"port {port}" in json.loads(refused.stdout)["error"]["message"]
    with running() as server:  # without tools the page only shows
        assert list(server.told["tokens"]) == ["read"]
        assert server.ask("/runs", right="read") == (200, {"runs": [], "more": False, "total": 0, "unread": 0})
        assert server.ask("/runs", right="read", Origin="http://127.0.0.1:1")[0] == 403
        assert server.ask("/runs", right="read", Host="evil.example")[0] == 421
        assert server.interrupt() == 0


@pytest.mark.usefixtures("_settled")
def test_a_write_of_a_run_that_has_ended_is_approved_on_a_page_and_made_once_by_a_resume(tmp_path: Path) -> None:
    def ended(*command: str) -> tuple[int, Any]:
        made = [sys.executable, "-m", "atc", *command, "--json"]
        ran = subprocess.run(made, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        return ran.returncode, json.loads(ran.stdout)

    code, waiting = ended("run", "book 8", "--tools", "tools.py", "--approve", "park")  # its process is gone now
    assert (code, waiting["status"]) == (8, "waiting")
    with running() as server:  # and what no person began shows it, and has no right to approve
        assert server.ask("/pending", right="read")[1]["runs"][0]["calls"][0]["arguments"] == [["n", "8"]]
        assert list(server.told["tokens"]) == ["read"]
    with Terminal("ui", "--no-open") as terminal, browsing() as page:  # another port, and no tools
        terminal.wait_for("only read: ")
        terminal.wait_for("Ctrl-C ends this")
        shown = terminal.shown.replace("\r", "")
        address = next(line for line in shown.split("\n") if line.startswith("approve and read: "))
        page.open(address.split(": ", 1)[1].strip())
        page.wait("document.querySelector('#asks .form') !== null")
        assert "book" in page.text("#asks .form")
        page.wait("performance.now() - moved > STILL_MS")  # a pointer is held back until the form stands still
        button = "[...document.querySelectorAll('#asks .act')].find((each) => each.textContent === 'Approve')"
        box = page.run(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({button}.getBoundingClientRect())"
        )
        page.click(*box)
        page.wait("document.querySelector('#asks .chip.good')?.textContent.includes('on the page of `atc ui`')")
        assert f"atc resume {waiting['run_id']}" in page.text("#asks")
        assert not page.messages
    code, done = ended("resume", waiting["run_id"])
    assert (code, done["status"], [call["tool"] for call in done["calls"] if call["status"] == "ok"]) == (
        0,
        "answered",
        ["book"],
    )
