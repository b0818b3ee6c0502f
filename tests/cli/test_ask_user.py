"""`--ask` and `--reply`: a program asks the user, at the terminal or with the end of a run."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.support.cli import GOOD, atc
from tests.support.fake_openai_server import says
from tests.support.terminal import Terminal

pytestmark = pytest.mark.usefixtures("settled")


ASKS = "```python\nanswer = double(n=int(ask_user(question='How many?\\n\x1b[2J')))\n```"


def test_what_a_program_asks_ends_a_run_without_a_terminal_and_its_reply_goes_on(endpoint: Any) -> None:
    endpoint(says(ASKS))
    ran = atc("run", "double it", "-t", "tools.py", "--ask")
    assert ran.exit_code == 7
    assert "── waits for your answer ──" in ran.stdout
    assert "the program asks the user: 'How many?\\n\\x1b[2J'" in ran.stdout
    assert "→ not answered yet" in ran.stdout
    assert "\x1b" not in ran.stdout + ran.stderr
    assert "--reply TEXT" in ran.stdout
    assert json.loads(atc("runs", "--json").stdout)[0]["status"] == "needs_input"
    again = atc("resume", "last", "--json")
    assert (again.exit_code, json.loads(again.stdout)["question"]) == (7, "How many?\n\x1b[2J")
    done = atc("resume", "last", "--reply", "21", "--json")
    assert (done.exit_code, json.loads(done.stdout)["value"]) == (0, 42)
    wrong = atc("resume", "last", "--reply", "21")
    assert wrong.exit_code == 2


def test_no_program_asks_unless_it_may(endpoint: Any) -> None:
    server = endpoint(says(GOOD), says(GOOD))
    assert atc("run", "double 21", "-t", "tools.py").exit_code == 0
    assert atc("run", "double 21", "-t", "tools.py", "--ask").exit_code == 0
    without, wanted = (json.dumps(request["messages"]) for request in server.requests)
    assert ("ask_user" in without, "ask_user" in wanted) == (False, True)


@pytest.mark.slow
def test_a_question_is_answered_at_the_terminal_and_an_interrupt_ends_it(endpoint: Any) -> None:
    endpoint(says(ASKS), says(ASKS))
    with Terminal("run", "double it", "-t", "tools.py", "--ask") as terminal:
        terminal.wait_for("cannot say]: ")
        assert "  | How many?\r\n  | \\x1b[2J" in terminal.shown
        terminal.type("21\n")
        terminal.wait_for("value: 42")
        assert terminal.ended() == 0
    with Terminal("run", "double it", "-t", "tools.py", "--ask") as terminal:
        terminal.wait_for("cannot say]: ")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.ended() == 130
    assert atc("runs", "show", "last").exit_code == 0


def test_a_script_goes_on_after_a_question(endpoint: Any) -> None:
    server = endpoint(says(ASKS), says(GOOD))
    ran = atc("chat", "-t", "tools.py", "--ask", "--json", stdin="double it\ndouble 21\n")
    documents = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [(document["status"], document["value"]) for document in documents] == [
        ("needs_input", None),
        ("answered", 42),
    ]
    assert ran.exit_code == 7
    assert "the program asks the user: 'How many?" in json.dumps(server.requests[1]["messages"])
