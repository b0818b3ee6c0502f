"""`atc chat`: lines are tasks, on a terminal and from a script; and `--instructions`."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atc.cli import run as cli
from atc.run.approvals import decide
from atc.settings import Settings
from atc.traces.stores import open_store
from tests.support.cli import GOOD, atc
from tests.support.fake_openai_server import says
from tests.support.terminal import Terminal

SLOW = "```python\nanswer = slow(n=60)\n```"
MORE = "```python\nanswer = answer_1 + double(n=1)\n```"

pytestmark = pytest.mark.usefixtures("settled")


def test_each_line_of_a_script_is_a_task_and_a_document(endpoint: Any) -> None:
    endpoint(says(GOOD), says(MORE), says("nothing"), says(GOOD))
    lines = "double 21\n\nand two more\n/nonsense\nfail\n/new\ndouble 21\n/quit\nnever read\n"
    ran = atc("chat", "--tools", "tools.py", "--json", "--set", "max_revisions=0", "--set", "rules=none", stdin=lines)
    documents = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [document.get("value") for document in documents] == [42, 44, None, None, 42]
    assert documents[2]["error"]["kind"] == "UsageError"
    assert "/quit" in documents[2]["error"]["message"]
    ids = [document["run_id"] for document in documents if "run_id" in document]
    assert (len(set(ids[:3])), len(set(ids))) == (1, 2)
    assert ran.exit_code == 2, "of the first that was not answered"


def test_a_script_is_shown_in_plain_lines_and_the_whole_conversation_by_show(endpoint: Any) -> None:
    endpoint(says(GOOD), says(MORE))
    ran = atc("chat", "-t", "tools.py", stdin="double 21\nand two more\n/show\n/help\n")
    assert ran.exit_code == 0
    for line in ("value: 42", "── the next task ──", "value: 44", "2. and two more", "/new"):
        assert line in ran.stdout
    shown = atc("runs", "show", "last").stdout
    assert "task: double 21" in shown
    assert "task: and two more" in shown
    assert [row["task"] for row in json.loads(atc("runs", "--json").stdout)] == ["and two more"]


BOOK = "```python\nanswer = book(n=4)\n```"


def test_the_next_line_says_what_waits_and_a_decided_task_goes_on_before_it(
    endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint(says(BOOK), says(GOOD))

    def lines() -> Iterator[str]:
        yield "book 4"
        yield "double 21"
        decide(open_store(Settings.load()).find("last"), None, yes=True)
        yield "double 21"

    read = lines()
    monkeypatch.setattr(cli, "_line_of_input", lambda: next(read, None))
    ran = atc("chat", "-t", "tools.py", "--approve", "park", "--json")
    documents = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [document.get("status", "refused") for document in documents] == [
        "waiting",
        "refused",
        "answered",
        "answered",
    ]
    assert "task 1 waits for approval: book(n=4) (`atc runs approve" in documents[1]["error"]["message"]
    assert ["booked" in str(document["value"]) for document in documents[2:]] == [True, False]
    assert ran.exit_code == 8, "of the first that was not answered"


def test_a_chat_says_that_its_next_line_goes_on(endpoint: Any) -> None:
    endpoint(says(BOOK))
    shown = atc("chat", "-t", "tools.py", "--approve", "park", stdin="book 4\n").stdout
    assert "decides, the next line then continues it" in shown


def test_instructions_come_from_the_line_or_a_file(endpoint: Any, tmp_path: Path) -> None:
    server = endpoint(says(GOOD), says(GOOD), says(GOOD))
    (tmp_path / "wishes.txt").write_text("our tenant is t-4711\n")
    assert atc("run", "double 21", "-t", "tools.py", "--instructions", "@wishes.txt").exit_code == 0
    assert atc("chat", "-t", "tools.py", "--instructions", "be brief", stdin="double 21\n").exit_code == 0
    prompts = [request["messages"][-1]["content"] for request in server.requests]
    assert "```text\nour tenant is t-4711\n```\n\nTask: double 21" in prompts[0]
    assert "```text\nbe brief\n```\n\nTask: double 21" in prompts[1]


@pytest.mark.parametrize(
    ("given", "words"),
    [("@missing.txt", "No such file"), ("@bytes.bin", "no UTF-8"), ("@long.txt", "4,000"), ("x" * 4_001, "4000")],
)
def test_instructions_that_cannot_be_used_say_why(tmp_path: Path, given: str, words: str) -> None:
    (tmp_path / "bytes.bin").write_bytes(b"\xff\xfe")
    (tmp_path / "long.txt").write_text("x" * 4_001)
    ran = atc("run", "double 21", "-t", "tools.py", "--instructions", given)
    assert ran.exit_code == 2
    assert words in ran.stderr


@pytest.mark.slow
def test_an_interrupt_stops_the_task_and_the_next_one_goes_on(endpoint: Any) -> None:
    endpoint(says(SLOW), says(GOOD))
    with Terminal("chat", "-t", "tools.py", "--approve", "always") as terminal:
        terminal.wait_for("> ")
        terminal.type("be slow\n")
        terminal.wait_for("slow …")
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_for("stopped; what it did until then is kept; if you leave now, `atc resume ")
        terminal.type("double 21\n")
        terminal.wait_for("value: 42")


@pytest.mark.slow
def test_a_task_that_was_stopped_is_gone_on_with_after_the_chat(endpoint: Any) -> None:
    endpoint(says(SLOW))
    with Terminal("chat", "-t", "tools.py", "--approve", "always") as terminal:
        terminal.wait_for("> ")
        terminal.type("be slow\n")
        terminal.wait_for("slow …")
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_for("continues it")
        terminal.type("/quit\n")
        terminal.ended()
    told = re.search(r"if you leave now, `atc (resume \S+)` continues it", terminal.shown)
    assert told is not None
    again = [sys.executable, "-m", "atc", *told[1].split(), "--approve", "always"]
    ran = subprocess.run(again, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 6, ran.stdout  # the write that was under way is in doubt
    assert "in doubt" in ran.stderr + ran.stdout


@pytest.mark.slow
def test_an_interrupt_at_the_prompt_ends_it(endpoint: Any) -> None:
    endpoint(says(GOOD))
    with Terminal("chat", "-t", "tools.py") as terminal:
        terminal.wait_for("> ")
        while terminal.process.poll() is None:  # the first one may come before the prompt reads
            terminal.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                terminal.process.wait(10)
        assert terminal.ended() == 130


def test_a_conversation_has_a_type_of_answer_as_a_run_has(endpoint: Any) -> None:
    endpoint(says(GOOD))
    asked = ("chat", "-t", "tools.py", "--json", "--set", "max_revisions=0", "--set", "rules=none", "--answer")
    ran = atc(*asked, "number", stdin="double 21\n")
    assert (json.loads(ran.stdout)["value"], ran.exit_code) == (42, 0)
    ran = atc(*asked, "list", stdin="double 21\n")
    assert (json.loads(ran.stdout)["status"], ran.exit_code) == ("unsolved", 1)
    ran = atc(*asked, "nubmer", stdin="double 21\n")
    assert ran.exit_code == 2
    assert "did you mean 'number'?" in ran.stderr
